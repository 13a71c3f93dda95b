"""Translations of single bodies for tests, with assertions on their losses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import msgspec
from msgspec import Raw

from adapters import Loss, Transform, deterministic_ids
from adapters.model_rules import BackendCapabilities
from adapters.sse import Decoder
from gateway.config.transforms import make_transform
from gateway.dry_run import Kind, OfflineTranslator, read_request
from gateway.grammar_check import check_inputs_blocking
from gateway.pytest_plugin.bodies import (
    JsonBody,
    JsonObject,
    StreamBody,
    encode_body,
    encode_stream,
)
from gateway.pytest_plugin.cases import check_capabilities
from gateway.pytest_plugin.formats import format_json, format_losses, format_stream

_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class Translation:
    """A translated request, reply, stream or error."""

    kind: Kind
    source: str
    target: str
    body: bytes
    losses: tuple[Loss, ...]
    status: int = 200

    def json(self) -> JsonObject:
        """Return the body as JSON."""
        if self.kind == "stream":
            raise TypeError("this is a stream; use events() instead of json()")
        return cast("JsonObject", msgspec.json.decode(self.body))

    def events(self) -> list[JsonObject]:
        """Return the JSON of each event of a stream, without the `[DONE]` at its end."""
        if self.kind != "stream":
            raise TypeError(f"this is no stream, but a {self.kind}; use json() instead of events()")
        decoder = Decoder()
        frames = [*decoder.feed(self.body), *decoder.flush()]
        return [msgspec.json.decode(one.data) for one in frames if one.data != b"[DONE]"]

    def __str__(self) -> str:
        """Return the text of a snapshot: the body in a readable form, with the losses."""
        if self.kind == "stream":
            return format_stream(self.body, self.losses)
        losses = format_losses(self.losses)
        if self.kind == "request":
            return format_json({"sent": Raw(self.body), "losses": losses})
        shown = {} if self.kind == "error" else {"losses": losses}
        return format_json({"status": self.status, "body": Raw(self.body), **shown})

    def assert_lossless(self) -> None:
        """Raise an `AssertionError` if a value was lost; values in another form are not."""
        __tracebackhide__ = True
        self.assert_losses()

    def assert_losses(self, *paths: str) -> None:
        """Raise an `AssertionError` unless exactly the values at these paths were lost.

        `[*]` stands for any index. Values that were only sent in another form, whose losses have
        the severity "adapted", may be listed, but need not be.
        """
        __tracebackhide__ = True
        listed = {*paths}
        found = [{loss.path, _INDEX.sub("[*]", loss.path)} for loss in self.losses]
        unexpected = [
            loss
            for loss, names in zip(self.losses, found, strict=True)
            if loss.severity != "adapted" and not names & listed
        ]
        missing = [path for path in paths if not any(path in names for names in found)]
        if unexpected or missing:
            raise AssertionError(self._describe(unexpected, missing))

    def _describe(self, unexpected: Sequence[Loss], missing: Sequence[str]) -> str:
        lines = [f"{self.source} to {self.target}: the losses are not those that were expected"]
        lines += [f"  not expected: {line}" for line in format_losses(unexpected)]
        lines += [f"  did not occur: {path}" for path in missing]
        names = dict.fromkeys(loss.path for loss in self.losses if loss.severity != "adapted")
        arguments = ", ".join(f'"{name}"' for name in names)
        call = f"assert_losses({arguments})" if names else "assert_lossless()"
        return "\n".join([*lines, f"the losses are those of {call}"])


class Translate(Protocol):
    """The type of the fixture `dragoman_translate`, which is `translate`."""

    def __call__(  # noqa: PLR0913 - the fields of a test
        self,
        source: str,
        target: str,
        *,
        request: JsonBody | None = None,
        reply: JsonBody | None = None,
        stream: StreamBody | None = None,
        error: JsonBody | None = None,
        status: int | None = None,
        profile: str | None = None,
        capabilities: Mapping[str, object] | None = None,
        transforms: Iterable[Transform | str] = (),
    ) -> Translation:
        """Translate one body."""
        ...


def translate(  # noqa: PLR0913 - the fields of a test
    source: str,
    target: str,
    *,
    request: JsonBody | None = None,
    reply: JsonBody | None = None,
    stream: StreamBody | None = None,
    error: JsonBody | None = None,
    status: int | None = None,
    profile: str | None = None,
    capabilities: Mapping[str, object] | None = None,
    transforms: Iterable[Transform | str] = (),
) -> Translation:
    """Translate a request, or a reply, stream or error of a backend.

    A transform is an object or the import path of its class, "package.module:Class".
    With a reply or stream, `request` is the request that it belongs to. A body that cannot be
    translated raises a `DragomanError`.
    """
    given = {"reply": reply, "stream": stream, "error": error}
    bodies = {name: body for name, body in given.items() if body is not None}
    if len(bodies) > 1 or (not bodies and request is None):
        raise TypeError("one of request, reply, stream and error is required")
    check_capabilities(profile, capabilities or {})
    answered = encode_body(request) if request is not None and bodies else None
    translator = OfflineTranslator(
        source,
        target,
        deterministic_ids(),
        BackendCapabilities(profile, capabilities or {}),
        status=status,
        request=None if answered is None else read_request(answered, (target, source)),
        transforms=tuple(
            make_transform(one) if isinstance(one, str) else one for one in transforms
        ),
    )
    if stream is not None:
        return translate_stream(translator, encode_stream(stream))
    if reply is not None:
        return translate_body(translator, encode_body(reply), "reply")
    if error is not None:
        return translate_body(translator, encode_body(error), "error")
    return translate_body(translator, encode_body(cast("JsonBody", request)), "request")


def translate_body(translator: OfflineTranslator, body: bytes, kind: Kind) -> Translation:
    """Translate one JSON body."""
    done = translator.translate(body, kind)
    return Translation(
        kind, translator.source, translator.target, done.body, done.losses, done.status
    )


def translate_stream(translator: OfflineTranslator, stream: bytes) -> Translation:
    """Translate a whole stream."""
    reply = translator.stream()
    body = reply.feed(stream) + reply.finish(started=True).body
    if reply.faults:
        raise reply.faults[0]
    losses = (*reply.losses, *check_inputs_blocking(reply.custom_inputs))
    return Translation("stream", translator.source, translator.target, body, losses)
