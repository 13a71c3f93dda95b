"""Settings of pytest, xdist and hypothesis, and fixtures for snapshots."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from syrupy.assertion import SnapshotAssertion

from gateway import grammar_check
from tests.snapshots import LossSnapshots, ModuleJsonSnapshots, ModuleSseSnapshots

# Snapshots are named by case and not by test, which syrupy warns about when it writes one.
UNRELATED_NAME_WARNING = r"ignore:\s*Can not relate snapshot (location|name):UserWarning"

# Modules that take minutes are started first, so that no worker is left with one at the end.
SLOW_MODULES = ("tests/test_newcomer.py", "tests/test_quality.py")

# The profile must be loaded before the modules with properties are imported. Choose another with
# `--hypothesis-profile`: `quick` while working on the core, `thorough` to search for faults.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=150,
    # Explaining a failure takes longer than finding it.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=20)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=600)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", UNRELATED_NAME_WARNING)
    # A shell lets background processes ignore interrupts, and the gateways would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run a part of the suite in one process, because workers take long to start."""
    return None if config.args == config.getini("testpaths") else 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW_MODULES))


@pytest.fixture(scope="session", autouse=True)
def grammar_timeout() -> Iterator[None]:
    """Give a busy machine time to start the process that checks a grammar."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar_check, "TIMEOUT_SECONDS", 60.0)
        yield


@pytest.fixture
def json_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(ModuleJsonSnapshots)


@pytest.fixture
def sse_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(ModuleSseSnapshots)


@pytest.fixture
def loss_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(LossSnapshots)
