"""Who may import whom.

In the core, dialects stand on the hub, the hub on nothing, and nothing there waits. In the service,
each package stands on those below it: the memory knows nothing of addresses, the store of nothing.
"""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import adapters

ROOT = Path(__file__).parent.parent
DIALECTS = tuple(adapters.DIALECTS)

# Parts of the hub that are more than one file.
HUB_FOLDERS = ("ir", "reasoning", "stages", "text_tools", "tool_emulation", "translation", "wire")

# Legacy is Chat with other words for calls, at the same address and in one history with it, so it
# reads as Chat reads and writes what Chat writes but for those words. No other dialect may lean on
# another: what two of them share belongs to the hub.
LEANS_ON = {"legacy": "chat"}

# The one module that puts the dialects together.
ASSEMBLY = "adapters"

# What waits, what reads a clock or draws a number, and what sees the machine that it runs on.
WAITS = {"asyncio", "concurrent", "multiprocessing", "queue", "sched", "select", "threading"}
NETWORK = {"ftplib", "http", "selectors", "smtplib", "socket", "socketserver", "ssl", "urllib"}
CHANGES = {"contextvars", "datetime", "random", "secrets", "time", "uuid", "zoneinfo"}
FILES = {"fileinput", "glob", "io", "mmap", "os", "pathlib", "shutil", "sqlite3", "tempfile"}
MACHINE = {"ctypes", "importlib", "logging", "platform", "signal", "subprocess", "sys", "warnings"}
FORBIDDEN = WAITS | NETWORK | CHANGES | FILES | MACHINE
FORBIDDEN_CALLS = {"open", "input", "print", "eval", "exec", "breakpoint", "__import__"}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _trees(folder: str) -> dict[str, ast.Module]:
    return {_name(p): ast.parse(p.read_bytes()) for p in sorted((ROOT / folder).rglob("*.py"))}


TREES = _trees("adapters")
SERVICE = _trees("gateway")
ALL = TREES | SERVICE


def _imports(module: str) -> Iterator[str]:
    """Give what a module imports, wherever in it the import stands."""
    for node in ast.walk(ALL[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            source = node.module or ""
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in ALL else source


def _folder(module: str) -> str | None:
    """Give the dialect that a module belongs to; None for the hub."""
    _, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    return first if first in DIALECTS else None


every_module = pytest.mark.parametrize("module", TREES)


def test_every_folder_is_a_dialect_or_a_part_of_the_hub() -> None:
    folders = {path.parent.name for path in (ROOT / "adapters").glob("*/__init__.py")}
    assert folders == {*DIALECTS, *HUB_FOLDERS}


@every_module
def test_needs_only_msgspec_and_what_never_waits(module: str) -> None:
    for imported in _imports(module):
        root = imported.partition(".")[0]
        known = root in {"adapters", "msgspec"} or root in sys.stdlib_module_names
        assert known, f"{module} imports {imported}"
        assert root not in FORBIDDEN, f"{module} imports {imported}"


@every_module
def test_is_not_asynchronous_and_touches_nothing_outside(module: str) -> None:
    for node in ast.walk(TREES[module]):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, f"{module}:{node.lineno}"


@every_module
def test_imports_only_what_is_below(module: str) -> None:
    """Nobody but the assembly sees a dialect, save the dialect itself."""
    if module == ASSEMBLY:
        return
    own = _folder(module)
    for imported in _imports(module):
        assert imported != ASSEMBLY, f"{module} imports the assembly"
        other = _folder(imported)
        fine = other in (None, own) or (own is not None and LEANS_ON.get(own) == other)
        assert fine, f"{module} imports {imported}"


def test_declared_exceptions_are_needed() -> None:
    used = {
        (_folder(module), _folder(imported))
        for module in TREES
        if _folder(module) is not None
        for imported in _imports(module)
    }
    assert set(LEANS_ON.items()) <= used


@pytest.mark.parametrize("modules", [TREES, SERVICE], ids=["adapters", "gateway"])
def test_no_import_cycles(modules: dict[str, ast.Module]) -> None:
    graph = {module: [i for i in _imports(module) if i in modules] for module in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


# The service

# The packages of the service, and on which of the others each may stand.
STANDS_ON: dict[str, set[str]] = {
    "api": {
        "backends",
        "background",
        "compaction",
        "http",
        "observability",
        "openapi",
        "pipeline",
        "store",
        "turns",
        "websocket",
    },
    "backends": {"config", "http", "observability"},
    "background": {"http", "observability", "pipeline", "server", "store", "turns"},
    "cli": {"config", "server"},
    "compaction": {"backends"},
    "config": set(),
    "demo": set(),
    "http": {"config", "observability"},
    "observability": {"config"},
    "openapi": {"config"},
    "pipeline": {"backends", "compaction", "config", "http", "observability", "store", "turns"},
    "server": {"config", "store"},
    "store": set(),
    "turns": {"http", "store"},
    "websocket": {"http", "observability", "pipeline", "server", "store", "turns"},
}

# Who serves requests, and what puts everything together.
SERVING = {"gateway.app", "gateway.context", "gateway.pipeline.handler", "gateway.server.run"}

# What is used by those who serve, and so cannot use them.
SERVES_THEM = {"config", "demo", "store"}


def _package(module: str) -> str | None:
    """Give the package of the service that a module belongs to; None for a single file."""
    name = module.removeprefix("gateway.").partition(".")[0]
    return name if name in STANDS_ON and module.startswith("gateway.") else None


def test_every_package_of_the_service_has_its_place() -> None:
    assert STANDS_ON.keys() == {path.parent.name for path in ROOT.glob("gateway/*/__init__.py")}


@pytest.mark.parametrize("package", STANDS_ON)
def test_a_package_stands_on_those_below_it(package: str) -> None:
    modules = [module for module in SERVICE if _package(module) == package]
    used = {_package(imported) for module in modules for imported in _imports(module)}
    assert used - {None, package} == STANDS_ON[package]


@pytest.mark.parametrize("package", sorted(SERVES_THEM))
def test_what_serves_requests_is_used_by_nobody_below(package: str) -> None:
    for module in (module for module in SERVICE if _package(module) == package):
        assert not SERVING & {*_imports(module)}, module


def test_the_store_knows_nothing_of_the_service() -> None:
    for module in (module for module in SERVICE if _package(module) == "store"):
        for imported in _imports(module):
            inside = _package(imported) == "store" or not imported.startswith("gateway")
            assert inside, f"{module} imports {imported}"
