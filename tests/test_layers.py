"""Which part of the code may import which, and what the core may use at all.

A part is a package or module directly below `adapters` or `gateway`.
"""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

from adapters import DIALECTS

ROOT = Path(__file__).parent.parent

# The layers, from the bottom to the top. A part may import the parts of lower layers. The package
# of a dialect has the name of the dialect.
LAYERS: dict[str, tuple[set[str], ...]] = {
    "adapters": (
        {"capabilities", "errors", "ids", "json_text"},
        {"losses", "profiles", "sse"},
        {"conformance", "ir", "model_rules"},
        {"wire"},
        {"comparison", "dialect", "stages", "tool_emulation"},
        {"reasoning", "tool_selection", "transforms"},
        {"text_tools"},
        {*DIALECTS, "translation"},
    ),
    "gateway": (
        {"crypto", "demo", "grammar_check", "store", "terminal"},
        {"config", "errors"},
        {"dry_run", "observability"},
        {"batch", "http", "openapi", "retention"},
        {"backends", "migration", "turns"},
        {"recording"},
        {"compaction", "context", "token_counting"},
        {"pipeline"},
        {"api", "app", "background", "server", "service", "websocket"},
        {"verification"},
        {"cli"},
        {"__main__", "pytest_plugin"},
    ),
}

# Imports within a layer. Legacy is Chat with other names for calls. What two other dialects share
# belongs to a lower layer.
WITHIN_LAYERS = {
    ("legacy", "chat"),
    ("stages", "tool_emulation"),
    ("tool_emulation", "stages"),
    ("api", "background"),
    ("api", "websocket"),
    ("app", "api"),
    ("app", "service"),
    ("background", "server"),
    ("server", "app"),
    ("service", "background"),
    ("websocket", "server"),
}

# Modules that wait, depend on time or chance, or see the machine. The core uses none of them.
CONCURRENCY = {"asyncio", "concurrent", "multiprocessing", "queue", "sched", "select", "threading"}
NETWORK = {"ftplib", "http", "selectors", "smtplib", "socket", "socketserver", "ssl", "urllib"}
NONDETERMINISM = {"contextvars", "datetime", "random", "secrets", "time", "uuid", "zoneinfo"}
FILES = {"fileinput", "glob", "io", "mmap", "os", "pathlib", "shutil", "sqlite3", "tempfile"}
SYSTEM = {"ctypes", "importlib", "logging", "platform", "signal", "subprocess", "sys", "warnings"}
FORBIDDEN = CONCURRENCY | NETWORK | NONDETERMINISM | FILES | SYSTEM
FORBIDDEN_CALLS = {"open", "input", "print", "eval", "exec", "breakpoint", "__import__"}


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _parse(package: str) -> dict[str, ast.Module]:
    files = sorted((ROOT / package).rglob("*.py"))
    return {_module_name(file): ast.parse(file.read_bytes()) for file in files}


TREES = {package: _parse(package) for package in LAYERS}
MODULES = TREES["adapters"] | TREES["gateway"]

each_package = pytest.mark.parametrize("package", LAYERS)
each_core_module = pytest.mark.parametrize("module", TREES["adapters"])


def _find_imports(module: str) -> Iterator[str]:
    """Yield the modules that a module imports anywhere."""
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            source = node.module or ""
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in MODULES else source


IMPORTS = {module: tuple(_find_imports(module)) for module in MODULES}


def _part(module: str) -> str:
    """Return the part of a module; the packages `adapters` and `gateway` are "" themselves."""
    return ".".join(module.split(".")[1:2])


def _imported_parts(package: str) -> Iterator[tuple[str, str, str]]:
    """Yield each module with its part and a part that it imports from the same package."""
    for module in TREES[package]:
        for imported in IMPORTS[module]:
            if imported in TREES[package] and _part(module) not in ("", _part(imported)):
                yield module, _part(module), _part(imported)


@each_package
def test_every_part_is_in_one_layer(package: str) -> None:
    parts = {_part(module) for module in TREES[package]} - {""}
    assert sorted(chain.from_iterable(LAYERS[package])) == sorted(parts)


@each_package
def test_parts_import_only_lower_layers(package: str) -> None:
    level = {part: level for level, layer in enumerate(LAYERS[package]) for part in layer}
    for module, part, imported in _imported_parts(package):
        allowed = imported and level[imported] < level[part]
        assert allowed or (part, imported) in WITHIN_LAYERS, f"{module} imports {imported!r}"


def test_imports_within_layers_exist() -> None:
    used = {(part, other) for package in LAYERS for _, part, other in _imported_parts(package)}
    assert used >= WITHIN_LAYERS


def test_store_imports_nothing_of_the_gateway() -> None:
    for module in (module for module in MODULES if module.startswith("gateway.store")):
        for imported in IMPORTS[module]:
            own = imported.startswith("gateway.store") or not imported.startswith("gateway")
            assert own, f"{module} imports {imported}"


@each_package
def test_no_import_cycles(package: str) -> None:
    graph = {
        module: [imported for imported in IMPORTS[module] if imported in TREES[package]]
        for module in TREES[package]
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@each_core_module
def test_core_imports_only_msgspec_and_pure_modules(module: str) -> None:
    for imported in IMPORTS[module]:
        root = imported.partition(".")[0]
        known = root in {"adapters", "msgspec"} or root in sys.stdlib_module_names
        assert known, f"{module} imports {imported}"
        # The package `http` itself has only enumerations, such as the statuses.
        assert root not in FORBIDDEN or imported == "http", f"{module} imports {imported}"


@each_core_module
def test_core_is_synchronous_and_has_no_side_effects(module: str) -> None:
    for node in ast.walk(MODULES[module]):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, f"{module}:{node.lineno}"
