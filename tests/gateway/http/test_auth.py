"""Which requests are authorized, which key goes to the backend, and that no key is disclosed."""

from collections.abc import Iterator

import openai
import pytest

from gateway.crypto import api_key_digest
from gateway.pytest_plugin.scripted_backend import ScriptedBackend, json_reply
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.conftest import Harness, NewModel
from tests.gateway.gateway_config import backend_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.raw_http import send
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.waiting import wait_until

KEY = "dk-the-key-of-a-client"
OTHER_KEY = "dk-another-key"
BACKEND_KEY = "sk-our-own-key-at-the-backend"
REPLY = json_reply(reply_body("chat", Turn("Hello.")))
PATH = "/v1/chat/completions"


def _body(model: str) -> bytes:
    return b'{"model":"%s","messages":[{"role":"user","content":"hi"}]}' % model.encode()


@pytest.fixture(scope="module")
def guarded(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway with keys; one backend has a key of ours, the other has none."""
    config = "[logging]\nbodies = true\n"
    for name, key in (("first", KEY), ("second", OTHER_KEY)):
        config += f'[[access.keys]]\nname = "{name}"\nsha256 = "{api_key_digest(key)}"\n'
    config += backend_table(backend.address, "with-key", "chat", 'api_key_env = "A_BACKEND_KEY"\n')
    config += backend_table(backend.address, "without", "chat")
    folder = tmp_path_factory.mktemp("guarded")
    with run_gateway(config, folder, {"A_BACKEND_KEY": f"{BACKEND_KEY}\n"}) as gateway:
        yield gateway


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer sk-mine"}, {"api-key": "sk-mine"}],
    ids=["bearer token", "header of Azure"],
)
def test_without_keys_the_clients_key_goes_to_the_backend(
    headers: dict[str, str], harness: Harness
) -> None:
    model = harness.enqueue("chat", REPLY)
    send(harness.gateway, "POST", PATH, _body(model), headers)
    assert harness.backend.wait_for_request(model).headers["authorization"] == "Bearer sk-mine"


def test_with_keys_the_backend_gets_its_key_and_never_the_clients(
    guarded: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("with-key")
    backend.enqueue(model, REPLY)
    with sdk_client(guarded, KEY) as client:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
    assert backend.wait_for_request(model).headers["authorization"] == f"Bearer {BACKEND_KEY}"
    model = new_model("without")
    backend.enqueue(model, REPLY)
    send(guarded, "POST", PATH, _body(model), {"api-key": OTHER_KEY})
    assert "authorization" not in backend.wait_for_request(model).headers
    assert KEY not in str(backend.wait_for_request(model).headers)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer dk-wrong"}, {"Authorization": "Basic abc"}, {"api-key": ""}],
    ids=["none", "wrong", "another scheme", "empty"],
)
@pytest.mark.parametrize(
    "path",
    [
        PATH,
        "/responses",
        "/v1/translate",
        "/openai/deployments/m/chat/completions",
        "/openai/v1/responses",
        "/v1/engines/m/chat/completions",
    ],
)
def test_without_a_known_key_nothing_is_served(
    guarded: Gateway, path: str, headers: dict[str, str]
) -> None:
    response = send(guarded, "POST", path, _body("with-key-x"), headers)
    assert response.status == 401
    assert response.error["code"] == "invalid_api_key"
    assert send(guarded, "GET", "/v1/models", headers=headers).status == 401


def test_sdk_raises_an_authentication_error(guarded: Gateway) -> None:
    with sdk_client(guarded, "dk-wrong") as client, pytest.raises(openai.AuthenticationError):
        client.responses.create(model="with-key-x", input="hi")


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/schema"])
def test_monitoring_needs_no_key(guarded: Gateway, path: str) -> None:
    assert send(guarded, "GET", path).status == 200


def test_no_key_is_disclosed(
    guarded: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("with-key")
    error = b'{"error":{"message":"wrong key %s","type":"x","param":null,"code":null}}'
    backend.enqueue(model, json_reply(error % BACKEND_KEY.encode(), status=401))
    secret = b'{"model":"%s","messages":[{"role":"user","content":"%s"}],"api_key":"hidden-one"}'
    body = secret % (model.encode(), KEY.encode())
    response = send(guarded, "POST", PATH, body, {"Authorization": f"Bearer {KEY}"})
    assert response.status == 401
    assert response.error["message"] == "wrong key [redacted]"
    # The log has the name of the key.
    wait_until(
        lambda: any(model in line and '"key_name":"first"' in line for line in guarded.lines)
    )
    assert "[redacted]" in guarded.log
    metrics = send(guarded, "GET", "/metrics").body.decode()
    for key in (KEY, OTHER_KEY, BACKEND_KEY, "hidden-one"):
        assert key not in guarded.log
        assert key not in metrics
