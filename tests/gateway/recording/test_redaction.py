"""Secrets never reach a recording, in whatever form they occur."""

import base64
import json
import re
import string
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from urllib.parse import quote, unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adapters
from adapters.conformance import Json
from gateway.config.schema import BackendConfig
from gateway.observability.capture import Capture, CapturedBody, CapturedCall
from gateway.recording.exchange_writer import FinishedExchange, RecordingMaker
from gateway.recording.format import Recording, recording_files, recording_name
from gateway.recording.redaction import RedactedBody, Redactor
from gateway.recording.wire_words import is_wire_word
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events

SECRET = "correct-horse-battery"  # noqa: S105 - not a real one
BACKEND = BackendConfig("b", "http://127.0.0.1/v1", "chat")
LIMIT = 1024 * 1024


def redact(body: bytes, *secrets: str) -> bytes:
    redacted = Redactor(secrets or (SECRET,)).redact(body)
    assert redacted is not None
    return redacted.data


# Single forms


def test_equal_secrets_have_the_same_number_in_all_bodies() -> None:
    redactor = Redactor((SECRET, "another-secret-value"))
    bodies = [b'{"a":"another-secret-value correct-horse-battery"}', b'["x correct-horse-battery"]']
    redacted = [redactor.redact(body) for body in bodies]
    assert [one.data for one in redacted if one is not None] == [
        b'{"a":"[redacted:1] [redacted:2]"}',
        b'["x [redacted:2]"]',
    ]
    assert redactor.count == 3


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1.0e5, "b":"\\u00e9\\/",\r\n "n":[1,2]}',
        b"data: {} \r\n\r\n: comment\n\nid: 3\ndata: [DONE]\n\n",
        b"\xff\xfe no JSON",
        b"",
        b'{"key":"correct-horse or correct"}',
    ],
)
def test_bodies_without_secrets_stay_as_they_are(body: bytes) -> None:
    assert redact(body) == body


def test_other_strings_and_numbers_of_a_body_stay_as_they_are() -> None:
    body = (
        b'{"a":1.0e5, "b":"\\u00e9\\/","correct-horse-battery":{"c":"\\u0063orrect-horse-battery"}}'
    )
    expected = b'{"a":1.0e5, "b":"\\u00e9\\/","[redacted:1]":{"c":"[redacted:1]"}}'
    assert redact(body) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"key": "correct\\u002dhorse-battery"}', '{"key": "[redacted:1]"}'),
        (
            "https://x.example/?k=correct%2Dhorse%2dbattery&l=1",
            "https://x.example/?k=[redacted:1]&l=1",
        ),
        ("?to=%2Fk%3Dcorrect%252Dhorse%252Dbattery%26l", "?to=%2Fk%3D[redacted:1]%26l"),
        ("Authorization: Bearer correct-horse-battery", "Authorization: Bearer [redacted:1]"),
        ("key sk-abcdefghijkl, then", "key [redacted:1], then"),
        ("key sk_live_abcdefgh, xai-abcdefghijklmnop", "key [redacted:1], [redacted:2]"),
        (
            "/a.png?w=2&sig=a%2Fb%2Bcdefgh&key=ijklmnop",
            "/a.png?w=2&sig=[redacted:1]&key=[redacted:2]",
        ),
        ("postgresql://user:pass@db.example/x", "postgresql://[redacted:1]@db.example/x"),
    ],
)
def test_secrets_are_found_in_strings(text: str, expected: str) -> None:
    assert json.loads(redact(json.dumps({"a": text}).encode())) == {"a": expected}
    nested = json.dumps({"a": json.dumps([text])}).encode()
    assert json.loads(json.loads(redact(nested))["a"]) == [expected]
    assert redact(text.encode()) == expected.encode()


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_secrets_are_found_in_base64(before: str, encode: Callable[[bytes], bytes]) -> None:
    encoded = encode(f"{before}{SECRET}>>>???".encode())
    redacted = redact(b'{"a":"%s"}' % encoded)
    assert b"[redacted:1]" in redacted
    assert SECRET not in _base64_text(redacted.decode())


@pytest.mark.parametrize("length", [64, 76])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\n  "])
def test_secrets_are_found_in_lines_of_base64(length: int, line_break: str) -> None:
    for size in range(40, 60):
        encoded = base64.b64encode(f"{'u' * size}:{SECRET}>>>???".encode()).decode()
        lines = line_break.join(re.findall(f".{{1,{length}}}", encoded))
        redacted = redact(json.dumps({"a": lines}).encode())
        assert b"[redacted:1]" in redacted
        assert SECRET not in _base64_text("".join(json.loads(redacted)["a"].split()))


def test_secret_that_is_split_over_deltas_is_found_in_each_block() -> None:
    def chunk(index: int, text: str) -> bytes:
        choice = {"index": index, "delta": {"content": text}}
        return b"data: %s\n\n" % json.dumps({"choices": [choice]}).encode()

    stream = chunk(0, "a correct-") + chunk(1, "correct-") + chunk(0, "horse") + chunk(1, "horses")
    stream += chunk(0, "-battery b")
    expected = chunk(0, "a [redacted:1]") + chunk(1, "correct-") + chunk(0, "")
    assert redact(stream) == expected + chunk(1, "horses") + chunk(0, " b")


@pytest.mark.parametrize(
    "text", ["key: correct-horse", "correct-horse-batter", "Y29ycmVjdC1ob3JzZS"]
)
def test_secret_that_is_truncated_at_the_end_of_a_text_is_found(text: str) -> None:
    assert redact(json.dumps([text]).encode()).endswith(b'[redacted:1]"]')


def test_characters_beyond_ascii_are_found_in_urls() -> None:
    secret = "pässwörter-länger"  # noqa: S105 - not a real one
    text = f"https://x.example/?k={quote(secret)}"
    assert redact(text.encode(), secret) == b"https://x.example/?k=[redacted:1]"


def test_secret_in_tokens_with_probabilities_is_not_left_as_bytes() -> None:
    tokens = [{"token": part, "bytes": [*part.encode()]} for part in ("correct-horse", "-battery")]
    redacted = json.loads(redact(json.dumps({"logprobs": {"content": tokens}}).encode()))
    assert redacted["logprobs"]["content"] == [
        {"token": "[redacted:1]", "bytes": None},
        {"token": "", "bytes": None},
    ]


def test_reads_of_a_body_follow_its_redaction() -> None:
    before, event = b'data: {"a":"xyz"}\n\n', b'data: {"a":"correct-horse-battery"}\n\n'
    cuts = (len(before), len(before) + 20, len(before + event), len(before + event + before))
    redacted = Redactor((SECRET,)).redact(before + event + before, cuts)
    assert redacted is not None
    shown = b'data: {"a":"[redacted:1]"}\n\n'
    parts = [redacted.data[start:end] for start, end in pairwise((0, *redacted.cuts))]
    assert parts == [before, shown[:-3], shown[-3:], before]


def test_body_whose_secret_cannot_be_replaced_is_left_out() -> None:
    assert Redactor(("1234567890123456",)).redact(b'{"a":1234567890123456}') is None


@pytest.mark.parametrize("secret", ["not-needed", "sk-xxxxxxxxxxxx", "short"])
def test_placeholders_and_short_values_are_not_redacted(secret: str) -> None:
    body = b'{"a":"%s"}' % secret.removeprefix("sk-").encode()
    assert redact(body, secret) == body


def _words(value: Json) -> Iterator[str]:
    """Yield the names in JSON, and the values that are words of a dialect."""
    if isinstance(value, list):
        for entry in value:
            yield from _words(entry)
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield name
            yield from _words(entry)
            if name in {"type", "role", "status", "object", "finish_reason", "dialect"}:
                yield str(entry)


def test_words_of_the_dialects_are_no_secrets() -> None:
    """A cookie may have such a value."""
    turn = Turn("Hello.", (Call("get", "{}"),))
    recording = _record(_capture("Hi", b"".join(stream_events("responses", turn)), {}))
    bodies = [data for name, data in recording_files(recording).items() if name.endswith("json")]
    for dialect in ("chat", "responses", "legacy"):
        events = b"".join(stream_events(dialect, turn)).split(b"\n")
        bodies.append(reply_body(dialect, turn))
        bodies += [line[6:] for line in events if line.startswith(b"data: {")]
    words = {word for body in bodies for word in _words(msgspec.json.decode(body))}
    assert "assistant" in words
    assert [redact(body, *words) for body in bodies] == bodies


def test_many_secrets_are_redacted_in_linear_time() -> None:
    """Searching the whole body again for each of them would take hours."""
    event = b'data: {"delta":"correct-horse-battery"}\n\n'
    cuts = [*accumulate([len(event)] * 20_000)]
    redacted = Redactor((SECRET,)).redact(event * 20_000, cuts)
    shown = b'data: {"delta":"[redacted:1]"}\n\n'
    assert redacted == RedactedBody(shown * 20_000, (*accumulate([len(shown)] * 20_000),))


# Every form


def _escape_json(secret: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in secret)


def _escape_url(secret: str) -> str:
    return "".join(f"%{ord(char):02X}" for char in secret)


secrets = st.text(
    string.ascii_letters + string.digits + "-._~+/=!&$", min_size=16, max_size=40
).filter(lambda text: len(set(text)) > 3 and not is_wire_word(text))
PREFIXES = ("sk-", "sk-ant-api03-", "sk_live_", "ghp_", "xoxb-", "AKIA", "AIzaSy", "xai-", "nvapi-")
keys = st.sampled_from((*PREFIXES, "tgp_v1_", "npm_", "ya29.", "?api_key=", "&amp;sig=")).flatmap(
    lambda prefix: st.text(string.ascii_uppercase + string.digits, min_size=24, max_size=40).map(
        lambda rest: prefix + rest
    )
)
# How a secret is written into a text.
forms: st.SearchStrategy[Callable[[str], str]] = st.sampled_from(
    [
        str,
        _escape_json,
        _escape_url,
        lambda secret: quote(secret, safe=""),
        lambda secret: quote(quote(secret, safe=""), safe=""),
        lambda secret: _escape_url(_escape_json(secret)),
        lambda secret: json.dumps({"key": secret}),
        lambda secret: json.dumps(json.dumps([secret])),
    ]
)
encodings: st.SearchStrategy[tuple[Callable[[bytes], bytes], bytes, bytes]] = st.tuples(
    st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]),
    st.binary(max_size=5),
    st.binary(max_size=5),
)


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, str]:
    """Return a credential, and a text that contains it in some form."""
    secret = draw(secrets)
    if draw(st.booleans()):
        encode, before, after = draw(encodings)
        return secret, encode(before + secret.encode() + after).decode()
    # Other characters around it, so that it is not part of a longer key.
    return secret, f"a {draw(forms)(secret)} b"


@st.composite
def planted_key(draw: st.DrawFn) -> tuple[str, str]:
    """Return a key that is recognized by its format, and a text that contains it."""
    key = draw(keys)
    return key, f"a {draw(forms)(key)} b"


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> list[str]:
    """Return the deltas of a text."""
    cuts = sorted(draw(st.sets(st.integers(1, max(len(text) - 1, 1)), max_size=5)))
    return [text[start:end] for start, end in pairwise((0, *cuts, len(text)))]


def _chat_stream(pieces: list[str], field: str) -> bytes:
    def delta(piece: str) -> dict[str, object]:
        if field == "arguments":
            return {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        return {field: piece}

    chunks = [{"choices": [{"index": 0, "delta": delta(piece)}]} for piece in pieces]
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)


def _responses_stream(pieces: list[str]) -> bytes:
    kind = "response.output_text.delta"
    events = [
        {"type": kind, "output_index": 0, "sequence_number": number, "delta": piece}
        for number, piece in enumerate(pieces)
    ]
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps(event).encode()) for event in events
    )


def _captured(data: bytes) -> CapturedBody:
    body = CapturedBody(LIMIT)
    for start in range(0, len(data), 7):
        body.add(data[start : start + 7], start / 1000)
    return body


def _record(capture: Capture, *config_secrets: str) -> Recording:
    exchange = FinishedExchange(
        "/v1/chat/completions", "chat", "m", 200, "ok", None, 0.1, 0.2, [], capture
    )
    return RecordingMaker(config_secrets, [BACKEND]).make(exchange)


def _capture(text: str, stream: bytes, headers: dict[str, str]) -> Capture:
    """Return an exchange with a text in each place."""
    capture = Capture(LIMIT, _captured(stream), headers=headers)
    request = {"model": "m", "messages": [{"role": "user", "content": text}], text: [text]}
    capture.note_request(json.dumps(request).encode())
    call = CapturedCall(
        "b",
        "POST",
        f"/v1/{quote(text)}",
        [(b"x-request-id", text.encode("latin-1", "replace"))],
        _captured(json.dumps(request).encode()),
        _captured(stream),
        status=200,
        error=text,
    )
    capture.calls.append(call)
    failed = CapturedCall("b", "POST", "/", [], _captured(b""), _captured(f"<p>{text}".encode()))
    capture.calls.append(failed)
    return capture


HEADERS: tuple[Callable[[str], dict[str, str]], ...] = (
    lambda secret: {"authorization": f"Bearer {secret}"},
    lambda secret: {"api-key": secret},
    lambda secret: {"cookie": f"theme=dark; session={secret}"},
    lambda secret: {"x-api-key": secret},
    lambda secret: {
        "authorization": f"Basic {base64.b64encode(f'user:{secret}'.encode()).decode()}"
    },
)


@given(
    planted(),
    st.sampled_from(HEADERS),
    st.sampled_from(["content", "reasoning_content", "arguments", "responses"]),
    st.data(),
)
def test_credentials_of_the_exchange_are_in_no_file(
    case: tuple[str, str], headers: Callable[[str], dict[str, str]], field: str, data: st.DataObject
) -> None:
    secret, text = case
    pieces = data.draw(pieces_of(text))
    stream = _responses_stream(pieces) if field == "responses" else _chat_stream(pieces, field)
    _assert_hidden(secret, _record(_capture(text, stream, headers(secret))))


@given(planted(), st.data())
def test_credentials_of_the_configuration_are_in_no_file(
    case: tuple[str, str], data: st.DataObject
) -> None:
    secret, text = case
    stream = _chat_stream(data.draw(pieces_of(text)), "content")
    _assert_hidden(secret, _record(_capture(text, stream, {}), secret))


@given(planted_key(), st.data())
def test_keys_of_known_formats_are_in_no_file(case: tuple[str, str], data: st.DataObject) -> None:
    key, text = case
    stream = _chat_stream(data.draw(pieces_of(text)), "content")
    _assert_hidden(key, _record(_capture(text, stream, {})))


def _assert_hidden(secret: str, recording: Recording) -> None:
    files = recording_files(recording)
    assert recording.exchange.redactions
    assert secret not in recording_name(recording.exchange)
    for name, content in files.items():
        shown = content.decode("utf-8", "surrogateescape")
        for text in (shown, *_joined_deltas(shown), *_strings(shown)):
            for view in _views(text):
                assert secret not in view, name
        if name.endswith(".json"):
            json.loads(content)


def _views(text: str) -> Iterator[str]:
    """Yield a text as a reader could decode it."""
    yield text
    yield unquote(text)
    yield _base64_text(text)
    yield from _strings(text)


def _strings(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except ValueError:
        return
    remaining = [value]
    while remaining:
        one = remaining.pop()
        if isinstance(one, dict):
            remaining += [*one, *one.values()]
        elif isinstance(one, list):
            remaining += one
        elif isinstance(one, str):
            yield one
            yield re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), one)
            yield from _strings(one)


def _base64_text(text: str) -> str:
    """Decode everything that may be base64, at each alignment."""
    decoded: list[bytes] = []
    for run in re.findall(r"[A-Za-z0-9+/_-]{8,}", text):
        plain = run.replace("-", "+").replace("_", "/")
        for start in range(4):
            part = plain[start:]
            decoded.append(base64.b64decode(part[: len(part) // 4 * 4]))
    return b"\n".join(decoded).decode("latin-1")


def _joined_deltas(text: str) -> Iterator[str]:
    events = [json.loads(data) for data in re.findall(r"^data: (\{.*)$", text, re.MULTILINE)]
    yield "".join(event.get("delta", "") for event in events)
    for field in ("content", "reasoning_content"):
        deltas = [event["choices"][0]["delta"] for event in events if "choices" in event]
        yield "".join(delta.get(field, "") for delta in deltas)
        calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
        yield "".join(call["function"]["arguments"] for call in calls)


# Legality


@pytest.mark.parametrize("dialect", ["chat", "responses", "legacy"])
def test_redacted_replies_are_still_legal(dialect: str) -> None:
    turn = Turn(f"The key is {SECRET}.", (Call("get", json.dumps({"key": SECRET})),))
    stream = redact(b"".join(stream_events(dialect, turn)))
    assert SECRET.encode() not in stream
    assert b"[redacted:1]" in stream
    assert adapters.check(dialect, stream) == []
    assert json.loads(redact(reply_body(dialect, turn)))
