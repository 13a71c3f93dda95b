"""The configuration that is in force, as a TOML text without secrets."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct, structs

from gateway.config.database import describe_database
from gateway.config.key_checks import key_path, quoted
from gateway.config.schema import BackendConfig, Config, KeyConfig, StateConfig

# Stands for a value that may be a secret.
HIDDEN = "(not shown)"


def write_toml(config: Config) -> str:
    """Return a configuration with all defaults.

    Values that may be secrets are hidden: digests of keys, headers, and user names and passwords in
    URLs. A key that is not set is a comment.
    """
    return "\n".join(_struct_lines("", config)).lstrip("\n") + "\n"


def write_value(value: object) -> str:
    """Return a value in the inline form of TOML."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float() | date():
            return str(value)
        case Struct():
            return write_value(_fields(value))
        case Mapping():
            table = cast("Mapping[str, object]", value)
            pairs = (f"{key_path('', key)} = {write_value(table[key])}" for key in table)
            return f"{{ {', '.join(pairs)} }}" if table else "{}"
        case list() | tuple():
            return f"[{', '.join(map(write_value, cast('Iterable[object]', value)))}]"
        case _:
            return quoted(str(value)).replace("\x7f", "\\u007f")


def _fields(struct: Struct) -> dict[str, object]:
    return {key: value for key, value in _shown(struct).items() if value is not None}


def _struct_lines(header: str, struct: Struct) -> Iterator[str]:
    """Yield the lines of a table: its values first, then the tables in it."""
    tables: list[tuple[str, object]] = []
    for key, value in _shown(struct).items():
        if isinstance(value, Struct) or _is_table_array(value):
            tables.append((key, value))
        elif value is None:
            yield f"# {key} is not set"
        else:
            yield f"{key_path('', key)} = {write_value(value)}"
    for key, value in tables:
        path = f"{header}.{key}" if header else key
        for struct_or_element, heading in _headed(value, path):
            yield ""
            yield heading
            yield from _struct_lines(path, struct_or_element)


def _headed(value: object, path: str) -> Iterator[tuple[Struct, str]]:
    if isinstance(value, Struct):
        yield value, f"[{path}]"
        return
    for element in cast("tuple[Struct, ...]", value):
        yield element, f"[[{path}]]"


def _is_table_array(value: object) -> bool:
    if not isinstance(value, tuple) or not value:
        return False
    return all(isinstance(element, Struct) for element in cast("tuple[object, ...]", value))


def _shown(struct: Struct) -> dict[str, object]:
    """Return the fields of a table, with hidden secrets."""
    values = {field.encode_name: getattr(struct, field.name) for field in structs.fields(struct)}
    shown: dict[str, object] = {key: _without_user(value) for key, value in values.items()}
    match struct:
        case StateConfig():
            shown["url"] = describe_database(struct)
        case KeyConfig():
            shown["sha256"] = HIDDEN
        case BackendConfig():
            shown["headers"] = dict.fromkeys(struct.headers, HIDDEN)
        case _:
            pass
    return shown


def _without_user(value: object) -> object:
    if not isinstance(value, str) or "@" not in value or "://" not in value:
        return value
    parts = urlsplit(value)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"…@{host}").geturl()
