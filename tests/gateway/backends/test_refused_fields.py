"""The memory of refused fields."""

from gateway.backends.refused_fields import RefusedFields


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_fields_are_left_out_for_an_hour() -> None:
    clock = Clock()
    refused = RefusedFields(clock)
    assert refused.of("m") == set()
    refused.add("m", ["store"])
    clock.now = 1800
    refused.add("m", ["user"])
    assert refused.of("m") == {"store", "user"}
    assert refused.of("other") == set()
    clock.now = 3600
    assert refused.of("m") == {"user"}
    clock.now = 5400
    assert refused.of("m") == set()
    assert len(refused) == 0


def test_number_of_models_is_limited() -> None:
    refused = RefusedFields(Clock())
    for number in range(1001):
        refused.add(f"m{number}", ["store"])
    assert len(refused) == 1000
    assert refused.of("m0") == set()
    assert refused.of("m1000") == {"store"}
