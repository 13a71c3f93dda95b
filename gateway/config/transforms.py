"""Transforms in the configuration: classes of the user, by their import paths."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import cast

import msgspec

from adapters import Transform
from gateway.config.key_checks import Table, check_shape, key_path, one_of
from gateway.config.schema import TransformConfig

# What the code of a user may raise while it is imported.
_ANY = (Exception, SystemExit)


class TransformConfigError(ValueError):
    """A transform that cannot be used: its key, if it is not the whole entry, and the errors."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(self.errors))


def make_transforms(configs: Iterable[str | TransformConfig]) -> tuple[Transform, ...]:
    """Return the transforms of a backend; raise `TransformConfigError` if one cannot be used."""
    return tuple(map(make_transform, configs))


def make_transform(config: str | TransformConfig, path: str = "") -> Transform:
    """Return a transform; `path` is the key of its entry in error messages."""
    given = TransformConfig(config) if isinstance(config, str) else config
    where = key_path(path, "use") if path and config is given else path
    try:
        found = _find_class(given.use)
    except ValueError as error:
        raise TransformConfigError([_at(where, str(error))]) from error.__cause__
    if errors := [*_option_errors(found, given.options, path)]:
        raise TransformConfigError(errors)
    return msgspec.convert(given.options, found)


def check_transforms(configs: Iterable[str | TransformConfig], path: str) -> Iterator[str]:
    """Yield the errors of all transforms of a backend."""
    for index, config in enumerate(configs):
        try:
            make_transform(config, f"{path}[{index}]")
        except TransformConfigError as error:
            yield from error.errors


def _at(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message


def _find_class(use: str) -> type[Transform]:
    """Import a class; raise `ValueError` if that is not possible."""
    module_name, _, name = use.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        remedy = "install it in the environment of dragoman, or set PYTHONPATH"
        raise ValueError(f"cannot import {module_name}: {error}; {remedy}") from error
    except _ANY as error:
        raised = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot import {module_name}, which raised {raised}") from error
    found = cast("object", getattr(module, name, None))
    if isinstance(found, type) and issubclass(found, Transform) and found is not Transform:
        return found
    names = [
        known
        for known, value in cast("Mapping[str, object]", vars(module)).items()
        if isinstance(value, type) and issubclass(value, Transform) and value is not Transform
    ]
    if found is not None:
        raise ValueError(f"{use} is not a subclass of adapters.Transform")
    similar = get_close_matches(name, names, n=1) or names
    hint = f"; expected {one_of(similar)}" if similar else ""
    raise ValueError(f"{module_name} has no {name}{hint}")


def _option_errors(found: type[Transform], options: Table, path: str) -> Iterator[str]:
    """Yield the errors of options, which are the fields of the class."""
    where = key_path(path, "options") if path else "options"
    shape_errors = list(check_shape(options, found, where))
    if shape_errors:
        yield from shape_errors
        return
    try:
        msgspec.convert(options, found)
    except msgspec.ValidationError as error:
        # The class itself rejects the options.
        yield f"{where}: {error}"
    except _ANY as error:
        yield f"{where}: {found.__name__} raised {type(error).__name__}: {error}"
