import base64
import json

import pytest

from gateway.config.schema import BackendConfig, Config, ModelConfig
from gateway.recording.recorder import config_secrets
from gateway.recording.secrets import header_secrets, tool_secrets, url_secrets

BASIC = base64.b64encode(b"user:password-1").decode()


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("authorization", "Bearer abc", ["abc"]),
        ("authorization", "abc", ["abc"]),
        ("Authorization", f"Basic {BASIC}", [BASIC, "user:password-1", "password-1"]),
        ("proxy-authorization", "Basic ?", ["?"]),
        ("api-key", "abc", ["abc"]),
        ("X-Api-Key", "abc", ["abc"]),
        ("x-auth-token", "abc", ["abc"]),
        ("X-Auth-Key", "abc", ["abc"]),
        ("Ocp-Apim-Subscription-Key", "abc", ["abc"]),
        ("Helicone-Auth", "Bearer abc", ["abc"]),
        ("X-Hub-Signature", "abc", ["abc"]),
        ("idempotency-key", "abc", []),
        ("sec-websocket-key", "abc", []),
        ("www-authenticate", "Bearer", []),
        ("cookie", "a=b; c=d%3De", ["b", "b", "d%3De", "d=e"]),
        ("Set-Cookie", "a=b; path=/; HttpOnly", ["b", "b"]),
        ("content-type", "application/json", []),
    ],
)
def test_headers_with_credentials(name: str, value: str, secrets: list[str]) -> None:
    assert [*header_secrets([(name, value)])] == secrets


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("postgresql://user:pass%2Fword@db/x", ["user:pass%2Fword", "pass%2Fword", "pass/word"]),
        ("postgresql://db/x?sslmode=require&password=pass%2Fword", ["pass/word"]),
        ("sqlite:dragoman.db", []),
        ("http://[", []),
    ],
)
def test_urls_with_passwords(url: str, secrets: list[str]) -> None:
    assert [*url_secrets(url)] == secrets


def test_credentials_of_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "environment")
    backend = BackendConfig(
        "b",
        "http://127.0.0.1/v1",
        "chat",
        models=(ModelConfig("m*", extra_body={"provider": [{"api_key": "model"}]}),),
        api_key_env="KEY",
        extra_body={"api_key": "body", "max_tokens": 5},
        headers={"Authorization": f"Basic {BASIC}", "X-Team": "team"},
    )
    secrets = {*config_secrets(Config(), [backend])}
    assert secrets >= {"environment", "body", "model", BASIC, "password-1"}
    assert not secrets & {"KEY", "team", "b", "m*"}


def test_credentials_for_mcp_servers() -> None:
    tools = [
        {"type": "function", "name": "f"},
        {"type": "mcp", "authorization": "abc", "headers": {"X": "def"}},
        {"type": "mcp", "server_label": "s"},
        {"type": "mcp", "headers": 3},
    ]
    assert [*tool_secrets(json.dumps({"tools": tools}).encode())] == ["abc", "def"]
    assert [*tool_secrets(b'{"tools": "mcp"}')] == []
    assert [*tool_secrets(b'"mcp"')] == []
