"""Cases: inputs in one dialect, one per file, that tests translate to other dialects.

A JSON file has the fields of one of the types below. A stream is a file of its own, with its fields
in comment lines before it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

import adapters
from adapters.model_rules import BackendCapabilities
from adapters.profiles import PROFILES
from gateway.config.schema import DialectName
from gateway.dry_run import Kind, OfflineTranslator

# Missing JSON, because msgspec does not support `Raw | None`.
MISSING = Raw(b"")

_JSON_FIELDS = {"capabilities", "request"}


class StrictCapabilities(adapters.Capabilities, frozen=True, forbid_unknown_fields=True):
    """Capabilities of a backend; an unknown name is an error."""


def check_capabilities(profile: str | None, capabilities: Mapping[str, object]) -> None:
    """Raise a `ValueError` if a profile or a capability does not exist."""
    if profile is not None and profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, not {profile!r}")
    msgspec.convert(capabilities, StrictCapabilities)


class CaseError(Exception):
    """A file that is not a case."""


class Case(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all kinds of cases have."""

    kind: ClassVar[Kind]

    # What the case shows.
    point: str = ""
    # The dialect of its body.
    dialect: DialectName
    # Public bug reports that the case covers.
    reports: tuple[str, ...] = ()
    # The name of its file.
    name: str = ""

    def others(self) -> Iterator[str]:
        """Return the dialects that the case is translated to, which are all but its own."""
        return (name for name in adapters.DIALECTS if name != self.dialect)


class _CapableCase(Case, frozen=True, kw_only=True):
    # The profile of the backend.
    profile: str | None = None
    # The capabilities of the backend that differ from its profile.
    own_capabilities: dict[str, object] = field(default_factory=dict, name="capabilities")

    def __post_init__(self) -> None:
        check_capabilities(self.profile, self.own_capabilities)

    @property
    def capabilities(self) -> adapters.Capabilities:
        """The capabilities of the backend for a model without rules of its own."""
        return BackendCapabilities(self.profile, self.own_capabilities).for_model()


class RequestCase(_CapableCase, frozen=True, kw_only=True):
    """A request of a client."""

    kind = "request"

    body: Raw
    policy: adapters.Policy = "report"


class BackendCase(_CapableCase, frozen=True, kw_only=True):
    """A reply of a backend, whole or streamed."""

    # The request, in the dialect of the backend or of `client`.
    request: Raw = MISSING
    # The dialect of the request, if it is the client's; the reply is then only for that client.
    client: DialectName | None = None

    def others(self) -> Iterator[str]:
        """Return the dialect of the client, if the case has one."""
        return super().others() if self.client is None else iter((self.client,))


class ReplyCase(BackendCase, frozen=True, kw_only=True):
    """A whole reply."""

    kind = "reply"

    body: Raw


class StreamCase(BackendCase, frozen=True, kw_only=True):
    """The exact bytes of a streamed reply, which may be truncated or broken."""

    kind = "stream"

    body: bytes


class ErrorCase(Case, frozen=True, kw_only=True):
    """An error response of a backend, or of a proxy in front of it."""

    kind = "error"

    status: int
    body: Raw = MISSING
    body_text: str | None = None

    def wire_body(self) -> bytes:
        """Return the body as it is sent."""
        return on_wire(self.body) if self.body_text is None else self.body_text.encode()

    def __post_init__(self) -> None:
        if bool(bytes(self.body)) == (self.body_text is not None):
            raise ValueError("either `body` or `body_text` is required")


class _KindFields(Struct):
    """The fields of a file that distinguish the kinds."""

    dialect: DialectName
    body: Raw = MISSING
    body_text: str | None = None
    status: int | None = None
    request: Raw = MISSING


CaseType = TypeVar("CaseType", bound=Case)

_TYPES: dict[Kind, type[Case]] = {
    of.kind: of for of in (RequestCase, ReplyCase, StreamCase, ErrorCase)
}
_KIND_FIELDS = msgspec.json.Decoder(_KindFields)


def read_case(path: Path) -> Case:
    """Read a case of any kind; raise a `CaseError` if it is invalid."""
    if path.suffix == ".sse":
        return read_stream_case(path)
    content = path.read_bytes()
    try:
        kind = _detect_kind(_KIND_FIELDS.decode(content))
    except msgspec.MsgspecError as error:
        raise CaseError(f"{path.name}: {error}") from None
    return _decode(path, content, _TYPES[kind])


def _detect_kind(fields: _KindFields) -> Kind:
    if fields.body_text is not None:
        return "error"
    request = adapters.EMPTY_REQUEST if bytes(fields.request) else None
    reader = OfflineTranslator(
        fields.dialect, fields.dialect, status=fields.status, request=request
    )
    kind = reader.detect_kind(bytes(fields.body))
    # Some servers send an error with the status 200.
    return "reply" if kind == "error" and fields.status is None else kind


def read_json_case(path: Path, case_type: type[CaseType]) -> CaseType:
    """Read a case of a given type; raise a `CaseError` if it is invalid."""
    return _decode(path, path.read_bytes(), case_type)


def _decode(path: Path, content: bytes, case_type: type[CaseType]) -> CaseType:
    try:
        return replace(msgspec.json.decode(content, type=case_type), name=path.stem)
    except msgspec.MsgspecError as error:
        raise CaseError(f"{path.name}: {error}") from None


def read_stream_case(path: Path) -> StreamCase:
    """Read a stream and the comment lines before it; raise a `CaseError` if one is invalid."""
    header, _, body = path.read_bytes().partition(b"\n\n")
    lines = dict(_header_fields(path, header.decode()))
    fields = {
        name: Raw(value.encode()) if name in _JSON_FIELDS else value
        for name, value in lines.items()
    }
    reports = lines.get("reports", "").split()
    encoded = msgspec.json.encode({**fields, "reports": reports, "body": ""})
    return replace(_decode(path, encoded, StreamCase), body=body)


def _header_fields(path: Path, header: str) -> Iterator[tuple[str, str]]:
    """Read the comment lines before a stream: `: name value`."""
    for line in header.split("\n"):
        if not line.startswith(": "):
            message = f"`: name value` lines and an empty line must precede the stream: {line!r}"
            raise CaseError(f"{path.name}: {message}")
        name, _, value = line.removeprefix(": ").partition(" ")
        yield name, value


def on_wire(body: Raw) -> bytes:
    """Return JSON without the indentation of the files."""
    return msgspec.json.format(bytes(body), indent=-1)
