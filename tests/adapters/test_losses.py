"""The summary of losses, which is in the response header and in the log."""

import pytest

from adapters.losses import Loss, summarize_losses
from tests.corpus import REQUESTS, RequestCase, on_wire
from tests.exchange import Exchange

MAX_LOSSES_OF_A_TURN = 4
CODEX = [case for case in REQUESTS if case.name.startswith("codex-")]


def test_losses_that_differ_in_indices_are_counted() -> None:
    losses = [Loss("dropped", f"input[{number}].metadata", "unknown") for number in range(40)]
    assert [str(group) for group in summarize_losses(losses)] == [
        "dropped input[*].metadata x40: unknown"
    ]


def test_gravest_losses_are_first() -> None:
    hints = [Loss("dropped", f"field_{number}", "unknown") for number in range(40)]
    changed = Loss("changed", "tools[0].format", "not enforced", "capability")
    dropped = Loss("dropped", "tools[1]", "not supported", "capability")
    adapted = Loss("changed", "tools[2]", "sent as a function", "adapted")
    first, second, *others = summarize_losses([adapted, *hints, changed, dropped])
    assert [first.loss, second.loss] == [dropped, changed]
    assert [group.loss for group in others] == hints


@pytest.mark.parametrize("case", CODEX, ids=lambda case: case.name)
def test_turn_of_codex_has_few_losses(case: RequestCase) -> None:
    summary = summarize_losses(Exchange("responses", "chat").request(on_wire(case.body)).losses)
    assert len(summary) <= MAX_LOSSES_OF_A_TURN
    severities = [group.loss.severity for group in summary]
    assert severities == sorted(severities)


def test_dropped_search_and_grammar_of_codex_are_first() -> None:
    case = next(case for case in CODEX if case.name == "codex-search-turn")
    losses = Exchange("responses", "chat").request(on_wire(case.body)).losses
    search, grammar, *_ = (group.loss for group in summarize_losses(losses))
    assert search.reason == "the backend does not support web_search tools"
    assert grammar.reason == "the grammar is sent in the description and not enforced"
