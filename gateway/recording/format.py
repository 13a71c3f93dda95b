"""The format of recordings: one folder for each exchange, described in `docs/recordings.md`.

Bodies are files of their own, so that other tools can read them and a diff names the side that
changed. JSON is indented if its exact bytes can be restored. Every other body is kept as it is.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters import DIALECTS, DragomanError, Loss, Violation, dialects_by_path, parse_body
from adapters.json_text import DECODE_ERRORS
from adapters.sse import is_stream
from gateway.observability.capture import Transport

FORMAT: Final = 1
EXCHANGE_FILE: Final = "exchange.json"
CLIENT_REQUEST: Final = "client-request"
CLIENT_REPLY: Final = "client-reply"

Layout = Literal["exact", "compact", "spaced"]
Suffix = Literal[".json", ".sse", ".txt"]

_BODY_FILE = re.compile(
    r"(?P<stem>client-request|client-reply|backend-(?:request|reply)(?:-(?P<number>[1-9]\d*))?)"
    r"(?P<suffix>\.json|\.sse|\.txt)"
)
# The indentation by which `msgspec.json.format` writes a layout.
_INDENTATIONS: Final[dict[Layout, int]] = {"compact": -1, "spaced": 0}
# A pair of numbers that was formatted with a line for each.
_PAIR = re.compile(rb"\[\n\s+([\d.e+-]+),\n\s+([\d.e+-]+)\n\s+\]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_MAX_NAME_LENGTH = 40


class RecordingError(Exception):
    """A folder that is not a valid recording."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class Body(Struct, frozen=True):
    """A body, as it was sent or received, after decompression and redaction."""

    data: bytes
    suffix: Suffix
    # The size of a body that was left out; then `data` is empty.
    omitted_bytes: int = 0

    @property
    def streamed(self) -> bool:
        """Whether the body is a stream of events."""
        return self.suffix == ".sse"


class BodyInfo(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the file of a body does not show."""

    # How the indented JSON of the file was sent: "exact" as it is, "compact" without spaces,
    # "spaced" with a space after each comma and colon.
    layout: Layout = "exact"
    omitted_bytes: int = 0


class Client(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The side of the client."""

    dialect: str = ""
    transport: Transport = "http"
    method: str = "POST"
    path: str = ""
    headers: dict[str, str] = {}
    # None if the client received no reply.
    status: int | None = None
    reply_headers: dict[str, str] = {}
    # The violations of the dialect's rules in a streamed reply.
    violations: tuple[Violation, ...] = ()


class BackendCall(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request to a backend."""

    backend: str = ""
    dialect: str = ""
    # The backend's name of the model.
    model: str = ""
    profile: str | None = None
    # The capabilities that differ from those of the profile for the model.
    capabilities: dict[str, object] = {}
    method: str = "POST"
    path: str = ""
    headers: dict[str, str] = {}
    # Milliseconds from the request of the client to the request to the backend.
    sent_ms: float = 0
    # None if no response arrived.
    status: int | None = None
    reply_headers: dict[str, str] = {}
    # Milliseconds from the request to each read of the body, and the bytes that it brought.
    reads: tuple[tuple[float, int], ...] = ()
    # Why the response or the rest of its body did not arrive.
    error: str | None = None
    # Whether the gateway stopped reading before the end of the body.
    cut: bool = False
    violations: tuple[Violation, ...] = ()


class Exchange(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The content of `exchange.json`: everything but the bodies."""

    format: int
    id: str = ""
    # When the request arrived, in UTC (ISO 8601).
    time: str = ""
    # The client's name of the model.
    model: str = ""
    outcome: Literal["ok", "error", "client_disconnected"] = "ok"
    error_code: str | None = None
    # Milliseconds from the request to the first byte and to the end of the reply.
    first_byte_ms: float | None = None
    duration_ms: float | None = None
    # The number of markers of redacted values, in all files.
    redactions: int = 0
    losses: tuple[Loss, ...] = ()
    client: Client = Client()
    # In the order of their numbers in the names of the files.
    calls: tuple[BackendCall, ...] = ()
    # By the names of their files without suffix; most bodies need no entry.
    bodies: dict[str, BodyInfo] = {}


class Recording(Struct, frozen=True):
    """An exchange with its bodies, by the names of their files without suffix."""

    exchange: Exchange
    bodies: dict[str, Body] = {}

    @property
    def client_request(self) -> Body | None:
        """The body of the client's request."""
        return self.bodies.get(CLIENT_REQUEST)

    @property
    def client_reply(self) -> Body | None:
        """The body of the client's reply."""
        return self.bodies.get(CLIENT_REPLY)

    def backend_request(self, number: int = 0) -> Body | None:
        """Return the body of a request to a backend, by the index of the call."""
        return self.bodies.get(backend_body("request", number))

    def backend_reply(self, number: int = 0) -> Body | None:
        """Return the body of a backend's reply, by the index of the call."""
        return self.bodies.get(backend_body("reply", number))


class _Version(Struct):
    format: int | None = None


_ENCODER = msgspec.json.Encoder()
_VERSION = msgspec.json.Decoder(_Version)
_EXCHANGE = msgspec.json.Decoder(Exchange)


def backend_body(kind: Literal["request", "reply"], number: int) -> str:
    """Return the name of a backend's body; the first call has no number."""
    return f"backend-{kind}-{number + 1}" if number else f"backend-{kind}"


def make_body(data: bytes) -> Body:
    """Return a body with the suffix that fits its content."""
    if is_stream(data):
        return Body(data, ".sse")
    return Body(data, ".txt" if _format(data, 0) is None else ".json")


def recording_name(exchange: Exchange) -> str:
    """Return the name of the folder for an exchange: its time, dialect, model and id."""
    time = re.sub(r"[^0-9T.]", "", exchange.time)
    parts = (time, exchange.client.dialect, exchange.model, exchange.id)
    safe = (_UNSAFE.sub("-", part)[:_MAX_NAME_LENGTH].strip("-.") for part in parts)
    return "-".join(filter(None, safe))


# Writing


def write_recording(folder: str | Path, recording: Recording) -> int:
    """Write a recording into a new folder, which appears only when it is complete.

    Returns the size of its files, which only the owner can read. Raises `OSError`, also if the
    folder exists and is not empty.
    """
    folder, files = Path(folder), recording_files(recording)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}-{token_hex(4)}")
    temporary.mkdir(mode=0o700)
    try:
        for name, data in files.items():
            descriptor = os.open(temporary / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        temporary.rename(folder)
    except BaseException:
        _remove(temporary)
        raise
    return sum(map(len, files.values()))


def _remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def recording_files(recording: Recording) -> dict[str, bytes]:
    """Return the files of a recording by their names."""
    infos: dict[str, BodyInfo] = {}
    files: dict[str, bytes] = {}
    for stem, body in recording.bodies.items():
        layout, data = _lay_out(body)
        info = BodyInfo(layout, body.omitted_bytes)
        if info != BodyInfo():
            infos[stem] = info
        if data:
            files[stem + body.suffix] = data
    exchange = replace(recording.exchange, format=FORMAT, bodies=infos)
    return {EXCHANGE_FILE: _write_exchange(exchange), **files}


def _write_exchange(exchange: Exchange) -> bytes:
    text = msgspec.json.format(_ENCODER.encode(exchange), indent=2)
    # A stream has hundreds of reads, so each is one line.
    return _PAIR.sub(rb"[\1, \2]", text) + b"\n"


def _lay_out(body: Body) -> tuple[Layout, bytes]:
    """Return the text of a file, and the layout from which the body can be restored."""
    indented = _format(body.data, 2) if body.suffix == ".json" else None
    if indented is not None:
        for layout, indentation in _INDENTATIONS.items():
            if _format(indented, indentation) == body.data:
                return layout, indented + b"\n"
    return "exact", body.data


def _format(data: bytes, indentation: int) -> bytes | None:
    """Return JSON with another indentation, or None for a body that is not JSON."""
    try:
        data.decode()
        return msgspec.json.format(data, indent=indentation)
    except DECODE_ERRORS:
        return None


# Reading


def find_recordings(root: str | Path) -> Iterator[Path]:
    """Yield the folders of all recordings below a folder, or the folder itself, in order."""
    for parent, folders, files in os.walk(root):
        if any(file == EXCHANGE_FILE or _BODY_FILE.fullmatch(file) for file in files):
            folders.clear()
            yield Path(parent)
        # Recordings that are still being written begin with a dot.
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))


def read_recording(folder: str | Path) -> Recording:
    """Read a recording, also one that has only some of the files.

    Raises `RecordingError`.
    """
    folder = Path(folder)
    exchange = _read_exchange(folder)
    bodies: dict[str, Body] = {}
    numbers = [len(exchange.calls)]
    for path in _list_files(folder):
        found = _BODY_FILE.fullmatch(path.name)
        if found is None:
            continue
        stem = found["stem"]
        if stem in bodies:
            raise RecordingError(folder, f"has several files {stem}.*; remove all but one")
        bodies[stem] = _read_body(path, exchange.bodies.get(stem, BodyInfo()))
        if stem not in (CLIENT_REQUEST, CLIENT_REPLY):
            numbers.append(int(found["number"] or 1))
    if not bodies and not (folder / EXCHANGE_FILE).exists():
        raise RecordingError(folder, "is not a recording: it has none of the files of one")
    for stem, info in exchange.bodies.items():
        if info.omitted_bytes:
            bodies.setdefault(stem, Body(b"", ".txt", info.omitted_bytes))
    missing = max(numbers) - len(exchange.calls)
    exchange = replace(exchange, calls=(*exchange.calls, *[BackendCall()] * missing))
    return _with_defaults(folder, Recording(exchange, bodies))


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise RecordingError(folder, f"cannot be read: {error.strerror}") from None


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {error.strerror}") from None


def _read_exchange(folder: Path) -> Exchange:
    path = folder / EXCHANGE_FILE
    if not path.exists():
        return Exchange(FORMAT)
    data = _read_file(path)
    try:
        version = _VERSION.decode(data).format
        if version is None:
            raise RecordingError(path, f"format is required; the current one is {FORMAT}")
        if version != FORMAT:
            remedy = "update Dragoman" if version > FORMAT else "record the exchange again"
            message = f"format {version} is not supported, only {FORMAT}; {remedy}"
            raise RecordingError(path, message)
        return _EXCHANGE.decode(data)
    except DECODE_ERRORS as error:
        raise RecordingError(path, str(error)) from None


def _read_body(path: Path, info: BodyInfo) -> Body:
    data = _read_file(path)
    if info.layout != "exact":
        restored = _format(data, _INDENTATIONS[info.layout])
        if restored is None:
            raise RecordingError(path, f"is not JSON, but {EXCHANGE_FILE} has a layout for it")
        data = restored
    return Body(data, _SUFFIXES[path.suffix], info.omitted_bytes)


_SUFFIXES: Final[dict[str, Suffix]] = {".json": ".json", ".sse": ".sse", ".txt": ".txt"}


def _with_defaults(folder: Path, recording: Recording) -> Recording:
    """Return a recording with the dialects and statuses that a hand-written one may omit."""
    exchange, client = recording.exchange, recording.exchange.client
    request, reply = recording.client_request, recording.client_reply
    client = replace(client, **_defaults(folder, client, request, reply))
    calls = tuple(
        replace(
            call,
            **_defaults(
                folder, call, recording.backend_request(number), recording.backend_reply(number)
            ),
        )
        for number, call in enumerate(exchange.calls)
    )
    model = exchange.model or _read_model(request)
    return replace(recording, exchange=replace(exchange, client=client, calls=calls, model=model))


def _defaults(
    folder: Path, side: Client | BackendCall, request: Body | None, reply: Body | None
) -> dict[str, object]:
    dialect = side.dialect or _infer_dialect(request)
    if not dialect and (request or reply):
        raise RecordingError(folder / EXCHANGE_FILE, _missing_dialect(side))
    if dialect and dialect not in DIALECTS:
        names = ", ".join(DIALECTS)
        raise RecordingError(
            folder / EXCHANGE_FILE, f"dialect must be one of {names}, not {dialect!r}"
        )
    status = 200 if side.status is None and reply is not None else side.status
    return {"dialect": dialect, "status": status}


def _missing_dialect(side: Client | BackendCall) -> str:
    where = "client" if isinstance(side, Client) else "calls"
    return f"{where} needs a dialect ({', '.join(DIALECTS)}), because no request shows it"


def _infer_dialect(request: Body | None) -> str:
    """Return the dialect of a request; "" if it cannot be read."""
    if request is None:
        return ""
    try:
        body = parse_body(request.data)
    except DragomanError:
        return ""
    for dialects in dialects_by_path().values():
        if dialects[0].names["items"] in body.fields:
            return next(one.name for one in dialects if one.matches(body))
    return ""


def _read_model(request: Body | None) -> str:
    try:
        return "" if request is None else parse_body(request.data).model or ""
    except DragomanError:
        return ""
