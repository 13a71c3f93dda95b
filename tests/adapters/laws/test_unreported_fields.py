"""Deleting or replacing any one field changes what is sent, unless a loss names the field.

The openai package's types say which fields there are. Exceptions are listed with their reasons.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

import pytest
from msgspec import Struct

import adapters
from adapters.conformance import Json, Object
from tests.adapters.laws import reply_surroundings, surroundings, unreported
from tests.adapters.laws.common import each_unequal_pair
from tests.exchange import Exchange
from tests.judges.samples import encoded
from tests.judges.walk import Path, Sample, dotted, replaced, value_at, without

# What a translation sends, with its losses.
Sent = tuple[bytes, tuple[adapters.Loss, ...]]

_INDEX = re.compile(r"\[\d+\]")


class Unreported(Struct, frozen=True):
    """A field that makes no difference and that no loss names."""

    sample: Sample
    path: Path
    value: Json
    client: str
    backend: str
    # The paths of exceptions, with their reasons.
    listed: Mapping[str, str]

    def __str__(self) -> str:
        route = f"{self.client} to {self.backend}"
        return f"{route}: {dotted(self.path)} = {self.value!r} ({self.sample.name})"

    @property
    def is_listed(self) -> bool:
        """Whether it is listed with a reason."""
        path, field = _INDEX.sub("[*]", dotted(self.path)), self.sample.field
        is_type = field == "type" and self.sample.owner.__name__ in unreported.IMPLIED_TYPES
        is_default = self.value in ({}, [], *unreported.DEFAULTS.get(field, ()))
        is_count = field in unreported.COUNTS and self.value == 0
        return is_type or is_default or is_count or is_within(path, self.listed)


def is_within(path: str, others: Iterable[str]) -> bool:
    """Whether a path is one of others, or inside one of them."""
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in others)


def translate_request(
    client: str, backend: str, body: Json, capabilities: adapters.Capabilities
) -> Sent | None:
    """Return the request for the backend; None if it is refused."""
    assert isinstance(body, dict)
    exchange = Exchange(client, backend, capabilities=capabilities, rewrite=client == backend)
    try:
        sent = exchange.request(encoded({**body}))
    except adapters.DragomanError:
        return None
    return sent.body, sent.losses


def is_reported(path: str, losses: tuple[adapters.Loss, ...]) -> bool:
    """Whether a field, or something around it, is reported as dropped."""
    return is_within(path, (loss.path for loss in losses if loss.action == "dropped"))


def unreported_requests(
    dialect: str, backend: str, capabilities: adapters.Capabilities
) -> Iterator[Unreported]:
    """Yield the fields that can be deleted and replaced without a difference."""
    for walk in surroundings.WALKS:
        for sample in walk.samples(surroundings.REQUESTS[dialect]):
            body, path = surroundings.surrounded(dialect, sample)
            client = surroundings.client_of(dialect, body)
            sent = translate_request(client, backend, body, capabilities)
            if sent is None or is_reported(dotted(path), sent[1]):
                continue
            others = [without(body, path)]
            if sample.is_required:
                others.append(replaced(body, path))
            if all(translate_request(client, backend, o, capabilities) == sent for o in others):
                listed = unreported.NOT_SENT | (
                    unreported.NOT_SENT_TO_LEGACY if backend == "legacy" else {}
                )
                yield Unreported(sample, path, value_at(body, path), client, backend, listed)


PROFILES = ("generic", "vllm", "deepseek", "llama_cpp_python")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("dialect", "backend"), list(product(surroundings.REQUESTS, adapters.DIALECTS))
)
def test_every_field_of_a_request_is_sent_or_reported(
    dialect: str, backend: str, profile: str
) -> None:
    found = unreported_requests(dialect, backend, adapters.PROFILES[profile])
    assert [str(one) for one in found if not one.is_listed] == []


# Replies and streams

REPLY_OPTIONS = adapters.ReplyOptions(reasoning_text=True, reasoning_field="reasoning_content")


def reply_exchange(client: str, backend: str) -> Exchange:
    request = adapters.Request(include_usage=True)
    return Exchange(client, backend, request=request, reply_options=REPLY_OPTIONS)


def translate_reply(client: str, backend: str, body: Json) -> Sent | None:
    """Return the reply for the client; None if the backend's reply cannot be read."""
    assert isinstance(body, dict)
    try:
        end = reply_exchange(client, backend).reply(encoded({**body}))
    except adapters.InvalidReplyError:
        return None
    return end.body, end.losses


def translate_stream(client: str, backend: str, events: list[Json]) -> Sent:
    stream = reply_exchange(client, backend).stream()
    frames = (b"data: %b\n\n" % encoded({**event}) for event in events if isinstance(event, dict))
    sent = stream.feed(b"".join(frames) + b"data: [DONE]\n\n")
    end = stream.finish(started=True)
    return sent + end.body, end.losses


def variants(sample: Sample, value: Json) -> list[Json]:
    """Return a value without the field of a sample, and with another value for it."""
    deleted = [without(value, sample.path)]
    return [*deleted, replaced(value, sample.path)] if sample.is_required else deleted


def received(sample: Sample, value: Json, client: str, backend: str) -> Unreported:
    listed = unreported.NOT_RECEIVED | dict.fromkeys(unreported.PLACES, "")
    if client == "legacy":
        listed |= {"output[*].call_id": "", "item.call_id": ""}
    path = _in_whole_reply(sample.path)
    return Unreported(sample, path, value_at(value, sample.path), client, backend, listed)


def _in_whole_reply(path: Path) -> Path:
    """Return the path that an item of an event has in a whole reply."""
    return ("output", 0, *path[1:]) if path[:1] == ("item",) else path


@each_unequal_pair
def test_every_field_of_a_reply_is_received_or_reported(client: str, backend: str) -> None:
    found: list[str] = []
    for sample, body in reply_surroundings.replies("chat" if backend == "legacy" else backend):
        end = translate_reply(client, backend, body)
        if end is None or is_reported(dotted(sample.path), end[1]):
            continue
        if all(translate_reply(client, backend, one) == end for one in variants(sample, body)):
            one = received(sample, body, client, backend)
            found += [] if one.is_listed else [str(one)]
    assert found == []


@pytest.mark.parametrize("client", ["responses", "legacy"])
def test_every_field_of_a_chunk_is_received_or_reported(client: str) -> None:
    found: list[str] = []
    for sample, (first, *rest) in reply_surroundings.chat_streams():
        sent = translate_stream(client, "chat", [first, *rest])
        path = dotted(sample.path)
        if is_reported(path, sent[1]) or is_reported(path.replace(".delta.", ".message."), sent[1]):
            continue
        others = (translate_stream(client, "chat", [one, *rest]) for one in variants(sample, first))
        if all(other == sent for other in others):
            one = received(sample, first, client, "chat")
            found += [] if one.is_listed else [str(one)]
    assert found == []


def _reported_path(path: str, event: Object) -> str:
    """Return the path of a field of an event in a whole reply."""
    place = f"output[{event.get('output_index', 0)}]"
    part = f"{place}.content[{event.get('content_index', 0)}].annotations"
    first, dot, rest = path.partition(".")
    return {"item": place, "annotation": part}.get(first, first) + dot + rest


@pytest.mark.parametrize("client", ["chat", "legacy"])
def test_every_field_of_an_event_is_received_or_reported(client: str) -> None:
    found: list[str] = []
    for sample, events, number in reply_surroundings.response_streams():
        sent = translate_stream(client, "responses", events)
        event = events[number]
        assert isinstance(event, dict)
        path = _reported_path(dotted(sample.path), event)
        if is_reported(path, sent[1]):
            continue
        others = (
            translate_stream(client, "responses", [*events[:number], one, *events[number + 1 :]])
            for one in variants(sample, event)
        )
        if all(other == sent for other in others):
            one = received(sample, event, client, "responses")
            found += [] if one.is_listed else [str(one)]
    assert found == []
