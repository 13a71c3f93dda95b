"""Tokens are counted by the backend where it can, and here where it cannot."""

import json
from collections.abc import Iterator

import openai
import pytest
from openai.types.responses import FunctionToolParam

from tests.gateway.compacting import SUMMARY, TRIGGER, plays, says
from tests.gateway.conftest import DIALECTS, Fresh, backend_table, capability, tables
from tests.gateway.keeping import heard
from tests.gateway.process import Gateway, running
from tests.gateway.scripted import PATIENCE, Gate, ScriptedBackend, answer
from tests.gateway.wire import AUTHORIZED, Answer, post
from tests.judges.reading import objects_in

PATH = "/v1/responses/input_tokens"
TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}
COUNTING = {
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
    configured = tables(backend.address) + "".join(
        backend_table(backend.address, name, dialect, capability(f'count_tokens = "{way}"'))
        for (name, dialect), way in COUNTING.items()
    )
    # No words of a tokeniser are there, whatever this machine has.
    environment = {"TIKTOKEN_CACHE_DIR": str(folder)}
    with running(configured, folder, environment) as gateway:
        yield gateway


@pytest.fixture
def client(counting: Gateway) -> Iterator[openai.OpenAI]:
    url = counting.url
    with openai.OpenAI(base_url=url, api_key="sk-test", max_retries=0, timeout=PATIENCE) as sdk:
        yield sdk


def count(gateway: Gateway, **body: object) -> Answer:
    return post(gateway.port, PATH, body, AUTHORIZED)


def counted(told: Answer) -> tuple[object, str]:
    assert told.status == 200, told.body
    assert told.json().keys() == {"object", "input_tokens"}
    return told.json()["input_tokens"], told.headers["dragoman-token-count-source"]


# Here


@pytest.mark.parametrize("dialect", DIALECTS)
def test_estimate_grows_with_what_is_said(
    dialect: str, client: openai.OpenAI, counting: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    plain = client.responses.input_tokens.count(model=model, input="Hello there, how are you?")
    assert plain.object == "response.input_tokens"
    assert 7 <= plain.input_tokens <= 20
    more = client.responses.input_tokens.count(
        model=model, input="Hello there, how are you?", instructions="Be brief.", tools=[TOOL]
    )
    assert more.input_tokens > plain.input_tokens + 20
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 9000}
    message = {"type": "message", "role": "user", "content": [picture]}
    tokens, how = counted(count(counting, model=model, input=[message]))
    assert how == "estimate"
    assert isinstance(tokens, int)
    assert 1000 <= tokens <= 1020
    assert not backend.received(model)


def test_what_it_stands_on_is_counted(
    client: openai.OpenAI, counting: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    plays(backend, "chat", model, "Sunny. " * 100, SUMMARY)
    first = client.responses.create(model=model, input="What is the weather?")
    alone = client.responses.input_tokens.count(model=model, input="Sure?")
    # Its model is known, too.
    whole = client.responses.input_tokens.count(input="Sure?", previous_response_id=first.id)
    assert whole.input_tokens > alone.input_tokens + 150
    item = {"type": "item_reference", "id": first.output[0].id}
    referred, _ = counted(count(counting, model=model, input=[item]))
    assert isinstance(referred, int)
    assert referred > 150
    given = [says("user", "Hello " * 100), TRIGGER]
    made = post(
        counting.port, "/v1/responses", {"model": model, "store": False, "input": given}, AUTHORIZED
    )
    opened, _ = counted(count(counting, model=model, input=objects_in(made.json(), "output")))
    assert isinstance(opened, int)
    # The summary, and not what it is sealed in.
    assert len(SUMMARY) / 4 < opened < 100


def test_what_cannot_be_counted(counting: Gateway, fresh: Fresh) -> None:
    model = fresh("chat")
    missing = count(counting, input="Hello")
    assert (missing.status, missing.error()["param"]) == (400, "model")
    unknown = count(counting, model=model, previous_response_id="resp_no", input="Hi")
    assert (unknown.status, unknown.error()["code"]) == (400, "previous_response_not_found")
    gone = {"type": "item_reference", "id": "msg_no"}
    lost = count(counting, model=model, input=[gone])
    assert (lost.status, lost.error()["param"]) == (404, "input[0]")
    nowhere = count(counting, model="elsewhere", input="Hello")
    assert (nowhere.status, nowhere.error()["code"]) == (404, "model_not_found")
    sealed = {"type": "compaction", "encrypted_content": "gAAAA"}
    foreign = count(counting, model=model, input=[says("user", "Hi"), sealed])
    assert (foreign.status, foreign.error()["param"]) == (400, "input[1]")


# There


@pytest.mark.parametrize("kind", ["counts", "tallies"])
def test_responses_backend_counts(
    kind: str, counting: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(kind)
    backend.play(model, answer(b'{"object":"response.input_tokens","input_tokens":42}'))
    told = count(counting, model=model, input="Hello", tools=[TOOL], instructions="Be brief.")
    assert counted(told) == (42, "backend")
    received = backend.wait(model)
    assert received.target == f"/{kind}{PATH}"
    assert received.headers["authorization"] == "Bearer sk-test"
    assert received.json().keys() == {"model", "input", "tools", "instructions"}


def test_vllm_counts(counting: Gateway, backend: ScriptedBackend, fresh: Fresh) -> None:
    model = fresh("vllm")
    backend.play(model, answer(b'{"count":42,"max_model_len":4096,"tokens":[1,2]}'))
    told = count(counting, model=model, input="Hello", tools=[TOOL], instructions="Be brief.")
    assert counted(told) == (42, "backend")
    received = backend.wait(model)
    assert received.target == "/vllm/tokenize"
    assert received.json().keys() == {"model", "messages", "tools"}
    assert [one["role"] for one in objects_in(received.json(), "messages")] == ["system", "user"]


def test_llamacpp_counts(counting: Gateway, backend: ScriptedBackend, fresh: Fresh) -> None:
    model = fresh("llamacpp")
    backend.play(model, answer(b'{"prompt":"<user>Hello"}'))
    backend.play("POST /llamacpp/tokenize", answer(b'{"tokens":[1,2,3]}'))
    assert counted(count(counting, model=model, input="Hello")) == (3, "backend")
    assert backend.wait(model).target == "/llamacpp/apply-template"
    sent = backend.received("POST /llamacpp/tokenize")[-1].json()
    assert sent == {"content": "<user>Hello", "add_special": True, "parse_special": True}


@pytest.mark.parametrize("kind", ["counts", "vllm", "llamacpp"])
@pytest.mark.parametrize(
    "refusal",
    [
        answer(b"no", status=404),
        answer(b"no", status=405),
        answer(b"no", status=501),
        answer(b"no", status=500),
        answer(b"no"),
        answer(b"{}"),
        answer(b'{"count":-5,"input_tokens":-5,"prompt":null}'),
        answer(b'{"count":"5","input_tokens":"5","prompt":5}'),
    ],
    ids=["404", "405", "501", "500", "no JSON", "no number", "below nothing", "text"],
)
def test_backend_that_does_not_count_is_done_without(
    kind: str,
    refusal: tuple[bytes | Gate, ...],
    counting: Gateway,
    backend: ScriptedBackend,
    fresh: Fresh,
) -> None:
    model = fresh(kind)
    backend.play(model, refusal)
    tokens, how = counted(count(counting, model=model, input="Hello"))
    assert how == "estimate"
    assert tokens
    assert "Hello" in heard(backend, model)
    assert json.loads(heard(backend, model))["model"] == model
