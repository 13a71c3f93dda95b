"""The option `--transform PATH[=OPTIONS]`."""

import msgspec
import rich_click as click

from adapters import Transform
from gateway.config.key_checks import check_shape
from gateway.config.schema import TransformConfig
from gateway.config.transforms import TransformConfigError, make_transform


def read_transforms(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[Transform, ...]:
    """Return the given transforms, in their order."""
    return tuple(map(_read_transform, values))


def _read_transform(text: str) -> Transform:
    use, equals, options = text.partition("=")
    table: dict[str, object] = {"use": use}
    if equals:
        try:
            table["options"] = msgspec.json.decode(options)
        except (msgspec.DecodeError, RecursionError):
            raise click.BadParameter(f"the options of {use} must be a JSON object") from None
    if errors := list(check_shape(table, TransformConfig)):
        raise click.BadParameter("; ".join(errors))
    try:
        return make_transform(msgspec.convert(table, TransformConfig))
    except TransformConfigError as error:
        raise click.BadParameter(f"{use}: {error}") from error.__cause__
