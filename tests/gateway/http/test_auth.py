"""Who may call, which key goes where, and that no key is ever told to anybody."""

import hashlib
from collections.abc import Iterator

import openai
import pytest

from tests.gateway.conftest import NewModel
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.raw_http import send
from tests.gateway.scripted_backend import ScriptedBackend, json_reply
from tests.gateway.waiting import wait_until

KEY = "dk-the-key-of-a-client"
OTHER_KEY = "dk-another-key"
BACKEND_KEY = "sk-our-own-key-at-the-backend"
REPLY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}'
)


def _body(model: str) -> bytes:
    return b'{"model":"%s","messages":[{"role":"user","content":"hi"}]}' % model.encode()


@pytest.fixture(scope="module")
def guarded(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway with keys; one backend has a key of ours, the other has none."""
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in (KEY, OTHER_KEY)]
    config = f"""
[logging]
bodies = true

[[access.keys]]
name = "first"
sha256 = "{digests[0]}"

[[access.keys]]
name = "second"
sha256 = "{digests[1]}"

[[backends]]
name = "with-key"
url = "{backend.address}/v1"
dialect = "chat"
models = ["with-key-*"]
api_key_env = "A_BACKEND_KEY"

[[backends]]
name = "without"
url = "{backend.address}/v1"
dialect = "chat"
models = ["without-*"]
"""
    folder = tmp_path_factory.mktemp("guarded")
    with run_gateway(config, folder, {"A_BACKEND_KEY": f"{BACKEND_KEY}\n"}) as gateway:
        yield gateway


def test_without_keys_the_clients_own_goes_to_the_backend(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, json_reply(REPLY))
    send(gateway, "POST", "/v1/chat/completions", _body(model), {"Authorization": "Bearer sk-mine"})
    assert backend.wait_for_request(model).headers["authorization"] == "Bearer sk-mine"


def test_a_key_of_azures_clients_goes_there_too(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, json_reply(REPLY))
    send(gateway, "POST", "/v1/chat/completions", _body(model), {"api-key": "sk-mine"})
    assert backend.wait_for_request(model).headers["authorization"] == "Bearer sk-mine"


def test_with_keys_the_backend_gets_ours_and_never_the_clients(
    guarded: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("with-key")
    backend.enqueue(model, json_reply(REPLY))
    with openai.OpenAI(base_url=guarded.url, api_key=KEY, max_retries=0) as client:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
    assert backend.wait_for_request(model).headers["authorization"] == f"Bearer {BACKEND_KEY}"
    model = new_model("without")
    backend.enqueue(model, json_reply(REPLY))
    send(guarded, "POST", "/v1/chat/completions", _body(model), {"api-key": OTHER_KEY})
    assert "authorization" not in backend.wait_for_request(model).headers
    assert KEY not in str(backend.wait_for_request(model).headers)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer dk-wrong"}, {"Authorization": "Basic abc"}, {"api-key": ""}],
    ids=["none", "wrong", "another scheme", "empty"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/responses", "/v1/translate"])
def test_without_a_known_key_nothing_is_served(
    guarded: Gateway, path: str, headers: dict[str, str]
) -> None:
    refused = send(guarded, "POST", path, _body("with-key-x"), headers)
    assert refused.status == 401
    assert refused.error["code"] == "invalid_api_key"
    assert send(guarded, "GET", "/v1/models", headers=headers).status == 401


def test_the_sdk_sees_an_authentication_error(guarded: Gateway) -> None:
    with (
        openai.OpenAI(base_url=guarded.url, api_key="dk-wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.responses.create(model="with-key-x", input="hi")


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/schema"])
def test_machines_need_no_key(guarded: Gateway, path: str) -> None:
    assert send(guarded, "GET", path).status == 200


def test_no_key_is_told_to_anybody(
    guarded: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("with-key")
    repeats_it = b'{"error":{"message":"wrong key %s","type":"x","param":null,"code":null}}'
    backend.enqueue(model, json_reply(repeats_it % BACKEND_KEY.encode(), status=401))
    secret = b'{"model":"%s","messages":[{"role":"user","content":"%s"}],"api_key":"hidden-one"}'
    body = secret % (model.encode(), KEY.encode())
    told = send(guarded, "POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {KEY}"})
    assert told.status == 401
    assert told.error["message"] == "wrong key [redacted]"
    # Who called, by the name of the key, is in the log.
    wait_until(
        lambda: any(model in line and '"key_name":"first"' in line for line in guarded.lines)
    )
    assert "[redacted]" in guarded.log
    metrics = send(guarded, "GET", "/metrics").body.decode()
    for secret_one in (KEY, OTHER_KEY, BACKEND_KEY, "hidden-one"):
        assert secret_one not in guarded.log
        assert secret_one not in metrics
