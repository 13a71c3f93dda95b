"""Tokens are counted by the backend if it can, otherwise estimated."""

import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import FunctionToolParam

from gateway.token_counting import ITEM_TOKENS, MEDIA_TOKENS, count_request, estimate_tokens
from tests.gateway.backend_requests import received_body
from tests.gateway.compaction.requests import SUMMARY, TRIGGER, message, script_texts
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_table, backend_tables, capability_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.raw_http import AUTHORIZED, RawResponse, post
from tests.gateway.scripted_backend import Gate, ScriptedBackend, json_reply
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import objects_in

PATH = "/v1/responses/input_tokens"
TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}
BACKENDS = {
    ("counts", "responses"): "responses",
    ("tallies", "chat"): "responses",
    ("vllm", "chat"): "vllm",
    ("llamacpp", "chat"): "llamacpp",
}


@pytest.fixture(scope="module")
def counting(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("counting")
    configured = backend_tables(backend.address) + "".join(
        backend_table(backend.address, name, dialect, capability_table(f'count_tokens = "{way}"'))
        for (name, dialect), way in BACKENDS.items()
    )
    # The vocabulary of tiktoken is not found, even if this machine has it.
    environment = {"TIKTOKEN_CACHE_DIR": str(folder)}
    with run_gateway(configured, folder, environment) as gateway:
        yield gateway


@pytest.fixture
def client(counting: Gateway) -> Iterator[openai.OpenAI]:
    url = counting.url
    with openai.OpenAI(
        base_url=url, api_key="sk-test", max_retries=0, timeout=TIMEOUT_SECONDS
    ) as sdk:
        yield sdk


def count(gateway: Gateway, **body: object) -> RawResponse:
    return post(gateway.port, PATH, body, AUTHORIZED)


def counted(response: RawResponse) -> tuple[object, str]:
    assert response.status == 200, response.body
    assert response.json().keys() == {"object", "input_tokens"}
    return response.json()["input_tokens"], response.headers["dragoman-token-count-source"]


# Estimated by the gateway


@pytest.mark.parametrize("dialect", DIALECTS)
def test_instructions_tools_and_images_are_counted(
    dialect: str,
    client: openai.OpenAI,
    counting: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    plain = client.responses.input_tokens.count(model=model, input="Hello there, how are you?")
    assert plain.object == "response.input_tokens"
    assert 7 <= plain.input_tokens <= 20
    more = client.responses.input_tokens.count(
        model=model, input="Hello there, how are you?", instructions="Be brief.", tools=[TOOL]
    )
    assert more.input_tokens > plain.input_tokens + 20
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 9000}
    message = {"type": "message", "role": "user", "content": [picture]}
    tokens, source = counted(count(counting, model=model, input=[message]))
    assert source == "estimate"
    assert isinstance(tokens, int)
    assert 1000 <= tokens <= 1020
    assert not backend.received(model)


def test_history_and_summaries_are_counted(
    client: openai.OpenAI, counting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, "Sunny. " * 100, SUMMARY)
    first = client.responses.create(model=model, input="What is the weather?")
    alone = client.responses.input_tokens.count(model=model, input="Sure?")
    # The model is that of the previous response.
    whole = client.responses.input_tokens.count(input="Sure?", previous_response_id=first.id)
    assert whole.input_tokens > alone.input_tokens + 150
    item = {"type": "item_reference", "id": first.output[0].id}
    referred, _ = counted(count(counting, model=model, input=[item]))
    assert isinstance(referred, int)
    assert referred > 150
    given = [message("user", "Hello " * 100), TRIGGER]
    made = post(
        counting.port, "/v1/responses", {"model": model, "store": False, "input": given}, AUTHORIZED
    )
    opened, _ = counted(count(counting, model=model, input=objects_in(made.json(), "output")))
    assert isinstance(opened, int)
    # The summary counts, not its encrypted form.
    assert len(SUMMARY) / 4 < opened < 100


def test_invalid_requests_are_rejected(counting: Gateway, new_model: NewModel) -> None:
    model = new_model("chat")
    missing = count(counting, input="Hello")
    assert (missing.status, missing.error["param"]) == (400, "model")
    unknown = count(counting, model=model, previous_response_id="resp_no", input="Hi")
    assert (unknown.status, unknown.error["code"]) == (400, "previous_response_not_found")
    gone = {"type": "item_reference", "id": "msg_no"}
    lost = count(counting, model=model, input=[gone])
    assert (lost.status, lost.error["param"]) == (404, "input[0]")
    nowhere = count(counting, model="elsewhere", input="Hello")
    assert (nowhere.status, nowhere.error["code"]) == (404, "model_not_found")
    sealed = {"type": "compaction", "encrypted_content": "gAAAA"}
    foreign = count(counting, model=model, input=[message("user", "Hi"), sealed])
    assert (foreign.status, foreign.error["param"]) == (400, "input[1]")


# Counted by the backend


@pytest.mark.parametrize("kind", ["counts", "tallies"])
def test_responses_backend_counts(
    kind: str, counting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(kind)
    backend.enqueue(model, json_reply(b'{"object":"response.input_tokens","input_tokens":42}'))
    response = count(counting, model=model, input="Hello", tools=[TOOL], instructions="Be brief.")
    assert counted(response) == (42, "backend")
    received = backend.wait_for_request(model)
    assert received.target == f"/{kind}{PATH}"
    assert received.headers["authorization"] == "Bearer sk-test"
    assert received.json().keys() == {"model", "input", "tools", "instructions"}


def test_vllm_counts(counting: Gateway, backend: ScriptedBackend, new_model: NewModel) -> None:
    model = new_model("vllm")
    backend.enqueue(model, json_reply(b'{"count":42,"max_model_len":4096,"tokens":[1,2]}'))
    response = count(counting, model=model, input="Hello", tools=[TOOL], instructions="Be brief.")
    assert counted(response) == (42, "backend")
    received = backend.wait_for_request(model)
    assert received.target == "/vllm/tokenize"
    assert received.json().keys() == {"model", "messages", "tools"}
    assert [message["role"] for message in objects_in(received.json(), "messages")] == [
        "system",
        "user",
    ]


def test_llamacpp_counts(counting: Gateway, backend: ScriptedBackend, new_model: NewModel) -> None:
    model = new_model("llamacpp")
    backend.enqueue(model, json_reply(b'{"prompt":"<user>Hello"}'))
    backend.enqueue("POST /llamacpp/tokenize", json_reply(b'{"tokens":[1,2,3]}'))
    assert counted(count(counting, model=model, input="Hello")) == (3, "backend")
    assert backend.wait_for_request(model).target == "/llamacpp/apply-template"
    sent = backend.received("POST /llamacpp/tokenize")[-1].json()
    assert sent == {"content": "<user>Hello", "add_special": True, "parse_special": True}


@pytest.mark.parametrize("kind", ["counts", "vllm", "llamacpp"])
@pytest.mark.parametrize(
    "reply",
    [
        json_reply(b"no", status=404),
        json_reply(b"no", status=405),
        json_reply(b"no", status=501),
        json_reply(b"no", status=500),
        json_reply(b"no"),
        json_reply(b"{}"),
        json_reply(b'{"count":-5,"input_tokens":-5,"prompt":null}'),
        json_reply(b'{"count":"5","input_tokens":"5","prompt":5}'),
    ],
    ids=["404", "405", "501", "500", "no JSON", "no number", "negative", "text"],
)
def test_estimate_replaces_a_failed_count(
    kind: str,
    reply: tuple[bytes | Gate, ...],
    counting: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(kind)
    backend.enqueue(model, reply)
    tokens, source = counted(count(counting, model=model, input="Hello"))
    assert source == "estimate"
    assert tokens
    assert "Hello" in received_body(backend, model)
    assert json.loads(received_body(backend, model))["model"] == model


# The estimate


def encode(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_estimate_depends_on_the_alphabet() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("word") == 1
    assert estimate_tokens("words") == 2
    assert estimate_tokens("東京") == 2
    assert estimate_tokens("word 東京") == 4
    assert estimate_tokens("слово") == 3


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
        assert (
            count_request(encode(input=[{"role": "user", "content": [part]}]))
            == ITEM_TOKENS + MEDIA_TOKENS
        )


def test_schema_counts_as_json() -> None:
    tool = {"type": "function", "name": "x", "parameters": {"type": "object"}}
    text = json.dumps(tool, separators=(",", ":"))
    assert count_request(encode(tools=[tool])) == ITEM_TOKENS + estimate_tokens(text)


def test_tokenizer_replaces_the_estimate() -> None:
    assert (
        count_request(encode(input="one two three"), lambda text: len(text.split()))
        == ITEM_TOKENS + 3
    )
