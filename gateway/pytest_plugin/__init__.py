"""The pytest plugin: tests of translations and transforms in the users' own projects.

Everything but pytest is imported when it is used, because the plugin is loaded in each test run of
an environment in which Dragoman is installed. It is described in docs/testing-your-transforms.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gateway.pytest_plugin.backend import Backend
    from gateway.pytest_plugin.gateway_fixture import Gateway
    from gateway.pytest_plugin.launcher import Launcher
    from gateway.pytest_plugin.translation import Translate

_CASES = "dragoman_cases"
_MISSING_SYRUPY = "cases need syrupy; install it with: pip install 'dragoman[pytest]'"
_FOLDERS = pytest.StashKey[list[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("dragoman", "Dragoman")
    group.addoption(
        "--dragoman-cases",
        action="append",
        default=[],
        metavar="DIR",
        help="Test the translation of each case in this folder. May be repeated.",
    )
    group.addoption(
        "--dragoman-record",
        choices=("none", "once", "new_episodes", "all"),
        default="none",
        help="Whether marked tests record the replies of a real backend (default: none).",
    )
    parser.addini(_CASES, "Folders with cases whose translation is tested.", type="paths")


def pytest_configure(config: pytest.Config) -> None:
    """Find the folders with cases, and add those that pytest would not search."""
    config.addinivalue_line(
        "markers",
        "dragoman_recordings(folder): run dragoman_gateway with recorded replies in this folder",
    )
    names: list[str] = config.getoption(_CASES) or []
    given = [config.invocation_params.dir / name for name in names]
    folders = [Path(folder).resolve() for folder in (*config.getini(_CASES), *given)]
    for folder in folders:
        if not folder.is_dir():
            raise pytest.UsageError(f"dragoman_cases: {folder} is not a folder")
    config.stash[_FOLDERS] = folders
    # As `testpaths`, those of the configuration file count only if no paths are given.
    everything = config.args_source is not pytest.Config.ArgsSource.ARGS
    for folder in folders if everything else map(Path.resolve, given):
        searched = (Path(name.partition("::")[0]).resolve() for name in config.args)
        if not any(map(folder.is_relative_to, searched)):
            config.args.append(str(folder))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a case that is a file."""
    root = _find_root(file_path, parent.config)
    if root is None or file_path.suffix not in (".json", ".sse"):
        return None
    _require_syrupy(parent.config)
    from gateway.pytest_plugin.collection import CaseFile  # noqa: PLC0415 - only for cases

    return CaseFile.create(parent, file_path, root)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a case that is a recording."""
    root = _find_root(path, parent.config)
    if root is None:
        return None
    from gateway.recording.format import find_recordings  # noqa: PLC0415 - only for cases

    if next(find_recordings(path), None) != path:
        return None
    _require_syrupy(parent.config)
    from gateway.pytest_plugin.collection import RecordingFolder  # noqa: PLC0415 - only for cases

    return RecordingFolder.create(parent, path, root)


def _find_root(path: Path, config: pytest.Config) -> Path | None:
    """Return the folder with cases that contains a path, which must not be a snapshot."""
    for root in config.stash[_FOLDERS]:
        if path.is_relative_to(root):
            hidden = config.getoption("snapshot_dirname", "__snapshots__")
            return None if hidden in path.relative_to(root).parts else root
    return None


def _require_syrupy(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin("syrupy"):
        raise pytest.Collector.CollectError(_MISSING_SYRUPY)


# Fixtures


@pytest.fixture(scope="session")
def dragoman_translate() -> "Translate":
    """Return the function that translates a request, reply, stream or error."""
    from gateway.pytest_plugin.translation import translate  # noqa: PLC0415 - only if used

    return translate


@pytest.fixture
def dragoman_backend() -> Iterator["Backend"]:
    """Run a backend whose replies the test gives."""
    from gateway.pytest_plugin.backend import run_backend  # noqa: PLC0415 - only if used

    with run_backend() as backend:
        yield backend


@pytest.fixture
def dragoman_config() -> dict[str, object]:
    """Return the configuration of the gateway; projects and modules may override this fixture."""
    return {}


@pytest.fixture(scope="session")
def _dragoman_launcher() -> Iterator["Launcher | None"]:
    from gateway.pytest_plugin.gateway_fixture import run_launcher  # noqa: PLC0415 - only if used

    with run_launcher() as launcher:
        yield launcher


@pytest.fixture
def dragoman_gateway(
    request: pytest.FixtureRequest,
    dragoman_backend: "Backend",
    dragoman_config: dict[str, object],
    _dragoman_launcher: "Launcher | None",
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator["Gateway"]:
    """Run a gateway in front of `dragoman_backend`, and point the OpenAI SDK to it.

    A test with the mark `dragoman_recordings` gets the recorded replies of a real backend.
    """
    from gateway.pytest_plugin.gateway_fixture import GatewayRunner  # noqa: PLC0415 - only if used

    folder = tmp_path_factory.mktemp("dragoman")
    runner = GatewayRunner(dragoman_backend, folder, _dragoman_launcher)
    with runner.run_for_test(request.node, dragoman_config) as gateway:
        monkeypatch.setenv("OPENAI_BASE_URL", gateway.url)
        monkeypatch.setenv("OPENAI_API_KEY", gateway.api_key)
        yield gateway
