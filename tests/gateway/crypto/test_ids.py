"""Random ids that sort by time."""

import re
import time

import pytest

from gateway.crypto import RANDOM_IDS


def test_ids_sort_in_the_order_of_their_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[str] = []
    for second in (1_000, 1_700_000_000, 2_000_000_000, 200_000_000_000):
        nanoseconds = second * 10**9
        for later in (0, 10**6):
            monkeypatch.setattr(time, "time_ns", lambda time=nanoseconds + later: time)
            ids.append(RANDOM_IDS.id("msg_"))
    assert ids == sorted(ids)
    assert all(re.fullmatch("msg_[0-9a-f]{32}", one) for one in ids)


def test_ids_of_the_same_time_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000 * 10**9)
    ids = {RANDOM_IDS.id("resp_") for _ in range(1000)}
    assert len(ids) == 1000
