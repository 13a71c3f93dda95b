"""Which tables of the configuration a running gateway can apply again."""

from typing import Final

from msgspec import structs

from gateway.config.schema import Config

# All other tables are used only at the start.
RELOADED_TABLES: Final = (
    "loss_policy",
    "access",
    "timeouts",
    "retries",
    "circuit_breaker",
    "replies",
    "logging",
    "legacy",
    "backends",
)


def merge_reloaded(running: Config, loaded: Config) -> tuple[Config, list[str]]:
    """Return the configuration after a reload, and the keys whose change requires a restart."""
    kept = {
        field.name: getattr(running, field.name)
        for field in structs.fields(Config)
        if field.encode_name not in RELOADED_TABLES
    }
    changed = [key for name, table in kept.items() for key in _changed(name, table, loaded)]
    return structs.replace(loaded, **kept), changed


def _changed(name: str, running: object, loaded: Config) -> list[str]:
    other: object = getattr(loaded, name)
    return [
        f"{name}.{field.encode_name}"
        for field in structs.fields(running)  # type: ignore[arg-type]  # each of them is a table
        if getattr(running, field.name) != getattr(other, field.name)
    ]
