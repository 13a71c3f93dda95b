"""The conversation of a program with its model, read from recordings.

Requests are compared as the backend receives them, in the form of Chat Completions: translated from
legacy functions or the Responses API, with the history that `previous_response_id` refers to.
"""

from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct

from adapters import InvalidRequestError
from adapters.comparison import Difference, compare_json
from adapters.conformance import Object
from gateway.recording.documents import decode_json
from gateway.recording.format import Recording
from gateway.recording.recording_diff import read_recordings

# Settings that the translation adds, because the dialects have different defaults.
_IGNORED = ("parallel_tool_calls", "store", "stream_options")


class ToolRun(Struct, frozen=True, order=True):
    """A tool that a program ran, with the arguments of the model, and what it returned."""

    name: str
    arguments: str
    output: str

    def __str__(self) -> str:
        return f"{self.name}({self.arguments}) -> {self.output}"


class Conversation(Struct, frozen=True):
    """All requests of a program."""

    # Of the requests of the program, which may be one for each request to the backend.
    dialects: Counter[str]
    # As the backend received them.
    requests: list[Object]
    # What the gateway rejected, and why.
    rejected: list[str]

    def tool_runs(self) -> list[ToolRun]:
        """Return the tools whose outputs were sent, in a fixed order."""
        return sorted(run for request in self.requests for run in _new_runs(request))


def read_conversation(folder: Path) -> Conversation:
    """Read the recordings of a program."""
    try:
        recordings = [one.recording for one in read_recordings(folder)]
    except InvalidRequestError:
        # The program sent nothing.
        recordings = []
    recordings.sort(key=lambda one: one.exchange.time)
    return Conversation(
        Counter(one.exchange.client.dialect for one in recordings),
        [request for one in recordings for request in _requests(one)],
        [_describe(one) for one in recordings if one.exchange.outcome == "error"],
    )


def _requests(recording: Recording) -> list[Object]:
    bodies = (recording.backend_request(at) for at, _ in enumerate(recording.exchange.calls))
    found = [decode_json(body.data) for body in bodies if body is not None]
    return [
        {name: value for name, value in body.items() if name not in _IGNORED}
        for body in found
        if isinstance(body, dict)
    ]


def _describe(recording: Recording) -> str:
    reply = recording.client_reply
    text = "" if reply is None else reply.data.decode(errors="replace").strip()
    return f"status {recording.exchange.client.status}: {text}"


# Tools


class _Function(Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _Call(Struct):
    id: str = ""
    function: _Function = _Function()


class _Message(Struct):
    role: str = ""
    content: object = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Request(Struct):
    messages: list[_Message] = []


def _new_runs(request: Object) -> list[ToolRun]:
    """Return the tools whose outputs are at the end of a request."""
    messages = msgspec.convert(request, _Request).messages
    calls = {call.id: call.function for one in messages for call in one.tool_calls or ()}
    runs: list[ToolRun] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        function = calls.get(message.tool_call_id or "", _Function())
        runs.append(ToolRun(function.name, function.arguments, _text(message.content)))
    return runs


def _text(content: object) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


# Comparison


class RequestPair(Struct, frozen=True):
    """The numbers of two requests, from 1, and what differs; a missing request has no number."""

    original: int | None
    rewritten: int | None
    differences: list[Difference]


def pair_requests(original: list[Object], rewritten: list[Object]) -> list[RequestPair]:
    """Return the requests of two conversations in pairs: equal ones first, the others in order.

    Programs may send several requests at the same time, so the order may differ.
    """
    pairs: dict[int, RequestPair] = {}
    left = list(range(len(rewritten)))
    for number, request in enumerate(original):
        equal = next((one for one in left if not compare_json(request, rewritten[one])), None)
        if equal is not None:
            left.remove(equal)
            pairs[number] = RequestPair(number + 1, equal + 1, [])
    for number, request in enumerate(original):
        if number not in pairs:
            other = left.pop(0) if left else None
            pairs[number] = RequestPair(
                number + 1,
                None if other is None else other + 1,
                [] if other is None else compare_json(request, rewritten[other]),
            )
    extra = [RequestPair(None, other + 1, []) for other in left]
    return [*(pairs[number] for number in sorted(pairs)), *extra]
