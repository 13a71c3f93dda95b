"""Requests of every dialect, carried to backends of the others."""

import re
from collections.abc import Collection, Iterator
from itertools import permutations
from typing import Protocol, get_args

import pytest
from msgspec import Raw
from syrupy.assertion import SnapshotAssertion

import adapters
from tests.corpus import (
    DIALECTS,
    REQUESTS,
    RequestCase,
    StrictCapabilities,
    case_params,
    case_target_params,
    on_wire,
    pair,
)
from tests.exchange import Exchange
from tests.judges import sdk
from tests.snapshots import format_json, format_losses

Outcome = adapters.BackendRequest | adapters.InvalidRequestError | adapters.UnsupportedRequestError


class Judge(Protocol):
    def __call__(self, body: bytes, *, beyond: Collection[str] = ()) -> None: ...


JUDGES: dict[str, Judge] = {
    "chat": sdk.judge_chat_request,
    "legacy": sdk.judge_chat_request,
    "responses": sdk.judge_responses_request,
}

# Fields that the openai package would refuse and a backend may know, by page. They come from the
# client as they are: fields that nobody knows stay within the family of their dialect, and words
# that no table of ours knows are carried everywhere, because tables age.
BEYOND: dict[str, frozenset[str]] = {
    "chat-to-legacy/chat-effort-unknown-word": frozenset({"reasoning_effort"}),
    "chat-to-legacy/chat-fields-that-the-backend-knows": frozenset({"min_p", "top_k"}),
    "chat-to-responses/chat-fields-that-the-backend-knows": frozenset({"seed", "top_k"}),
    "chat-to-responses/chat-penalties-on-a-backend-that-has-them": frozenset(
        {"frequency_penalty", "presence_penalty"}
    ),
    "chat-to-responses/chat-effort-unknown-word": frozenset({"effort"}),
    "chat-to-responses/chat-hosted-tool-forced": frozenset({"tool_choice"}),
    "chat-to-legacy/chat-reasoning-details-in-history": frozenset(
        {"extra_content", "reasoning", "reasoning_details"}
    ),
    "chat-to-legacy/chat-unknown-fields": frozenset(
        {"cache_control", "chat_template_kwargs", "extra_body", "prefix", "timestamp", "top_k"}
    ),
    "legacy-to-chat/legacy-unknown-fields": frozenset({"id", "returns", "session", "top_k"}),
} | {
    f"responses-to-{target}/{name}": frozenset(fields)
    for target in ("chat", "legacy")
    for name, fields in {
        "effort-that-nobody-knows": {"reasoning_effort"},
        "fields-that-the-backend-knows": {"chat_template_kwargs", "top_k"},
        "json-schema-inside-json-object": {"schema"},
        "reasoning-replayed-as-details": {"reasoning_details"},
        "reasoning-replayed-everywhere": {"reasoning_content"},
        "reasoning-replayed-with-calls": {"reasoning"},
        "reasoning-required-and-unknown": {"reasoning_content"},
        "reasoning-that-led-to-nothing": {"reasoning_content"},
    }.items()
}

# What the openai package says of requests that we send all the same, because the backend is said
# to take them, by page.
DISPUTED = {
    "responses-to-chat/tool-output-with-image-for-a-server-that-takes-it": "'image_url'",
}

# The gravest first.
SEVERITIES: tuple[str, ...] = get_args(adapters.Severity)[::-1]


def carry(case: RequestCase, target: str, policy: adapters.Policy | None = None) -> Outcome:
    exchange = Exchange(
        case.dialect,
        target,
        capabilities=case.capabilities,
        policy=policy or case.policy,
    )
    try:
        return exchange.request(on_wire(case.body))
    except (adapters.InvalidRequestError, adapters.UnsupportedRequestError) as problem:
        return problem


def show(outcome: Outcome) -> str:
    if isinstance(outcome, adapters.BackendRequest):
        return format_json({"sent": Raw(outcome.body), "losses": format_losses(outcome.losses)})
    told = {"path": outcome.path, "why": outcome.message, "code": outcome.code}
    return format_json({"refused": told})


@pytest.mark.parametrize(("case", "target"), case_target_params(REQUESTS))
def test_request_in_another_dialect(
    case: RequestCase, target: str, json_snapshot: SnapshotAssertion
) -> None:
    outcome = carry(case, target)
    page = f"{pair(case, target)}/{case.name}"
    assert show(outcome) == json_snapshot(name=page)
    if page in DISPUTED:
        assert isinstance(outcome, adapters.BackendRequest)
        with pytest.raises(AssertionError, match=DISPUTED[page]):
            JUDGES[target](outcome.body)
    elif isinstance(outcome, adapters.BackendRequest):
        JUDGES[target](outcome.body, beyond=BEYOND.get(page, ()))


@pytest.mark.parametrize("page", BEYOND)
def test_the_judge_still_refuses_what_is_beyond_it(page: str) -> None:
    direction, _, name = page.partition("/")
    target = direction.rpartition("-")[2]
    outcome = carry(next(case for case in REQUESTS if case.name == name), target)
    assert isinstance(outcome, adapters.BackendRequest)
    with pytest.raises(AssertionError):
        JUDGES[target](outcome.body)


@pytest.mark.parametrize("case", case_params(REQUESTS))
def test_request_in_its_own_dialect(case: RequestCase) -> None:
    outcome = carry(case, case.dialect)
    if isinstance(outcome, adapters.BackendRequest):
        assert (outcome.body, outcome.losses) == (on_wire(case.body), ())
    else:
        assert isinstance(outcome, adapters.InvalidRequestError)


# What is lost where, field by field


@pytest.mark.parametrize(("source", "target"), [*permutations(DIALECTS, 2)])
def test_losses_of_requests(source: str, target: str, loss_snapshot: SnapshotAssertion) -> None:
    # What else a backend may lack is no matter of its dialect.
    usual = (case for case in REQUESTS if case.capabilities == StrictCapabilities())
    outcomes = (carry(case, target, "report") for case in usual if case.dialect == source)
    found = {loss for outcome in outcomes for loss in losses_of(outcome)}
    page = "".join(f"{line}\n" for line in map(_line, sorted(found, key=_by_gravity)))
    assert page == loss_snapshot(name=f"{source}-to-{target}")


# Severity, path, why, and what became of it.
Line = tuple[str, str, str, str]


def losses_of(outcome: Outcome) -> Iterator[Line]:
    match outcome:
        case adapters.BackendRequest(losses=losses):
            for loss in losses:
                yield loss.severity, _anywhere(loss.path), loss.reason, loss.action
        case adapters.UnsupportedRequestError(path=path, message=why):
            yield "meaning", _anywhere(path or ""), why, "refused"
        case _:
            pass


def _anywhere(path: str) -> str:
    return re.sub(r"\[\d+\]", "[*]", path)


def _by_gravity(line: Line) -> tuple[int, Line]:
    return SEVERITIES.index(line[0]), line


def _line(line: Line) -> str:
    severity, path, why, action = line
    return f"{severity:<10} {action:<8} {path}: {why}"
