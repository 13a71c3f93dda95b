"""One exchange between a client and a backend: the request one way, the answer the other.

An exchange remembers what the client asked, because the answer depends on it: what a response
repeats, which tools were allowed, how many answers and whether the usage were wanted.

Where both speak the same dialect the bytes pass through as they are.
"""

import dataclasses

from msgspec import Struct
from msgspec.structs import replace

from adapters.capabilities import GENERIC, Capabilities
from adapters.conversation import Error, Function, Reply, Request
from adapters.dialect import Dialect, Surroundings
from adapters.enforce import enforcement
from adapters.envelope import error_of, is_error, read_error, read_error_value, with_status
from adapters.errors import BrokenReply, DragomanError, InvalidInput
from adapters.fields import read_body
from adapters.fold import replay
from adapters.loss import Loss, Losses, Policy
from adapters.mint import Mint
from adapters.pairing import paired
from adapters.params import translate_param
from adapters.preferences import DEFAULT, Preferences
from adapters.stage import AnyStage, Pipeline
from adapters.streams import Collector, Relay, StreamTranslator

# Of a request that nobody knows, the answer is told in full.
UNKNOWN_REQUEST = Request(include_usage=True)


class Translation(Struct, frozen=True):
    """What goes out, what was lost on the way, and the HTTP status that fits."""

    body: bytes
    losses: tuple[Loss, ...] = ()
    status: int = 200


class Exchange:
    """One request and its answer, between two dialects."""

    def __init__(  # noqa: PLR0913 - each says one thing of an exchange, and most have defaults
        self,
        client: Dialect,
        backend: Dialect,
        *,
        mint: Mint,
        capabilities: Capabilities = GENERIC,
        preferences: Preferences | None = None,
        policy: Policy = "report",
        asked: Request = UNKNOWN_REQUEST,
    ) -> None:
        self._client = client
        self._backend = backend
        self._mint = mint
        self._capabilities = capabilities
        self._preferences = preferences or DEFAULT
        self._policy: Policy = policy
        # What the client asked: known from the request, or given by who knows it.
        self._asked = asked
        # A request that was passed on unread; it is read only if somebody wants to know.
        self._unread: bytes | None = None

    @property
    def asked(self) -> Request:
        """Give what the client asked."""
        if self._unread is not None:
            body, self._unread = self._unread, None
            try:
                self._asked = self._client.read_request(body, Losses(None))
            except DragomanError:
                # Whether it makes sense, the server of its own dialect decides.
                self._asked = UNKNOWN_REQUEST
        return self._asked

    # The request

    def request(self, body: bytes, *, ends_open: bool = False) -> Translation:
        """Translate the client's request for the backend.

        An example for training may end with the call that the model should make: then it
        `ends_open`, and no output is put behind that call.

        Raises `InvalidInput` if it cannot be read, `Refused` if it cannot be carried.
        """
        losses = Losses(self._policy, self._client.names)
        if self._client is self._backend:
            read_body(body)
            self._unread = body
            return Translation(body)
        self._asked = self._client.read_request(body, losses)
        request = paired(
            self._asked, losses, ends_open=ends_open, ids_matter=self._backend.has_call_ids
        )
        written = self._backend.write_request(request, self._capabilities, losses)
        if not request.items and not request.instructions:
            raise InvalidInput(self._client.names["items"], "there is nothing to answer")
        if request.model is None and not ends_open:
            raise InvalidInput("model", "it is missing")
        return Translation(written, tuple(losses))

    # The answer, whole

    def reply(self, body: bytes) -> Translation:
        """Translate the backend's whole reply for the client.

        Raises `BrokenReply` if it cannot be read.
        """
        if self._client is self._backend:
            return self._pass_reply(body)
        around = self._surroundings()
        reply = self._read_reply(body, around)
        for stage in enforcement(around.request, around.losses):
            reply = stage.reply(reply)
        return self._finish_reply(reply, around)

    def _pass_reply(self, body: bytes) -> Translation:
        """Pass a reply on; one that is just an error gets the status of an error."""
        try:
            fields = read_body(body)
            error = fields.raw("error")
            if error is None or not is_error(error) or fields.has("object"):
                return Translation(body)
            return Translation(
                body, status=with_status(read_error_value(error, None)).status or 500
            )
        except InvalidInput as problem:
            raise BrokenReply(problem.path, problem.why) from None

    def _read_reply(self, body: bytes, around: Surroundings) -> Reply:
        try:
            return self._backend.read_reply(body, around)
        except InvalidInput as problem:
            raise BrokenReply(problem.path, problem.why) from None

    def _finish_reply(self, reply: Reply, around: Surroundings) -> Translation:
        """Write a reply; one that failed is an error, as over HTTP it must be."""
        if reply.error is not None:
            error = replace(reply.error, param=around.param(reply.error.param))
            body = self._client.write_error(error)
        else:
            body = self._client.write_reply(reply, around)
        return Translation(body, tuple(around.losses), _status(reply))

    def _stages(self, around: Surroundings) -> list[AnyStage]:
        """Give what stands between reader and writer."""
        return [*enforcement(around.request, around.losses)]

    # The answer, streamed

    def stream(self) -> "StreamTranslator | Relay":
        """Make the machine that translates the backend's stream for the client."""
        around = self._surroundings()
        reader = self._backend.read_stream(around)
        writer = self._client.write_stream(around)
        if self._client is self._backend:
            return Relay(reader, writer)
        return StreamTranslator(reader, [*self._stages(around), writer], around.losses)

    def collect(self) -> Collector:
        """Make the machine that gathers the backend's stream into a whole reply for the client."""
        around = self._surroundings()
        reader = self._backend.read_stream(around)
        return Collector(reader, self._stages(around), around.losses)

    def collected(self, collector: Collector) -> Translation:
        """Give the whole reply that was gathered from a stream."""
        around = dataclasses.replace(self._surroundings(), losses=collector.losses)
        return self._finish_reply(collector.reply(), around)

    def tell(self, body: bytes) -> Translation:
        """Tell the backend's whole reply to a client that wants a stream."""
        around = self._surroundings()
        reply = self._read_reply(body, around)
        pipeline = Pipeline(*self._stages(around), self._client.write_stream(around))
        told = pipeline.feed_all(list(replay(reply, around.losses)))
        return Translation(b"".join([*told, *pipeline.flush()]), tuple(around.losses))

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            self.asked, self._mint, Losses(None), self._preferences, self._translate_param
        )

    def _translate_param(self, param: str | None) -> str | None:
        moved = not all(isinstance(tool, Function) for tool in self.asked.tools)
        return translate_param(param, self._backend, self._client, tools_moved=moved)

    # Errors

    def error(self, status: int, body: bytes) -> Translation:
        """Translate what the backend answered with an error status."""
        if self._client is self._backend and _is_envelope(body):
            return Translation(body, status=status)
        error = read_error(status, body)
        error = replace(error, param=self._translate_param(error.param))
        return Translation(self._client.write_error(error), status=status)

    def problem(self, problem: DragomanError) -> Translation:
        """Say one of our own errors in the client's dialect."""
        error: Error = error_of(problem)
        return Translation(self._client.write_error(error), status=problem.status)


def _status(reply: Reply) -> int:
    return 200 if reply.error is None else reply.error.status or 500


def _is_envelope(body: bytes) -> bool:
    """Tell whether an error already is what every client expects."""
    try:
        return read_body(body).fields("error") is not None
    except InvalidInput:
        return False
