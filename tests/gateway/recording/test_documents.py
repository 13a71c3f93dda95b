"""Requests, replies and streams that are detected and compared by meaning."""

import json
import sys
from subprocess import run

import pytest

import adapters
from adapters import InvalidRequestError
from gateway.recording.documents import compare_documents, read_document
from tests import corpus
from tests.gateway.backend_replies import reply_body, stream_events
from tests.gateway.recording.replays import CALLING
from tests.judges.reading import JsonObject
from tests.judges.sample_streams import chat_stream, chunk
from tests.judges.samples import CHAT_REPLY, encoded

REQUEST: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
TEXT_CHUNKS = [chunk({"role": "assistant", "content": "Par"}), chunk({"content": "is"})]
STREAM = chat_stream([*TEXT_CHUNKS, chunk({}, "stop")])
STREAMS = [case for case in corpus.STREAMS if case.body.endswith(b"\n\n")]


def differing_paths(left: bytes, right: bytes) -> list[str]:
    documents = read_document(left), read_document(right)
    return [difference.path for difference in compare_documents(*documents)]


def test_chunks_of_a_stream_are_ignored() -> None:
    other = chat_stream([chunk({"role": "assistant", "content": "Paris"}), chunk({}, "stop")])
    assert differing_paths(STREAM, other) == []


def test_text_of_streams_is_compared() -> None:
    other = chat_stream([chunk({"role": "assistant", "content": "Rome"}), chunk({}, "stop")])
    assert differing_paths(STREAM, other) == ["choices[0].message.content"]


def test_truncated_stream_differs_from_a_whole_one() -> None:
    truncated = chat_stream(TEXT_CHUNKS, end=b"")
    assert "error" in differing_paths(STREAM, truncated)
    assert differing_paths(truncated, truncated) == []


def test_stream_is_compared_with_a_whole_reply() -> None:
    message = {"role": "assistant", "content": "Paris"}
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": "stop"}
    reply = {**CHAT_REPLY, "model": "m", "choices": [choice], "usage": None}
    assert differing_paths(STREAM, encoded(reply)) == []


FORMS = [
    form
    for dialect in adapters.DIALECTS
    for form in (reply_body(dialect, CALLING), b"".join(stream_events(dialect, CALLING)))
]


@pytest.mark.parametrize("left", FORMS)
@pytest.mark.parametrize("right", FORMS)
def test_replies_of_all_dialects_and_forms_are_compared(left: bytes, right: bytes) -> None:
    # Only the sample of a response has a service tier.
    assert set(differing_paths(left, right)) <= {"service_tier"}


@pytest.mark.parametrize("target", ["responses", "legacy"])
def test_translated_request_equals_its_original(target: str) -> None:
    translated = adapters.translate_request(REQUEST, client="chat", backend=target)
    assert differing_paths(encoded(REQUEST), translated.body) == []


def test_request_is_not_compared_with_a_reply() -> None:
    with pytest.raises(InvalidRequestError, match="a request cannot be compared with a reply"):
        differing_paths(encoded(REQUEST), STREAM)


@pytest.mark.parametrize(
    ("body", "kind", "dialect"),
    [
        (REQUEST, "request", "chat"),
        ({**REQUEST, "functions": []}, "request", "legacy"),
        ({"model": "m", "input": "Hi"}, "request", "responses"),
        (CHAT_REPLY, "reply", "chat"),
        ({"object": "response", "output": []}, "reply", "responses"),
        ({"error": {"message": "overloaded"}}, "other", None),
        ([], "other", None),
    ],
)
def test_kind_and_dialect_are_detected(body: JsonObject, kind: str, dialect: str | None) -> None:
    document = read_document(json.dumps(body).encode())
    found = document.dialect.name if document.dialect else None
    assert (document.kind, found) == (kind, dialect)


@pytest.mark.parametrize("body", [b"", b" \n", b"<html>", b'{"a":'])
def test_body_that_is_no_json_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="the body is"):
        read_document(body)


@pytest.mark.parametrize("case", STREAMS, ids=[case.name for case in STREAMS])
def test_heartbeats_of_a_stream_are_ignored(case: corpus.StreamCase) -> None:
    stream = read_document(case.body, case.dialect)
    other = read_document(case.body + b": keep-alive\n\n", case.dialect)
    assert compare_documents(stream, other) == []


def test_comparison_imports_nothing_of_the_service() -> None:
    code = "import sys, gateway.recording.recording_diff; print(*sys.modules)"
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert not {"litestar", "httpx", "uvicorn", "click"} & set(done.stdout.split())
