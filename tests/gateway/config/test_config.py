"""The configuration file: what it may say, and what is told of each mistake in it."""

import re
from pathlib import Path

import pytest
from msgspec import structs

from adapters.capabilities import GENERIC, PROFILES
from gateway.config import ConfigError, backend_capabilities, load_config
from gateway.config.schema import BackendConfig, Config, RetryConfig, TimeoutConfig
from tests.gateway.mistakes import BACKEND, DIGEST, KEY, LOCAL, MISTAKES, OTHER

EXAMPLE = """
loss_policy = "report"                      # or "refuse"

[server]
host = "127.0.0.1"
port = 8080

[state]
url = "sqlite:dragoman.db"           # or "postgresql://…", or "memory:"

[[backends]]
name = "local"
url = "http://127.0.0.1:8000/v1"
dialect = "chat"                     # chat | responses | legacy
models = ["qwen*", "my-model"]       # globs; the first backend that matches serves the model
api_key_env = "LOCAL_API_KEY"        # left out: the client's Authorization header goes through
profile = "vllm"
[backends.capabilities]
developer_role = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dragoman.toml"


def mistakes_of(file: Path, text: str) -> list[str]:
    """Read a file that has mistakes; give them without the name of the file."""
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).splitlines() == caught.value.mistakes
    assert all(mistake.startswith(f"{file}: ") for mistake in caught.value.mistakes)
    return [mistake.removeprefix(f"{file}: ") for mistake in caught.value.mistakes]


# What is right


def test_empty_file_has_every_default(file: Path) -> None:
    file.touch()
    assert load_config(file) == Config()


def test_example_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "sk-1")
    file.write_text(EXAMPLE)
    (backend,) = load_config(file).backends
    assert backend == BackendConfig(
        name="local",
        url="http://127.0.0.1:8000/v1",
        dialect="chat",
        models=("qwen*", "my-model"),
        api_key_env="LOCAL_API_KEY",
        profile="vllm",
        capabilities={"developer_role": True},
    )


def test_byte_order_mark_is_skipped(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + KEY.encode())
    assert load_config(str(file)).access.keys[0].sha256 == DIGEST


def test_whole_numbers_are_seconds_too(file: Path) -> None:
    file.write_text("[timeouts]\nconnect = 1\ntotal = 2.5\n")
    assert load_config(file).timeouts == TimeoutConfig(connect=1, total=2.5)


def test_two_backends_may_serve_one_model(file: Path) -> None:
    file.write_text(BACKEND + OTHER)
    assert [backend.name for backend in load_config(file).backends] == ["local", "other"]


def test_what_a_backend_leaves_out_is_as_for_all(file: Path) -> None:
    file.write_text(
        "[timeouts]\nconnect = 1\ntotal = 2\n[retries]\nmax_retries = 3\n"
        f"{BACKEND}timeouts = {{ total = 4 }}\nretries = {{ initial_backoff = 5 }}\n{OTHER}"
    )
    own, other = load_config(file).backends
    assert own.timeouts == TimeoutConfig(connect=1, total=4)
    assert own.retries == RetryConfig(max_retries=3, initial_backoff=5)
    assert (other.timeouts, other.retries) == (None, None)


# What is not


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_names_its_key_and_what_is_legal(mistake: str, file: Path) -> None:
    text, why = MISTAKES[mistake]
    assert mistakes_of(file, text) == [why]
    assert "sk-1" not in why


@pytest.mark.parametrize("key", ["sk-1\nX-Other: 1", "“sk-1”", "sk-1 and more", " \n"])
def test_key_that_cannot_be_sent_is_not_taken(
    key: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", key)
    assert mistakes_of(file, BACKEND + 'api_key_env = "A_KEY"') == [
        (
            'backends[0] "local": api_key_env: expected a key of printable ASCII in the variable '
            "(not shown)"
        )
    ]


def test_all_mistakes_are_told_at_once(file: Path) -> None:
    text = '[server]\nport = -1\nhots = 1\n[[backends]]\nname = "x"\n' + BACKEND + "models = []"
    assert [mistake.partition(": ")[0] for mistake in mistakes_of(file, text)] == [
        "server.hots",
        "server.port",
        'backends[0] "x"',
        'backends[0] "x"',
        'backends[1] "local"',
    ]


SYNTAX = {
    "no value": (b"port =", r"this is not TOML: Invalid value \(at .*\)"),
    "no table": (b"\n\n[server", r"this is not TOML: .*\(at .*\)"),
    "twice": (b"[server]\nport = 1\nport = 2\n", r"this is not TOML: .*\(at line 3, column 9\)"),
    "deep": (b"x = " + b"[" * 100_000, "the file is nested too deeply"),
    "digits": (b"x = " + b"9" * 5000, "this is not TOML: .*"),
    "not UTF-8": (b"loss = 1\nx = '\xff'", r"the file is not UTF-8 \(at line 2\)"),
}


@pytest.mark.parametrize("mistake", SYNTAX)
def test_what_is_no_toml_is_told_with_its_line(mistake: str, file: Path) -> None:
    content, why = SYNTAX[mistake]
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert re.fullmatch(f"{re.escape(str(file))}: {why}", str(caught.value))


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path / "none.toml", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert caught.value.mistakes == [f"{path}: {why}"]


def test_files_for_tls_must_be_in_pem(file: Path, tmp_path: Path) -> None:
    pem = tmp_path / "noise.pem"
    pem.write_text("noise")
    assert mistakes_of(file, f'{BACKEND}tls = {{ ca_file = "{pem}" }}') == [
        f'{LOCAL}: tls.ca_file: expected certificates in PEM, but "{pem}" has none'
    ]
    assert mistakes_of(file, f'{BACKEND}tls = {{ cert_file = "{pem}" }}') == [
        (
            f"{LOCAL}: tls.cert_file: expected a certificate in PEM and its key, "
            "neither with a password"
        )
    ]


def find_nothing(_: str) -> None:
    """Stand in for the search for a package, where it is not installed."""


def test_tracing_needs_its_packages(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[tracing]\nendpoint = "http://127.0.0.1:4318/v1/traces"'
    file.write_text(text)
    assert load_config(file).tracing.endpoint == "http://127.0.0.1:4318/v1/traces"
    monkeypatch.setattr("gateway.config.checks.find_spec", find_nothing)
    (mistake,) = mistakes_of(file, text)
    assert mistake.startswith("tracing.endpoint: the packages for this are not installed; pip ")


# Capabilities


def backend(profile: str | None = None, **capabilities: object) -> BackendConfig:
    return BackendConfig("b", "http://h/v1", "chat", profile=profile, capabilities=capabilities)


def test_without_a_profile_requests_pass_as_they_are() -> None:
    assert backend_capabilities(backend()) == (GENERIC, False)
    assert backend_capabilities(backend("openai")) == (PROFILES["openai"], False)


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "openai"])
def test_with_a_profile_requests_are_rewritten(profile: str) -> None:
    assert backend_capabilities(backend(profile)) == (PROFILES[profile], True)


def test_single_capabilities_win_over_the_profile() -> None:
    expected = structs.replace(
        PROFILES["openai"], strict_tools=False, reasoning_efforts=("low", "high")
    )
    given = backend("openai", strict_tools=False, reasoning_efforts=["low", "high"])
    assert backend_capabilities(given) == (expected, True)


def test_null_can_be_said(file: Path) -> None:
    file.write_text(BACKEND + 'capabilities = { reasoning_field = "null" }')
    (read,) = load_config(file).backends
    capabilities, rewrite = backend_capabilities(read)
    assert capabilities.reasoning_field is None
    assert rewrite
