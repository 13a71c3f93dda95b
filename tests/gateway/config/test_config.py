"""Configuration files that are valid, and the capabilities that they configure."""

from pathlib import Path

import pytest
from msgspec import structs

from adapters.capabilities import GENERIC, PROFILES
from gateway.config import backend_capabilities, load_config
from gateway.config.schema import BackendConfig, Config, RetryConfig, TimeoutConfig
from tests.gateway.config.test_errors import BACKEND, KEY, OTHER

EXAMPLE = """
loss_policy = "report"

[server]
host = "127.0.0.1"
port = 8080

[state]
url = "sqlite:dragoman.db"

[[backends]]
name = "local"
url = "http://127.0.0.1:8000/v1"
dialect = "chat"
models = ["qwen*", "my-model"]
api_key_env = "LOCAL_API_KEY"
profile = "vllm"
[backends.capabilities]
developer_role = true
"""


def test_empty_file_has_every_default(file: Path) -> None:
    file.touch()
    assert load_config(file) == Config()


def test_example_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "sk-1")
    file.write_text(EXAMPLE)
    assert load_config(file).backends == (
        BackendConfig(
            name="local",
            url="http://127.0.0.1:8000/v1",
            dialect="chat",
            models=("qwen*", "my-model"),
            api_key_env="LOCAL_API_KEY",
            profile="vllm",
            capabilities={"developer_role": True},
        ),
    )


def test_byte_order_mark_is_skipped(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + KEY.encode())
    assert load_config(str(file)).access.keys[0].name == "ci"


def test_seconds_can_be_integers_or_fractions(file: Path) -> None:
    file.write_text("[timeouts]\nconnect = 1\ntotal = 2.5\n")
    assert load_config(file).timeouts == TimeoutConfig(connect=1, total=2.5)


def test_backend_inherits_the_general_timeouts_and_retries(file: Path) -> None:
    file.write_text(
        "[timeouts]\nconnect = 1\ntotal = 2\n[retries]\nmax_retries = 3\n"
        f"{BACKEND}timeouts = {{ total = 4 }}\nretries = {{ initial_backoff = 5 }}\n{OTHER}"
    )
    local, other = load_config(file).backends
    assert local.timeouts == TimeoutConfig(connect=1, total=4)
    assert local.retries == RetryConfig(max_retries=3, initial_backoff=5)
    assert (other.timeouts, other.retries) == (None, None)


def backend(profile: str | None = None, **capabilities: object) -> BackendConfig:
    return BackendConfig("b", "http://h/v1", "chat", profile=profile, capabilities=capabilities)


def test_requests_pass_unchanged_without_a_profile() -> None:
    assert backend_capabilities(backend()) == (GENERIC, False)
    assert backend_capabilities(backend("openai")) == (PROFILES["openai"], False)


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "openai"])
def test_requests_are_rewritten_with_a_profile(profile: str) -> None:
    assert backend_capabilities(backend(profile)) == (PROFILES[profile], True)


def test_capabilities_override_the_profile() -> None:
    expected = structs.replace(
        PROFILES["openai"], strict_tools=False, reasoning_efforts=("low", "high")
    )
    overridden = backend("openai", strict_tools=False, reasoning_efforts=["low", "high"])
    assert backend_capabilities(overridden) == (expected, True)


def test_capability_can_be_null(file: Path) -> None:
    file.write_text(BACKEND + 'profile = "vllm"\ncapabilities = { reasoning_field = "null" }')
    capabilities, _ = backend_capabilities(load_config(file).backends[0])
    assert capabilities == structs.replace(PROFILES["vllm"], reasoning_field=None)
