"""Whole replies of every dialect, told to clients of the others."""

from collections.abc import Callable

import pytest
from msgspec import Raw
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

import adapters
from gateway.grammar_check import check_inputs_blocking
from tests.corpus import (
    REPLIES,
    ReplyCase,
    case_params,
    case_request,
    case_target_params,
    on_wire,
    pair,
)
from tests.exchange import Exchange
from tests.judges import open_responses, sdk
from tests.judges.reading import read_object
from tests.snapshots import format_json, format_losses


def judge_responses_reply(body: bytes) -> None:
    sdk.judge_responses_reply(body)
    open_responses.assert_response(read_object(body), allow=open_responses.EVERYTHING)


JUDGES: dict[str, Callable[[bytes], object]] = {
    "chat": sdk.judge_chat_reply,
    "legacy": sdk.judge_chat_reply,
    "responses": judge_responses_reply,
}

# What the openai package says of replies that we give all the same, by page.
DISPUTED = {
    # A vendor's annotations stay within the family of their dialect.
    "chat-to-legacy/chat-unknown-annotation-types": "annotations: no such type: 'file'",
}


def tell(case: ReplyCase, target: str) -> adapters.ReplyEnd:
    """Do as a service does: what cannot be read becomes an error of the client's dialect."""
    exchange = Exchange(
        target,
        case.dialect,
        capabilities=case.capabilities,
        request=case_request(case),
    )
    try:
        reply = exchange.reply(on_wire(case.body))
    except adapters.InvalidReplyError as problem:
        return exchange.own_error(problem)
    violations = check_inputs_blocking(exchange.custom_inputs)
    return replace(reply, losses=(*reply.losses, *violations))


@pytest.mark.parametrize(("case", "target"), case_target_params(REPLIES))
def test_reply_in_another_dialect(
    case: ReplyCase, target: str, json_snapshot: SnapshotAssertion
) -> None:
    told = tell(case, target)
    page = f"{pair(case, target)}/{case.name}"
    assert show(told) == json_snapshot(name=page)
    judge = JUDGES[target] if told.status < 400 else sdk.judge_error
    if page in DISPUTED:
        with pytest.raises(AssertionError, match=DISPUTED[page]):
            judge(told.body)
    else:
        judge(told.body)


def show(told: adapters.ReplyEnd) -> str:
    losses = format_losses(told.losses)
    return format_json({"status": told.status, "body": Raw(told.body), "losses": losses})


@pytest.mark.parametrize("case", case_params(REPLIES))
def test_reply_in_its_own_dialect(case: ReplyCase) -> None:
    told = tell(case, case.dialect)
    assert told.body == on_wire(case.body)
    assert told.losses == ()
