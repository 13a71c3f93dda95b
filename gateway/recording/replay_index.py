"""The recorded replies that a replay can send, and the search for the one of a request."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct

import adapters
from adapters import DIALECTS, Dialect, DragomanError, Violation
from adapters.comparison import MARKER, Difference
from gateway.recording.format import BackendCall, Body, Recording
from gateway.recording.recording_diff import NamedRecording
from gateway.recording.request_meaning import (
    RequestMeaning,
    compare_requests,
    is_volatile,
    meaning_of,
    read_meaning,
    without_volatile_text,
)
from gateway.recording.stored_history import StoredHistories

_OK: Final = 200
_FIRST_ERROR: Final = 400
_NO_BODY: Final = Body(b"", ".txt")
# The characters of two values that are compared to find out how similar they are.
_COMPARED: Final = 500


class RecordedReply(Struct, frozen=True):
    """A reply of a backend, and the request that it belongs to."""

    # The recording, and the number of the call if it has several.
    name: str
    dialect: Dialect
    request: RequestMeaning
    # What the backend supports, as it was configured.
    profile: str | None
    capabilities: dict[str, object]
    # The client's name of the model, and the backend's.
    client_model: str
    model: str
    status: int | None
    headers: dict[str, str]
    body: Body
    # The milliseconds of each read, and its bytes.
    reads: tuple[tuple[float, int], ...]
    # Why the reply or its end did not arrive.
    error: str | None

    def violations(self) -> list[Violation]:
        """Return the violations of the dialect's rules in a stream."""
        if not self.body.streamed or (self.status or _OK) >= _FIRST_ERROR:
            return []
        return adapters.check(self.dialect, self.body.data)


class ReplyReader:
    """Reads the replies of backends from recordings, in their order."""

    def __init__(self) -> None:
        self._histories = StoredHistories()

    def read(self, one: NamedRecording) -> list[RecordedReply]:
        """Return the replies in a recording, if they and their requests are whole."""
        recording, calls = one.recording, _calls_of(one.recording)
        return [
            self._read_reply(
                one.folder.name if len(calls) == 1 else f"{one.folder.name} (call {number})",
                recording.exchange.model,
                call,
                request,
                reply or _NO_BODY,
            )
            for number, (call, request, reply) in enumerate(calls, start=1)
            if request is not None and not request.omitted_bytes and _has_reply(call, reply)
        ]

    def _read_reply(
        self, name: str, client_model: str, call: BackendCall, request: Body, reply: Body
    ) -> RecordedReply:
        dialect = DIALECTS[call.dialect]
        meaning = self._read_meaning(request.data, dialect, reply)
        return RecordedReply(
            name,
            dialect,
            meaning,
            call.profile,
            call.capabilities,
            client_model,
            meaning.model,
            call.status,
            call.reply_headers,
            reply,
            call.reads,
            call.error,
        )

    def _read_meaning(self, data: bytes, dialect: Dialect, reply: Body) -> RequestMeaning:
        if not dialect.stateful:
            return read_meaning(data, dialect)
        try:
            request = self._histories.read_request(data, dialect)
        except DragomanError:
            return read_meaning(data, dialect)
        self._histories.add(request, dialect, reply)
        return meaning_of(request, dialect)


def _calls_of(recording: Recording) -> list[tuple[BackendCall, Body | None, Body | None]]:
    """Return the calls of a recording with their requests and replies."""
    calls = recording.exchange.calls
    if calls:
        return [
            (call, recording.backend_request(number), recording.backend_reply(number))
            for number, call in enumerate(calls)
        ]
    # A recording without a gateway in between has only one side.
    client = recording.exchange.client
    call = BackendCall(
        dialect=client.dialect, status=client.status, reply_headers=client.reply_headers
    )
    return [(call, recording.client_request, recording.client_reply)]


def _has_reply(call: BackendCall, reply: Body | None) -> bool:
    if reply is None:
        return call.error is not None or call.status is not None
    return not reply.omitted_bytes


class ReplayIndex:
    """Finds the recorded reply of a request.

    Replies to equal requests are found in the order of their recordings, and then the last one
    again and again.
    """

    def __init__(self, replies: Sequence[RecordedReply]) -> None:
        # In the order of the recordings, by the fingerprints of their requests.
        self._equal: dict[str, list[RecordedReply]] = {}
        # Those whose requests have redactions, which match different requests.
        self._redacted: list[RecordedReply] = []
        # By the fingerprints without dates and random ids.
        self._undated: dict[str, list[RecordedReply]] = {}
        # How often a request with these replies was received, by their identities.
        self._received: Counter[tuple[int, ...]] = Counter()
        for reply in replies:
            self._equal.setdefault(reply.request.fingerprint, []).append(reply)
            undated = without_volatile_text(reply.request.fingerprint)
            self._undated.setdefault(undated, []).append(reply)
            if MARKER.search(reply.request.fingerprint):
                self._redacted.append(reply)

    def find(self, request: RequestMeaning) -> RecordedReply | None:
        """Return the reply to send now; None if no recorded request has the same meaning."""
        found = self.matches(request)
        if not found:
            return None
        key = tuple(map(id, found))
        self._received[key] += 1
        return found[min(self._received[key], len(found)) - 1]

    def matches(self, request: RequestMeaning) -> list[RecordedReply]:
        """Return the replies to requests with the same meaning that differ least, in order."""
        equal = self._equal.get(request.fingerprint, self._redacted)
        undated = self._undated.get(without_volatile_text(request.fingerprint), [])
        return _matching(equal, request) or _matching(undated, request, is_volatile)


def _matching(
    replies: Iterable[RecordedReply],
    request: RequestMeaning,
    is_ignored: Callable[[Difference], bool] = lambda _: False,
) -> list[RecordedReply]:
    """Return the replies whose requests differ only in what is ignored, and otherwise least."""
    compared = [(reply, compare_requests(reply.request, request)) for reply in replies]
    matches = [
        (one.minor, reply) for reply, one in compared if all(map(is_ignored, one.differences))
    ]
    fewest = min((minor for minor, _ in matches), default=0)
    return [reply for minor, reply in matches if minor == fewest]


class Mismatch(Struct, frozen=True):
    """The recorded request that is nearest to another one."""

    name: str
    differences: list[Difference]

    def distance(self) -> float:
        """Return how different the values are."""
        return -sum(map(_similarity, self.differences))


def find_nearest(replies: Iterable[RecordedReply], request: RequestMeaning) -> Mismatch | None:
    """Return the recorded request that is nearest to one without a match.

    Their dialects may differ, because the meaning does not depend on it.
    """
    compared = ((reply.name, compare_requests(reply.request, request)) for reply in replies)
    found = [Mismatch(name, one.differences) for name, one in compared if one.differences]
    fewest = min((len(one.differences) for one in found), default=0)
    nearest = (one for one in found if len(one.differences) == fewest)
    return min(nearest, key=Mismatch.distance, default=None)


def _similarity(difference: Difference) -> float:
    left, right = (str(value)[:_COMPARED] for value in (difference.left, difference.right))
    return SequenceMatcher(None, left, right, autojunk=False).quick_ratio()
