"""The invented dialect served over sockets, to clients and by a backend.

The first gateway serves the demo. The second has the first as its backend, in the invented dialect.
"""

import sys
from collections.abc import Iterator

import httpx
import pytest
from msgspec import Raw
from msgspec.structs import replace

import adapters
from adapters.capabilities import GENERIC
from adapters.dialect import Dialect, ReplyContext
from adapters.ir.accumulator import accumulate
from adapters.ir.types import EMPTY_REQUEST, FunctionTool, Message, Reply, Text, ToolCall
from adapters.losses import Losses
from adapters.sse import Decoder
from tests.fourth_dialect.dialogue import DIALOGUE
from tests.gateway.gateway_process import ROOT, Gateway, run_gateway
from tests.gateway.sdk_clients import WEATHER_TOOL

COMMAND = (sys.executable, "-m", "tests.fourth_dialect.serve")
DIALECTS = [*adapters.DIALECTS.values(), DIALOGUE]
SCHEMA = b'{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'
QUESTION = adapters.Request(
    model="demo",
    items=(Message("user", (Text("What is the weather in Paris?"),)),),
    tools=(FunctionTool("get_weather", "The weather of a city.", Raw(SCHEMA)),),
)

each_client = pytest.mark.parametrize("client", DIALECTS, ids=lambda dialect: dialect.name)
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with run_gateway("", tmp_path_factory.mktemp("demo"), command=COMMAND) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def front(demo: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    backend = f'name = "demo"\nurl = "{demo.url}"\ndialect = "dialogue"\ndefault = true\n'
    config = f"[[backends]]\n{backend}"
    with run_gateway(config, tmp_path_factory.mktemp("front"), command=COMMAND) as gateway:
        yield gateway


def post(gateway: Gateway, client: Dialect, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(gateway.url + client.path, content=body, headers=headers, timeout=60)


def create(gateway: Gateway, client: Dialect, model: str, *, stream: bool) -> Reply:
    """Ask the question in a dialect; return the reply, whose form is checked."""
    request = replace(QUESTION, model=model, stream=stream or None)
    response = post(gateway, client, client.write_request(request, GENERIC, Losses(None)))
    assert response.status_code == 200, response.text
    context = ReplyContext(EMPTY_REQUEST, adapters.deterministic_ids(), Losses(None))
    if not stream:
        return client.read_reply(response.content, context)
    assert client.check_stream(response.content) == []
    reader = client.read_stream(context)
    frames = Decoder().feed(response.content)
    return accumulate(event for frame in frames for event in reader.feed(frame))


def assert_calls_weather(reply: Reply) -> None:
    assert reply.error is None
    (call,) = (item for item in reply.choices[0].items if isinstance(item, ToolCall))
    assert (call.name, call.arguments) == ("get_weather", '{"city":"Paris"}')


@each_way
@pytest.mark.parametrize("model", [f"demo-{dialect.name}" for dialect in DIALECTS])
def test_dialogue_client_of_each_backend(demo: Gateway, model: str, *, stream: bool) -> None:
    assert_calls_weather(create(demo, DIALOGUE, model, stream=stream))


@each_client
@each_way
def test_each_client_of_a_dialogue_backend(
    front: Gateway, client: Dialect, *, stream: bool
) -> None:
    assert_calls_weather(create(front, client, "demo", stream=stream))


@each_client
def test_error_of_a_dialogue_backend(front: Gateway, client: Dialect) -> None:
    request = replace(QUESTION, model="demo-dialogue", max_output_tokens=1234)
    body = client.write_request(request, GENERIC, Losses(None)).replace(b"1234", b"0")
    response = post(front, client, body)
    error = client.read_error(response.status_code, response.content)
    assert (error.status, error.type) == (400, "invalid_request_error")
    assert "Expected `int` >= 1" in error.message
    assert error.param == client.names.get("max_output_tokens", "max_output_tokens")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b'{"messages":[]}', "messages"),
        (b'{"model":"demo-chat","dialogue":[{"by":1}]}', "dialogue[0]"),
    ],
)
def test_own_error_has_the_form_of_the_dialect(
    demo: Gateway, body: bytes, param: str | None
) -> None:
    response = post(demo, DIALOGUE, body)
    assert response.status_code == 400
    assert b'"reason"' in response.content
    assert DIALOGUE.read_error(400, response.content).param == param


def test_product_does_not_mention_the_dialect() -> None:
    # What `serve.py` adds to the registry is the only change.
    files = [file for part in ("adapters", "gateway") for file in (ROOT / part).rglob("*.py")]
    assert files
    assert not [file for file in files if "dialogue" in file.read_text().lower()]


def test_endpoint_is_in_the_openapi_document(demo: Gateway) -> None:
    response = httpx.get(f"{demo.url}/schema")
    assert response.status_code == 200
    operation = response.json()["paths"][DIALOGUE.path]["post"]
    assert operation["responses"]["200"]["content"].keys() == {
        "application/json",
        "text/event-stream",
    }


@pytest.mark.parametrize("addition", [{"instructions": "Be brief."}, {"tools": [WEATHER_TOOL]}])
def test_input_tokens_of_a_dialogue_backend(demo: Gateway, addition: dict[str, object]) -> None:
    def count(**fields: object) -> int:
        body = {"model": "demo-dialogue", "input": "What is the weather?", **fields}
        response = httpx.post(f"{demo.url}/responses/input_tokens", json=body)
        assert response.status_code == 200, response.text
        return int(response.json()["input_tokens"])

    assert 0 < count() < count(**addition)


def test_error_of_the_framework_has_the_form_of_the_dialect(demo: Gateway) -> None:
    response = httpx.get(demo.url + DIALOGUE.path)
    assert response.status_code == 405
    assert "reason" in response.json()["error"]
