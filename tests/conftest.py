"""How laws are tried, and fixtures that keep pages, one for each form that a page can have."""

import signal

import pytest
from hypothesis import HealthCheck, Phase, settings
from syrupy.assertion import SnapshotAssertion

from tests.snapshots import JsonPages, LossPages, StreamPages

# Our pages are named by case and not by test, of which syrupy warns whenever it writes one.
UNRELATED = r"ignore:\s*Can not relate snapshot (location|name):UserWarning"

# Here, and not beside the laws: each takes the profile that is in force when its module is loaded.
settings.register_profile(
    "laws",
    deadline=None,
    derandomize=True,
    max_examples=150,
    # To explain a failure takes longer than to find it.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("laws")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", UNRELATED)
    # What a shell starts in the background ignores interrupts, and so would all that we start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def json_pages(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JsonPages)


@pytest.fixture
def stream_pages(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(StreamPages)


@pytest.fixture
def loss_pages(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(LossPages)
