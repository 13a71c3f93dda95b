"""Requests of every dialect, translated for backends of the others."""

import re
from collections.abc import Iterator
from itertools import permutations
from typing import get_args

import pytest
from msgspec import Raw
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

import adapters
from gateway.pytest_plugin.formats import format_json, format_losses
from tests import corpus
from tests.exchange import Exchange
from tests.judges import sdk

Outcome = adapters.BackendRequest | adapters.InvalidRequestError | adapters.UnsupportedRequestError


VALIDATORS = {
    "chat": sdk.judge_chat_request,
    "legacy": sdk.judge_chat_request,
    "responses": sdk.judge_responses_request,
}

# Fields that the openai package refuses and a backend may know, by snapshot. They come from the
# client: unknown fields stay within the family of their dialect, and unknown values pass
# everywhere, because new ones appear.
UNKNOWN_TO_SDK: dict[str, set[str]] = {
    "chat-to-legacy/chat-fields-that-the-backend-knows": {"min_p", "top_k"},
    "chat-to-responses/chat-fields-that-the-backend-knows": {"seed", "top_k"},
    "chat-to-responses/chat-penalties-on-a-backend-that-has-them": {
        "frequency_penalty",
        "presence_penalty",
    },
    "chat-to-responses/chat-effort-unknown-word": {"effort"},
    "chat-to-responses/chat-forced-choice-with-thinking-disabled": {"thinking"},
    "chat-to-legacy/chat-forced-choice-with-thinking-disabled": {"thinking"},
    "chat-to-responses/chat-hosted-tool-forced": {"tool_choice"},
    "chat-to-legacy/chat-reasoning-details-in-history": {
        "extra_content",
        "reasoning",
        "reasoning_details",
    },
    "chat-to-legacy/chat-unknown-fields": {
        *("cache_control", "chat_template_kwargs", "extra_body", "prefix", "timestamp", "top_k")
    },
    "responses-to-chat/effort-that-nobody-knows": {"reasoning_effort"},
    "responses-to-chat/json-schema-inside-json-object": {"schema"},
    "responses-to-chat/tool-stream": {"tool_stream"},
    "legacy-to-chat/legacy-unknown-fields": {"id", "returns", "session", "top_k"},
} | {
    f"responses-to-{target}/{name}": fields
    for target in ("chat", "legacy")
    for name, fields in {
        "effort-none-as-enable-thinking": {"enable_thinking"},
        "effort-none-as-template-argument": {"chat_template_kwargs"},
        "effort-none-as-thinking": {"thinking"},
        "extra-body-of-the-backend": {"chat_template_kwargs", "top_k"},
        "fields-that-the-backend-knows": {"chat_template_kwargs", "top_k"},
        "forced-choice-switches-thinking-off": {"thinking"},
        "forced-choice-without-thinking": {"thinking"},
        "reasoning-replayed-as-details": {"reasoning_details"},
        "reasoning-replayed-everywhere": {"reasoning_content"},
        "reasoning-replayed-with-calls": {"reasoning"},
        "reasoning-required-and-unknown": {"reasoning_content"},
        "reasoning-that-led-to-nothing": {"reasoning_content"},
    }.items()
}

# Errors of the openai package for requests that we send nevertheless, because the capabilities of
# the backend allow them, by snapshot.
DISPUTED = {"responses-to-chat/tool-output-with-image-for-a-server-that-takes-it": "'image_url'"}

# The most severe first.
SEVERITIES: tuple[str, ...] = get_args(adapters.Severity)[::-1]

# Severity, path, reason and action.
Line = tuple[str, str, str, str]


def translate(
    case: corpus.RequestCase, target: str, policy: adapters.Policy | None = None
) -> Outcome:
    exchange = Exchange(
        case.dialect, target, capabilities=case.capabilities, policy=policy or case.policy
    )
    try:
        return exchange.request(corpus.on_wire(case.body))
    except (adapters.InvalidRequestError, adapters.UnsupportedRequestError) as error:
        return error


def format_outcome(outcome: Outcome) -> str:
    if isinstance(outcome, adapters.BackendRequest):
        return format_json({"sent": Raw(outcome.body), "losses": format_losses(outcome.losses)})
    refusal = {"path": outcome.path, "why": outcome.message, "code": outcome.code}
    return format_json({"refused": refusal})


@pytest.mark.parametrize(("case", "target"), corpus.case_target_params(corpus.REQUESTS))
def test_request_in_another_dialect(
    case: corpus.RequestCase, target: str, json_snapshot: SnapshotAssertion
) -> None:
    outcome = translate(case, target)
    snapshot_name = f"{corpus.pair(case, target)}/{case.name}"
    assert format_outcome(outcome) == json_snapshot(name=snapshot_name)
    if snapshot_name in DISPUTED:
        assert isinstance(outcome, adapters.BackendRequest)
        with pytest.raises(AssertionError, match=DISPUTED[snapshot_name]):
            VALIDATORS[target](outcome.body)
    elif isinstance(outcome, adapters.BackendRequest):
        VALIDATORS[target](outcome.body, beyond=UNKNOWN_TO_SDK.get(snapshot_name, ()))


@pytest.mark.parametrize("snapshot_name", UNKNOWN_TO_SDK)
def test_sdk_still_refuses_the_listed_fields(snapshot_name: str) -> None:
    direction, _, name = snapshot_name.partition("/")
    target = direction.rpartition("-")[2]
    outcome = translate(next(case for case in corpus.REQUESTS if case.name == name), target)
    assert isinstance(outcome, adapters.BackendRequest)
    with pytest.raises(AssertionError):
        VALIDATORS[target](outcome.body)


@pytest.mark.parametrize("case", corpus.case_params(corpus.REQUESTS))
def test_request_in_its_own_dialect(case: corpus.RequestCase) -> None:
    # The fields that a backend adds to requests in its own dialect have a test of their own.
    usual = replace(case, own_capabilities={**case.own_capabilities, "extra_body": {}})
    outcome = translate(usual, case.dialect)
    if isinstance(outcome, adapters.BackendRequest):
        assert (outcome.body, outcome.losses) == (corpus.on_wire(case.body), ())
    else:
        assert isinstance(outcome, adapters.InvalidRequestError)


@pytest.mark.parametrize(("source", "target"), [*permutations(corpus.DIALECTS, 2)])
def test_losses_of_requests(source: str, target: str, loss_snapshot: SnapshotAssertion) -> None:
    # Other capabilities are not a matter of the dialect.
    usual = (case for case in corpus.REQUESTS if case.capabilities == adapters.Capabilities())
    outcomes = (translate(case, target, "report") for case in usual if case.dialect == source)
    lines = {loss for outcome in outcomes for loss in losses_of(outcome)}
    text = "".join(
        f"{severity:<10} {action:<8} {path}: {reason}\n"
        for severity, path, reason, action in sorted(lines, key=_by_severity)
    )
    assert text == loss_snapshot(name=f"{source}-to-{target}")


def losses_of(outcome: Outcome) -> Iterator[Line]:
    match outcome:
        case adapters.BackendRequest(losses=losses):
            for loss in losses:
                yield loss.severity, _without_indices(loss.path), loss.reason, loss.action
        case adapters.UnsupportedRequestError(path=path, message=reason):
            yield "meaning", _without_indices(path or ""), reason, "refused"
        case _:
            pass


def _without_indices(path: str) -> str:
    return re.sub(r"\[\d+\]", "[*]", path)


def _by_severity(line: Line) -> tuple[int, Line]:
    return SEVERITIES.index(line[0]), line
