"""Deleting or replacing any one field changes what is sent, unless a loss names the field.

The openai package's types say which fields there are. Exceptions are listed with their reasons.
"""

import re
from collections.abc import Iterator
from itertools import product

import pytest
from msgspec import Struct

import adapters
from adapters.conformance import Json
from tests.adapters.laws import surroundings, unreported
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

    def __str__(self) -> str:
        route = f"{self.client} to {self.backend}"
        return f"{route}: {dotted(self.path)} = {self.value!r} ({self.sample.name})"

    @property
    def is_listed(self) -> bool:
        """Whether it is listed with a reason."""
        path, field = _INDEX.sub("[*]", dotted(self.path)), self.sample.field
        is_type = field == "type" and self.sample.owner.__name__ in unreported.IMPLIED_TYPES
        is_default = self.value in ({}, [], *unreported.DEFAULTS.get(field, ()))
        not_sent = unreported.NOT_SENT | (
            unreported.NOT_SENT_TO_LEGACY if self.backend == "legacy" else {}
        )
        return is_type or is_default or path in not_sent


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
    dropped = (loss.path for loss in losses if loss.action == "dropped")
    return any(path == lost or path.startswith((f"{lost}.", f"{lost}[")) for lost in dropped)


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
                yield Unreported(sample, path, value_at(body, path), client, backend)


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
