"""The reload of the configuration in the parent of several workers."""

from pathlib import Path

from msgspec import structs

from gateway.config import ConfigError
from gateway.config.reload import merge_reloaded
from gateway.config.schema import Config
from gateway.config.sources import ConfigSource


def reload_for_workers(source: ConfigSource, running: Config) -> Config | None:
    """Return the new configuration, and copy its file for the workers.

    If it is invalid, its errors are logged and the result is None. Workers read the copy, so that
    all of them use the same content even if the file changes meanwhile.
    """
    # Imported here because the parent needs no log before.
    from gateway.observability.logging import LOG, logging_config  # noqa: PLC0415

    logging_config(running.logging).configure()
    try:
        candidate = _copy_file(source)
        config, _ = merge_reloaded(running, structs.replace(source, copy=candidate).load())
    except ConfigError as error:
        LOG.error("configuration not reloaded", errors=error.errors)
        return None
    except OSError as error:
        LOG.error("configuration not reloaded", errors=[str(error)])
        return None
    if candidate is not None and source.copy is not None:
        candidate.replace(source.copy)
    return config


def _copy_file(source: ConfigSource) -> Path | None:
    if source.path is None or source.copy is None:
        return None
    candidate = source.copy.with_suffix(".new")
    candidate.write_bytes(source.path.read_bytes())
    return candidate
