"""The paths of Azure and of old SDKs."""

import openai
import pytest

from gateway.http.paths import rewrite_path
from gateway.pytest_plugin.scripted_backend import json_reply
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.conftest import Harness
from tests.gateway.gateway_process import Gateway
from tests.gateway.raw_http import send

MESSAGES = b'"messages":[{"role":"user","content":"hi"}]'


@pytest.mark.parametrize(
    ("path", "rewritten"),
    [
        ("/v1/chat/completions", ("/v1/chat/completions", None)),
        ("/openai/v1/chat/completions", ("/v1/chat/completions", None)),
        ("/openai/responses", ("/responses", None)),
        ("/openai/deployments/gpt-4o/chat/completions", ("/chat/completions", "gpt-4o")),
        ("/openai/deployments/gpt-4o/chat/completions/", ("/chat/completions", "gpt-4o")),
        ("/openai/deployments/meta/llama/responses", ("/responses", "meta/llama")),
        ("/v1/engines/gpt-4/chat/completions", ("/chat/completions", "gpt-4")),
        ("/engines/gpt-4/chat/completions", ("/chat/completions", "gpt-4")),
        ("/openai/deployments//chat/completions", ("/deployments//chat/completions", None)),
        ("/openai/deployments/m/embeddings", ("/deployments/m/embeddings", None)),
        ("/v1/engines/m/embeddings", ("/v1/engines/m/embeddings", None)),
        ("/openaiv1/models", ("/openaiv1/models", None)),
    ],
)
def test_paths_are_rewritten(path: str, rewritten: tuple[str, str | None]) -> None:
    assert rewrite_path(path) == rewritten


@pytest.mark.parametrize(
    "path",
    [
        "/openai/deployments/{}/chat/completions?api-version=2024-10-21",
        "/v1/engines/{}/chat/completions",
        "/engines/{}/chat/completions",
    ],
)
@pytest.mark.parametrize("dialect", ["chat", "responses", "legacy"])
@pytest.mark.parametrize("model", [b"", b'"model":null,'], ids=["missing", "null"])
def test_model_of_the_path_completes_the_body(
    harness: Harness, path: str, dialect: str, model: bytes
) -> None:
    name = harness.enqueue(dialect, json_reply(reply_body(dialect, Turn("Hello."))))
    response = send(harness.gateway, "POST", path.format(name), b"{%s%s}" % (model, MESSAGES))
    assert response.status == 200
    assert harness.backend.wait_for_request(name).json()["model"] == name


def test_model_of_the_path_may_have_an_encoded_slash(harness: Harness) -> None:
    response = send(
        harness.gateway, "POST", "/v1/engines/no%2Fmodel/chat/completions", b"{%s}" % MESSAGES
    )
    assert response.status == 404
    assert "no/model" in str(response.error["message"])


def test_model_of_the_body_counts(harness: Harness) -> None:
    name = harness.enqueue("chat", json_reply(reply_body("chat", Turn("Hello."))))
    body = b'{"model":"%s",%s}' % (name.encode(), MESSAGES)
    response = send(harness.gateway, "POST", "/openai/deployments/x/chat/completions", body)
    assert response.status == 200


def test_azure_client_of_the_sdk_is_served(harness: Harness) -> None:
    name = harness.enqueue("chat", *[json_reply(reply_body("chat", Turn("Hello.")))] * 2)
    with openai.AzureOpenAI(
        azure_endpoint=f"http://127.0.0.1:{harness.gateway.port}",
        api_key="sk-azure",
        api_version="2024-10-21",
        max_retries=0,
    ) as client:
        completion = client.chat.completions.create(
            model=name, messages=[{"role": "user", "content": "hi"}]
        )
        response = client.responses.create(model=name, input="hi")
    assert completion.choices[0].message.content == response.output_text == "Hello."
    sent = harness.backend.wait_for_request(name)
    assert sent.headers["authorization"] == "Bearer sk-azure"


@pytest.mark.parametrize("path", ["/openai/v1/models", "/openai/models", "/openai/v1/health"])
def test_every_route_has_the_prefix_of_azure(gateway: Gateway, path: str) -> None:
    assert send(gateway, "GET", path).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/openai/deployments/m/embeddings"),
        ("GET", "/openai/deployments"),
        ("POST", "/v1/engines/m/embeddings"),
    ],
)
def test_error_of_an_unknown_path_names_it_as_it_was_sent(
    gateway: Gateway, method: str, path: str
) -> None:
    response = send(gateway, method, f"{path}?api-version=2024-10-21", b"{}")
    assert response.status == 404
    assert f"{method} {path}: " in str(response.error["message"])


@pytest.mark.parametrize("path", ["/openai/v1/responses", "/openai/responses", "/v1/responses"])
def test_websocket_has_the_prefix_of_azure(gateway: Gateway, path: str) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert send(gateway, "GET", path, headers=headers).status == 101
