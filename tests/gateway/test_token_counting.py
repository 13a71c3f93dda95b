"""Tokens are counted by the backend if it can, otherwise estimated."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pytest_plugin.scripted_backend import Script, ScriptedBackend, json_reply
from gateway.token_counting import ITEM_TOKENS, MEDIA_TOKENS, count_request, estimate_tokens
from tests.gateway.compaction.requests import SUMMARY, TRIGGER, message
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, backend_table, backend_tables, capability_table
from tests.gateway.raw_http import RawResponse
from tests.gateway.sdk_clients import WEATHER_TOOL
from tests.judges.reading import objects_in

PATH = "/v1/responses/input_tokens"
BACKENDS = {
    ("counts", "responses"): "responses",
    ("tallies", "chat"): "responses",
    ("vllm", "chat"): "vllm",
    ("llamacpp", "chat"): "llamacpp",
}


@pytest.fixture(scope="module")
def counting(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("counting")
    configured = backend_tables(backend.address) + "".join(
        backend_table(backend.address, name, dialect, capability_table(f'count_tokens = "{way}"'))
        for (name, dialect), way in BACKENDS.items()
    )
    # The vocabulary of tiktoken is not found, even if this machine has it.
    environment = {"TIKTOKEN_CACHE_DIR": str(folder)}
    with run_harness(backend, configured, folder, environment) as harness:
        yield harness


def counted(response: RawResponse) -> tuple[int, str]:
    """Return the number of tokens and their source."""
    assert response.status == 200, response.body
    assert response.json().keys() == {"object", "input_tokens"}
    tokens = response.json()["input_tokens"]
    assert isinstance(tokens, int)
    return tokens, response.headers["dragoman-token-count-source"]


def count(harness: Harness, **body: object) -> tuple[int, str]:
    return counted(harness.post(body, PATH))


# Estimated by the gateway


@pytest.mark.parametrize("dialect", DIALECTS)
def test_instructions_tools_and_images_are_counted(dialect: str, counting: Harness) -> None:
    model, endpoint = counting.new_model(dialect), counting.sdk.responses.input_tokens
    question = "Hello there, how are you?"
    plain = endpoint.count(model=model, input=question)
    assert plain.object == "response.input_tokens"
    assert 7 <= plain.input_tokens <= 20
    more = endpoint.count(
        model=model, input=question, instructions="Be brief.", tools=[WEATHER_TOOL]
    )
    assert more.input_tokens > plain.input_tokens + 20
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 9000}
    item = {"type": "message", "role": "user", "content": [picture]}
    tokens, source = count(counting, model=model, input=[item])
    assert source == "estimate"
    assert 1000 <= tokens <= 1020
    assert not counting.backend.received(model)


def test_history_and_summaries_are_counted(counting: Harness) -> None:
    model = counting.script("chat", "Sunny. " * 100, SUMMARY)
    first = counting.respond(model=model, input="What is the weather?")
    alone, _ = count(counting, model=model, input="Sure?")
    # The model is that of the previous response.
    whole, _ = count(counting, input="Sure?", previous_response_id=first.id)
    assert whole > alone + 150
    item = {"type": "item_reference", "id": first.output[0].id}
    assert count(counting, model=model, input=[item])[0] > 150
    given = [message("user", "Hello " * 100), TRIGGER]
    compacted = counting.post({"model": model, "store": False, "input": given}).json()
    opened, _ = count(counting, model=model, input=objects_in(compacted, "output"))
    # The summary counts, not its encrypted form.
    assert len(SUMMARY) / 4 < opened < 100


def test_invalid_requests_are_rejected(counting: Harness) -> None:
    model = counting.new_model("chat")
    gone = {"type": "item_reference", "id": "msg_no"}
    sealed = {"type": "compaction", "encrypted_content": "gAAAA"}
    unknown = {"model": model, "previous_response_id": "resp_no", "input": "Hi"}
    for body, status, field, value in (
        ({"input": "Hi"}, 400, "param", "model"),
        (unknown, 400, "code", "previous_response_not_found"),
        ({"model": model, "input": [gone]}, 404, "param", "input[0]"),
        ({"model": "elsewhere", "input": "Hi"}, 404, "code", "model_not_found"),
        ({"model": model, "input": [message("user", "Hi"), sealed]}, 400, "param", "input[1]"),
    ):
        response = counting.post(body, PATH)
        assert (response.status, response.error[field]) == (status, value)


# Counted by the backend

RESPONSES_COUNT = b'{"object":"response.input_tokens","input_tokens":42}'
RESPONSES_FIELDS = {"model", "input", "tools", "instructions"}
VLLM_COUNT = b'{"count":42,"max_model_len":4096,"tokens":[1,2]}'


@pytest.mark.parametrize(
    ("kind", "reply", "target", "fields"),
    [
        ("counts", RESPONSES_COUNT, f"/counts{PATH}", RESPONSES_FIELDS),
        ("tallies", RESPONSES_COUNT, f"/tallies{PATH}", RESPONSES_FIELDS),
        ("vllm", VLLM_COUNT, "/vllm/tokenize", {"model", "messages", "tools"}),
    ],
    ids=["Responses", "Responses for a Chat backend", "vLLM"],
)
def test_backend_counts(
    kind: str, reply: bytes, target: str, fields: set[str], counting: Harness
) -> None:
    model = counting.enqueue(kind, json_reply(reply))
    body = {"input": "Hello", "tools": [WEATHER_TOOL], "instructions": "Be brief."}
    assert count(counting, model=model, **body) == (42, "backend")
    received = counting.backend.wait_for_request(model)
    assert received.target == target
    assert received.headers["authorization"] == "Bearer sk-test"
    assert received.json().keys() == fields
    if "messages" in fields:
        messages = objects_in(received.json(), "messages")
        assert [message["role"] for message in messages] == ["system", "user"]


def test_llamacpp_counts(counting: Harness) -> None:
    model = counting.enqueue("llamacpp", json_reply(b'{"prompt":"<user>Hello"}'))
    tokenize = "POST /llamacpp/tokenize"
    counting.backend.enqueue(tokenize, json_reply(b'{"tokens":[1,2,3]}'))
    assert count(counting, model=model, input="Hello") == (3, "backend")
    assert counting.backend.wait_for_request(model).target == "/llamacpp/apply-template"
    sent = counting.sent_json(tokenize)
    assert sent == {"content": "<user>Hello", "add_special": True, "parse_special": True}


@pytest.mark.parametrize("kind", ["counts", "vllm", "llamacpp"])
@pytest.mark.parametrize(
    "reply",
    [
        *(json_reply(b"no", status=status) for status in (404, 405, 501, 500)),
        json_reply(b"no"),
        json_reply(b"{}"),
        json_reply(b'{"count":-5,"input_tokens":-5,"prompt":null}'),
        json_reply(b'{"count":"5","input_tokens":"5","prompt":5}'),
    ],
    ids=["404", "405", "501", "500", "no JSON", "no number", "negative", "text"],
)
def test_estimate_replaces_a_failed_count(kind: str, reply: Script, counting: Harness) -> None:
    model = counting.enqueue(kind, reply)
    tokens, source = count(counting, model=model, input="Hello")
    assert source == "estimate"
    assert tokens
    assert "Hello" in counting.sent(model)
    assert counting.sent_json(model)["model"] == model


# The estimate


def encode(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word", 1), ("words", 2), ("東京", 2), ("word 東京", 4), ("слово", 3)],
)
def test_estimate_depends_on_the_alphabet(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "lowest", "highest"),
    [
        ("Hello, my name is GPT-4o. I'm a new type of language model, nice to meet you!", 24, 24),
        ("Привет, меня зовут GPT-4o. Я — новая языковая модель, приятно познакомиться!", 23, 39),
        ("你好，我的名字是GPT-4o。我是一种新型的语言模型，很高兴见到你!", 24, 34),  # noqa: RUF001 - its own commas
        ("こんにちは、私の名前はGPT-4oです。私は新しいタイプの言語モデルです。初めまして!", 26, 37),
    ],
    ids=["English", "Russian", "Chinese", "Japanese"],
)
def test_estimate_is_close_to_tokenizers(text: str, lowest: int, highest: int) -> None:
    # The counts that OpenAI published for `o200k_base` and the encoding before it.
    assert highest / 2 <= estimate_tokens(text) <= lowest * 2


def test_estimate_of_code_is_close_to_tokenizers() -> None:
    # In source code, a token of `o200k_base` has about three to four characters.
    source = Path(__file__).read_text()
    assert len(source) / 4 / 2 <= estimate_tokens(source) <= len(source) / 3 * 2


@given(st.text(), st.text())
def test_estimate_grows_with_the_text(one: str, other: str) -> None:
    assert max(estimate_tokens(one), estimate_tokens(other)) <= estimate_tokens(one + other)
    assert estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other)


def test_only_fields_that_a_model_reads_count() -> None:
    assert count_request(encode(model="m", input="word")) == ITEM_TOKENS + 1
    assert count_request(encode(instructions="word", input=[])) == ITEM_TOKENS + 1
    message = {"type": "message", "id": "msg_123456", "role": "user", "content": "word"}
    assert count_request(encode(input=[message])) == ITEM_TOKENS + 1
    assert count_request(encode(messages=[{"role": "user", "content": "word"}])) == ITEM_TOKENS + 1
    call = {"type": "function_call", "call_id": "call_1", "name": "word", "arguments": "{}"}
    assert count_request(encode(input=[call])) == ITEM_TOKENS + 2
    sealed = {"type": "reasoning", "encrypted_content": "A" * 1000}
    assert count_request(encode(input=[sealed])) == ITEM_TOKENS
    assert count_request(b"[]") == 0


def test_size_of_media_does_not_count() -> None:
    for part in (
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 5000},
        {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}},
        {"type": "input_file", "file_data": "A" * 5000},
        {"type": "input_audio", "input_audio": {"data": "A" * 5000, "format": "wav"}},
    ):
        body = encode(input=[{"role": "user", "content": [part]}])
        assert count_request(body) == ITEM_TOKENS + MEDIA_TOKENS


def test_schema_counts_as_json() -> None:
    tool = {"type": "function", "name": "x", "parameters": {"type": "object"}}
    text = json.dumps(tool, separators=(",", ":"))
    assert count_request(encode(tools=[tool])) == ITEM_TOKENS + estimate_tokens(text)


def test_tokenizer_replaces_the_estimate() -> None:
    tokens = count_request(encode(input="one two three"), lambda text: len(text.split()))
    assert tokens == ITEM_TOKENS + 3
