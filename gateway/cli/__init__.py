"""The command line: one module per command."""

import importlib.util
import sys
from importlib.abc import InspectLoader

# A name by which the source of our `adapters` is recognized.
_OWN_NAME = "DragomanError"


_REMEDY = "install Dragoman in an environment of its own, for example with `pipx install`"


def run() -> None:
    """Run the command `dragoman`."""
    fault = _find_fault_of_adapters()
    if fault is not None:
        sys.exit(f"dragoman: the package `adapters` {fault}; {_REMEDY}")
    from gateway.cli.commands import main  # noqa: PLC0415 - imports `adapters`

    main(prog_name="dragoman")


def _find_fault_of_adapters() -> str | None:
    """Return what is wrong with the package `adapters`, if it is not ours or incomplete.

    Another distribution has a package of the same name, which may hide or overwrite ours; when it
    is uninstalled, files of ours are missing. Only the source is read, because the import of the
    other package may fail or take long.
    """
    spec = importlib.util.find_spec("adapters")
    # A folder without `__init__.py` has no origin.
    if spec is None or spec.origin is None:
        return "is missing or incomplete, perhaps because another distribution was uninstalled"
    if not isinstance(spec.loader, InspectLoader):
        return None
    source = spec.loader.get_source("adapters")
    if source is None or _OWN_NAME in source:
        return None
    return f"at {spec.origin} belongs to another distribution"
