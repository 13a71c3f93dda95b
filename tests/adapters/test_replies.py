"""Whole replies of every dialect, translated for clients of the others."""

import pytest
from msgspec import Raw
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

import adapters
from gateway.grammar_check import check_inputs_blocking
from gateway.pytest_plugin.formats import format_json, format_losses
from tests import corpus
from tests.exchange import Exchange
from tests.judges import open_responses, sdk
from tests.judges.reading import read_object


def validate(target: str, reply: adapters.ReplyEnd) -> None:
    if reply.status >= 400:
        sdk.judge_error(reply.body)
    elif target == "responses":
        sdk.judge_responses_reply(reply.body)
        open_responses.assert_response(read_object(reply.body), allow=open_responses.EVERYTHING)
    else:
        sdk.judge_chat_reply(reply.body)


# Errors of the openai package for replies that we send nevertheless, by snapshot.
DISPUTED = {
    # A vendor's annotations stay within the family of their dialect.
    "chat-to-legacy/chat-unknown-annotation-types": "annotations: no such type: 'file'",
    "chat-to-chat/chat-unknown-annotation-types": "annotations: no such type: 'file'",
}


def translate(case: corpus.ReplyCase, target: str, *, repair: bool = True) -> adapters.ReplyEnd:
    """Translate a reply; an unreadable one becomes an error in the client's dialect."""
    exchange = Exchange(
        target,
        case.dialect,
        capabilities=case.capabilities,
        request=corpus.case_request(case),
        repair=repair,
    )
    try:
        reply = exchange.reply(corpus.on_wire(case.body))
    except adapters.InvalidReplyError as error:
        return exchange.own_error(error)
    violations = check_inputs_blocking(exchange.custom_inputs)
    return replace(reply, losses=(*reply.losses, *violations))


@pytest.mark.parametrize(("case", "target"), corpus.case_target_params(corpus.REPLIES))
def test_reply_in_another_dialect(
    case: corpus.ReplyCase, target: str, json_snapshot: SnapshotAssertion
) -> None:
    reply = translate(case, target)
    page = f"{corpus.pair(case, target)}/{case.name}"
    losses = format_losses(reply.losses)
    text = format_json({"status": reply.status, "body": Raw(reply.body), "losses": losses})
    assert text == json_snapshot(name=page)
    if page in DISPUTED:
        with pytest.raises(AssertionError, match=DISPUTED[page]):
            validate(target, reply)
    else:
        validate(target, reply)


@pytest.mark.parametrize("case", corpus.case_params(corpus.REPLIES))
def test_reply_in_its_own_dialect(case: corpus.ReplyCase, json_snapshot: SnapshotAssertion) -> None:
    reply = translate(case, case.dialect)
    page = f"{corpus.pair(case, case.dialect)}/{case.name}"
    losses = format_losses(reply.losses)
    text = format_json({"status": reply.status, "body": Raw(reply.body), "losses": losses})
    assert text == json_snapshot(name=page)
    if reply.status < 400 and page not in DISPUTED:
        if case.dialect != "responses":
            sdk.judge_chat_reply(reply.body)
        elif reply.body != corpus.on_wire(case.body):
            # Replies that pass may have details that the package does not know.
            sdk.judge_responses_reply(reply.body)
        if case.capabilities == adapters.Capabilities():
            # A repaired reply needs no repairs.
            body = corpus.on_wire(Raw(reply.body))
            again = translate(replace(case, body=Raw(body)), case.dialect)
            assert (again.body, again.losses) == (body, ())


PASSED = [case for case in corpus.REPLIES if case.dialect == "responses" and not case.request]


@pytest.mark.parametrize("case", corpus.case_params(PASSED))
def test_reply_passes_without_repairs(case: corpus.ReplyCase) -> None:
    reply = translate(case, case.dialect, repair=False)
    assert reply.body == corpus.on_wire(case.body)
    assert reply.losses == ()
