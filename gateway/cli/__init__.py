"""The command line: one module per command."""

import importlib.util
import sys
from importlib.abc import InspectLoader

# A name by which the source of our `adapters` is recognized.
_OWN_NAME = "DragomanError"


def run() -> None:
    """Run the command `dragoman`."""
    foreign = _find_foreign_adapters()
    if foreign is not None:
        sys.exit(
            f"dragoman: the package `adapters` at {foreign} belongs to another distribution; "
            "install Dragoman in an environment of its own, for example with `pipx install`"
        )
    from gateway.cli.commands import main  # noqa: PLC0415 - imports `adapters`

    main(prog_name="dragoman")


def _find_foreign_adapters() -> str | None:
    """Return the path of a package `adapters` that is not ours, if there is one.

    Another distribution has a package of the same name, which may hide or overwrite ours. Only its
    source is read, because its import may fail or take long.
    """
    spec = importlib.util.find_spec("adapters")
    if spec is None or not isinstance(spec.loader, InspectLoader):
        return None
    source = spec.loader.get_source("adapters")
    return spec.origin if source is not None and _OWN_NAME not in source else None
