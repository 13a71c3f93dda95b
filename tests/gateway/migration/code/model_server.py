"""A server with the scripted model, which accepts exactly one dialect from each run of a program.

A run has a URL of its own, so that one server serves all of them.
"""

import json
from collections.abc import Callable
from types import TracebackType
from typing import Self

from msgspec import Struct

from tests.gateway.migration.code.scripted_messages import read_legacy, read_tools
from tests.gateway.migration.code.scripted_model import Answer, Asked, Model, Script, Violation
from tests.gateway.migration.code.scripted_replies import event, stream, whole_reply
from tests.gateway.migration.code.scripted_responses import (
    ResponsesReader,
    response_events,
    whole_response,
)
from tests.gateway.scripted_backend import (
    ANY_MODEL,
    ReceivedRequest,
    ScriptedBackend,
    json_reply,
    stream_reply,
)
from tests.gateway.scripted_backend import Script as Reply
from tests.judges.reading import JsonObject, read_object

# More requests than any program sends; a program that never ends is stopped.
_MAXIMUM_REQUESTS = 20


class Exchange(Struct, frozen=True):
    """A valid request, and what the model did."""

    key: str
    body: JsonObject
    asked: Asked
    answer: Answer


class Run:
    """One run of a program, with what it sent."""

    def __init__(self, url: str, dialect: str, script: Script) -> None:
        self.url = url
        self.exchanges: list[Exchange] = []
        self.violations: list[str] = []
        self._dialect = dialect
        self._script = script
        self._model = Model(script)
        self._responses = ResponsesReader(self._model)
        self._count = 0

    def reply(self, request: ReceivedRequest) -> Reply:
        """Validate a request and reply to it."""
        self._count += 1
        if self._count == 1 and self._script.first_status != 200:
            return _error(self._script.first_status, "try again")
        try:
            if self._count > _MAXIMUM_REQUESTS:
                raise Violation(f"more than {_MAXIMUM_REQUESTS} requests")  # noqa: TRY301 - it is handled as the others
            body = read_object(request.body)
            asked = self._read(request, body)
            answer = self._model.answer(asked)
        except (Violation, AssertionError, KeyError) as error:
            self.violations.append(f"request {self._count}: {error}")
            return _error(400, str(error))
        self.exchanges.append(Exchange(_key(request), body, asked, answer))
        return self._write(body, asked, answer)

    def _read(self, request: ReceivedRequest, body: JsonObject) -> Asked:
        path = request.target.split("?")[0]
        expected = "/responses" if self._dialect == "responses" else "/chat/completions"
        if not path.endswith(expected):
            raise Violation(f"the request is sent to {path} instead of {expected}")
        if self._dialect == "responses":
            return self._responses.read(body)
        read: Callable[[JsonObject, Model], Asked]
        read = read_legacy if self._dialect == "legacy" else read_tools
        return read(body, self._model)

    def _write(self, body: JsonObject, asked: Asked, answer: Answer) -> Reply:
        model = str(body["model"])
        if self._dialect == "responses":
            self._responses.store(body, answer)
            if not asked.is_stream:
                return _json(whole_response(answer, model))
            events = response_events(answer, model)
            numbered = [{**one, "sequence_number": n} for n, one in enumerate(events)]
            return stream_reply(b"".join(map(event, numbered)))
        is_legacy = self._dialect == "legacy"
        if not asked.is_stream:
            return _json(whole_reply(answer, model, is_legacy=is_legacy))
        split = self._script.split_names
        chunks = stream(answer, model, is_legacy=is_legacy, split_names=split)
        return stream_reply(b"".join(map(event, chunks)))


def _key(request: ReceivedRequest) -> str:
    """Return the key of a client, which Azure has in a header of its own."""
    key = request.headers.get("api-key", request.headers.get("authorization", ""))
    return key.removeprefix("Bearer ")


def _json(value: JsonObject) -> Reply:
    return json_reply(json.dumps(value).encode())


def _error(status: int, message: str) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return json_reply(json.dumps({"error": error}).encode(), status=status)


class ModelServer:
    """The server; use it as a context manager."""

    def __init__(self) -> None:
        self._backend = ScriptedBackend(by_model=False)
        self._backend.respond_with(ANY_MODEL, self._reply)
        self._runs: dict[str, Run] = {}

    def __enter__(self) -> Self:
        self._backend.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._backend.__exit__(kind, error, traceback)

    def start_run(self, dialect: str, script: Script) -> Run:
        """Return a new run; its dialect is "legacy", "chat" or "responses"."""
        name = f"run{len(self._runs)}"
        self._runs[name] = Run(f"{self._backend.address}/{name}", dialect, script)
        return self._runs[name]

    def _reply(self, request: ReceivedRequest) -> Reply:
        run = self._runs.get(request.target.split("/")[1])
        if run is None:
            return _error(404, f"no run has the path {request.target}")
        return run.reply(request)
