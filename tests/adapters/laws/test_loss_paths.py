"""The path of every loss can be looked up.

Those of a request are in the client's request. In a reply, what was dropped is in the backend's
reply, and what was changed or invented in the client's.
"""

import json
import re
from contextlib import suppress
from itertools import product

import pytest

import adapters
from adapters.conformance import Json
from adapters.sse import Decoder
from tests.corpus import (
    DIALECTS,
    REPLIES,
    REQUESTS,
    STREAMS,
    BackendCase,
    ReplyCase,
    RequestCase,
    StreamCase,
    case_params,
    case_request,
    on_wire,
)
from tests.exchange import Exchange

_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")

_STREAMED_CALL = re.compile(r"(\.delta\.tool_calls)\[\d+\]")

# Paths that no request or reply has.
NOWHERE = {
    "extra_body": "fields of the configuration",
    "reasoning": "reasoning in a text has no path of its own",
    "response": "several fields of the response object",
    "stream": "the form of the stream",
}
# The beginnings of reasons that a whole reply does not show: calls without a name are dropped.
NOT_IN_WHOLE_REPLIES = ("missing in the first delta",)
MESSAGE, DELTA = ".message.", ".delta."
# Values that the client may omit, with the same meaning, or that only streams have.
MAY_BE_MISSING = ("arguments", "index")


def resolves(value: Json, path: str) -> bool:
    """Whether there is a value at a path."""
    steps = _STEP.findall(path)
    for number, step in enumerate(steps):
        if isinstance(value, list) and step.startswith("[") and int(step[1:-1]) < len(value):
            value = value[int(step[1:-1])]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return number == len(steps) - 1 and step in MAY_BE_MISSING
    return bool(steps)


def is_known(loss: adapters.Loss, bodies: list[Json]) -> bool:
    """Whether the path of a loss is in any of these objects."""
    first = _STEP.findall(loss.path)[:1]
    # The message of a whole reply is a delta in a stream, in which calls are identified by their
    # index and not by their place.
    paths = {loss.path, loss.path.replace(MESSAGE, DELTA), loss.path.replace(DELTA, MESSAGE)}
    paths |= {_STREAMED_CALL.sub(r"\1[0]", path) for path in paths}
    return first[0] in NOWHERE or any(resolves(*pair) for pair in product(bodies, paths))


def assert_known(
    losses: tuple[adapters.Loss, ...], backend: list[Json], client: list[Json]
) -> None:
    unknown = [
        str(loss)
        for loss in losses
        if not loss.reason.startswith(NOT_IN_WHOLE_REPLIES)
        and not is_known(loss, backend if loss.action == "dropped" else client)
    ]
    assert unknown == []


@pytest.mark.parametrize("case", case_params(REQUESTS))
def test_losses_of_a_request_name_fields_of_the_client(case: RequestCase) -> None:
    body: Json = json.loads(bytes(case.body))
    for backend in DIALECTS:
        rewrite = case.dialect == backend
        exchange = Exchange(case.dialect, backend, capabilities=case.capabilities, rewrite=rewrite)
        try:
            losses = exchange.request(on_wire(case.body)).losses
        except adapters.DragomanError:
            continue
        # What was invented may be changed later.
        invented = {loss.path for loss in losses if loss.action == "invented"}
        assert [
            str(loss) for loss in losses if loss.path not in invented and not is_known(loss, [body])
        ] == []


def exchanges(case: BackendCase) -> list[tuple[str, Exchange]]:
    """Return an exchange for each client of a case."""
    clients = DIALECTS if case.client is None else (case.client,)
    request = case_request(case)
    return [
        (name, Exchange(name, case.dialect, capabilities=case.capabilities, request=request))
        for name in clients
    ]


@pytest.mark.parametrize("case", case_params(REPLIES))
def test_losses_of_a_reply_name_fields_of_both_replies(case: ReplyCase) -> None:
    for _, exchange in exchanges(case):
        try:
            reply = exchange.reply(on_wire(case.body))
        except adapters.InvalidReplyError:
            continue
        if reply.status == 200:
            backend, client = json.loads(bytes(case.body)), json.loads(reply.body)
            assert_known(reply.losses, [backend], [client])


# A collected reply has the same fields as the stream.
OPTIONS = adapters.ReplyOptions(reasoning_field="reasoning_content")
SEVERAL = adapters.Request(choices=9)


def bodies_of(dialect: str, stream: bytes) -> list[Json]:
    """Return the events of a stream, the responses in them, and the whole reply."""
    # A legacy reply has one call, and the stream may have several.
    client = "responses" if dialect == "responses" else "chat"
    collector = Exchange(client, dialect, reply_options=OPTIONS, request=SEVERAL).collect()
    collector.feed(stream)
    bodies: list[Json] = [json.loads(collector.finish().body)]
    # Some servers send a whole reply instead of a stream.
    payloads = [frame.data for frame in Decoder().feed(stream)] or [stream]
    for payload in payloads:
        with suppress(ValueError):
            event = json.loads(payload)
            bodies += [event, event.get("response")]
    return bodies


@pytest.mark.parametrize("case", case_params(STREAMS))
def test_losses_of_a_stream_name_fields_of_both_replies(case: StreamCase) -> None:
    for name, exchange in exchanges(case):
        translator = exchange.stream()
        sent = translator.feed(case.body)
        end = translator.finish(started=True)
        if end.error is None:
            backend = bodies_of(case.dialect, case.body)
            assert_known(end.losses, backend, bodies_of(name, sent + end.body))
