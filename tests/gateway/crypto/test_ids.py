"""The ids that the gateway makes in service."""

import re
import time

import pytest

from gateway.crypto import RANDOM_IDS


def test_ids_stand_in_the_order_in_which_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for second in (1_000, 1_700_000_000, 2_000_000_000, 200_000_000_000):
        moment = second * 10**9
        for later in (0, 10**6):
            monkeypatch.setattr(time, "time_ns", lambda moment=moment, later=later: moment + later)
            made.append(RANDOM_IDS.id("msg_"))
    assert made == sorted(made)
    assert all(re.fullmatch("msg_[0-9a-f]{32}", name) for name in made)


def test_ids_of_one_moment_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000 * 10**9)
    made = {RANDOM_IDS.id("resp_") for _ in range(1000)}
    assert len(made) == 1000
