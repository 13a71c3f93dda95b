"""Configuration files, the capabilities that they configure, and errors in them."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec import Struct, structs

from adapters import DIALECTS, Capabilities, ReplyOptions
from adapters.capabilities import GENERIC
from adapters.profiles import PROFILES
from gateway.config import ConfigError, backend_capabilities, load_config, schema
from gateway.config.renames import RENAMED_KEYS, RENAMED_VALUES
from gateway.crypto import api_key_digest

URL = "http://127.0.0.1:8000/v1"
BACKEND = f'[[backends]]\nname = "local"\nurl = "{URL}"\ndialect = "chat"\n'
OTHER = BACKEND.replace("local", "other")
KEY = f'[[access.keys]]\nname = "ci"\nsha256 = "{api_key_digest("one")}"\n'
HIDDEN = "got a value that is not shown because it may be a secret"
LOCAL = 'backends[0] "local"'
SECONDS = "a number of seconds from 0 to 31536000"
HOST = "a URL with a valid host and, optionally, a port from 1 to 65535"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dragoman.toml"


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def names_of(struct: type[Struct]) -> str:
    return ", ".join(field.name for field in structs.fields(struct))


def errors_in(file: Path, text: str) -> list[str]:
    """Return the errors in a file, without the name of the file."""
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).splitlines() == caught.value.errors
    assert all(error.startswith(f"{file}: ") for error in caught.value.errors)
    return [error.removeprefix(f"{file}: ") for error in caught.value.errors]


# Valid files


def test_empty_file_has_every_default(file: Path) -> None:
    file.touch()
    assert load_config(file) == schema.Config()


def test_settings_of_a_backend_are_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "sk-1")
    models = 'models = ["qwen*", "my-model"]\napi_key_env = "LOCAL_API_KEY"\nprofile = "vllm"\n'
    file.write_text(f"{BACKEND}{models}[backends.capabilities]\ndeveloper_role = true\n")
    assert load_config(file).backends == (
        schema.BackendConfig(
            name="local",
            url=URL,
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
    assert load_config(file).timeouts == schema.TimeoutConfig(connect=1, total=2.5)


def test_backend_inherits_the_general_timeouts_and_retries(file: Path) -> None:
    file.write_text(
        "[timeouts]\nconnect = 1\ntotal = 2\n[retries]\nmax_retries = 3\n"
        f"{BACKEND}timeouts = {{ total = 4 }}\nretries = {{ initial_backoff = 5 }}\n{OTHER}"
    )
    local, other = load_config(file).backends
    assert local.timeouts == schema.TimeoutConfig(connect=1, total=4)
    assert local.retries == schema.RetryConfig(max_retries=3, initial_backoff=5)
    assert (other.timeouts, other.retries) == (None, None)


def backend(profile: str | None = None, **capabilities: object) -> schema.BackendConfig:
    return schema.BackendConfig(
        "b", "http://h/v1", "chat", profile=profile, capabilities=capabilities
    )


def resolved(config: schema.BackendConfig, model: str | None = None) -> tuple[Capabilities, bool]:
    """Return the capabilities for a model, and whether requests are rewritten for it."""
    capabilities = backend_capabilities(config)
    return capabilities.for_model(model), capabilities.rewrites(model)


def test_requests_pass_unchanged_without_a_profile() -> None:
    assert resolved(backend()) == (GENERIC, False)
    assert resolved(backend("openai")) == (PROFILES["openai"], False)


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "openai"])
def test_requests_are_rewritten_with_a_profile(profile: str) -> None:
    assert resolved(backend(profile)) == (PROFILES[profile], True)


def test_capabilities_override_the_profile() -> None:
    expected = structs.replace(
        PROFILES["openai"], strict_tools=False, reasoning_efforts=("low", "high")
    )
    overridden = backend("openai", strict_tools=False, reasoning_efforts=["low", "high"])
    assert resolved(overridden) == (expected, True)


def test_capability_can_be_null(file: Path) -> None:
    file.write_text(BACKEND + 'profile = "vllm"\ncapabilities = { reasoning_field = "null" }')
    capabilities, _ = resolved(load_config(file).backends[0])
    assert capabilities == structs.replace(PROFILES["vllm"], reasoning_field=None)


def test_models_differ_from_their_backend(file: Path) -> None:
    file.write_text(
        f"""{BACKEND}profile = "vllm"
extra_body = {{ top_k = 20 }}
[backends.capabilities]
strict_tools = false
[[backends.models]]
pattern = "qwen3*"
capabilities = {{ think_tags = true, reasoning_field = "null" }}
extra_body = {{ top_k = 40, min_p = 0.1 }}
[[backends.models]]
pattern = "*-VL"
profile = "ollama"
capabilities = {{ strict_tools = true }}
"""
    )
    [config] = load_config(file).backends
    assert config.served_models == ("*",)
    usual = structs.replace(PROFILES["vllm"], strict_tools=False, extra_body={"top_k": 20})
    assert resolved(config, "llama-4") == (usual, True)
    thinking = structs.replace(
        usual, think_tags=True, reasoning_field=None, extra_body={"top_k": 40, "min_p": 0.1}
    )
    assert resolved(config, "Qwen3-8b")[0] == thinking
    assert resolved(config, "phi-vl")[0] == structs.replace(
        PROFILES["ollama"], extra_body={"top_k": 20}
    )


def test_models_are_named_and_have_settings(file: Path) -> None:
    file.write_text(f'{BACKEND}models = ["gpt-*", {{ pattern = "*-mini" }}]')
    [config] = load_config(file).backends
    assert config.served_models == ("gpt-*",)


def test_only_the_models_of_a_rule_are_rewritten(file: Path) -> None:
    rule = '[[backends.models]]\npattern = "slow*"\ncapabilities = { streaming = "never" }\n'
    file.write_text(f"{BACKEND}extra_body = {{ a = 1 }}\n{rule}")
    [config] = load_config(file).backends
    assert resolved(config, "fast") == (structs.replace(GENERIC, extra_body={"a": 1}), False)
    assert resolved(config, "slow-1")[1]


# Errors

# Files and their errors.
ERRORS = {
    'loss_policy = "reprot"': 'loss_policy: expected one of "refuse", "report", got "reprot"',
    "[sever]": f"sever: unknown key (did you mean server?); known keys: {names_of(schema.Config)}",
    "[metrics]\ncolour = 1": "metrics.colour: unknown key; known keys: enabled",
    '[metrics]\n"a b" = 1': 'metrics."a b": unknown key; known keys: enabled',
    "[replies]\nreasoning_txt = true": (
        "replies.reasoning_txt: unknown key (did you mean reasoning_text?); "
        "known keys: reasoning_text, reasoning_summary, reasoning_field, incomplete_as_completed"
    ),
    "[server]\nport = 99999": "server.port: expected an integer from 0 to 65535, got 99999",
    "[server]\nport = 80.5": "server.port: expected an integer from 0 to 65535, got 80.5",
    "[server]\nworkers = 0": "server.workers: expected an integer of at least 1, got 0",
    "[background]\nlease_duration = 0": (
        "background.lease_duration: expected a number of seconds from 1 to 3600, got 0"
    ),
    '[timeouts]\nconnect = "x"': f'timeouts.connect: expected {SECONDS}, got "x"',
    "[timeouts]\ntotal = inf": f"timeouts.total: expected {SECONDS}, got inf",
    "[server]\nheartbeat_interval = nan": (
        f"server.heartbeat_interval: expected {SECONDS}, got nan"
    ),
    '[metrics]\nenabled = "yes"': 'metrics.enabled: expected true or false, got "yes"',
    "[logging]\nbodies = 1": "logging.bodies: expected true or false, got 1",
    "[server]\nhost = true": "server.host: expected a non-empty string, got true",
    '[server]\nhost = ""': 'server.host: expected a non-empty string, got ""',
    "[server]\nhost = 2026-01-01": (
        "server.host: expected a non-empty string, got the date 2026-01-01"
    ),
    '[sealing]\nkey_env = "NO_KEY"': (
        "sealing.key_env: the environment variable NO_KEY is not set"
    ),
    "server = 3": "server: expected a table, got 3",
    "server = []": "server: expected a table, got an array",
    "access = 3": "access: expected a table, got 3",
    BACKEND.replace("[[", "[").replace("]]", "]"): (
        "backends: expected an array of tables, each headed by [[…]], got a table"
    ),
    "[retries]\nstatus_codes = [503, 200]": (
        "retries.status_codes[1]: expected an integer from 400 to 599, got 200"
    ),
    '[[backends]]\nurl = "http://h/v1"\ndialect = "chat"': (
        "backends[0]: name: key is required; expected a name of printable ASCII characters"
    ),
    BACKEND + OTHER.replace("chat", "chatt"): (
        f'backends[1] "other": dialect: expected one of {quoted(sorted(DIALECTS))}, got "chatt"'
    ),
    '[state]\nurl = "mysql://me:sk-1@db"': (
        'state.url: expected "sqlite:FILE", "postgresql://…" or "memory:", got "mysql://…@db"'
    ),
    # Each connection would have its own database.
    '[state]\nurl = "sqlite::memory:"': (
        'state.url: expected "sqlite:FILE", "postgresql://…" or "memory:", got "sqlite::memory:"'
    ),
    '[server]\nworkers = 2\n[state]\nurl = "memory:"': (
        'state.url: 2 workers cannot share "memory:"; use "sqlite:FILE" or "postgresql://…"'
    ),
    f'[logging]\nlevel = "{"x" * 81}"': (
        f'logging.level: expected one of "debug", "error", "info", "warning", got "{"x" * 80}…"'
    ),
    '[[access.keys]]\nname = "ci"\nsha256 = "sk-1"': (
        'access.keys[0] "ci": sha256: expected the SHA-256 of a key as 64 lower-case hex '
        f"digits (see `dragoman key`), {HIDDEN}"
    ),
    KEY + KEY.replace(api_key_digest("one"), api_key_digest("two")): (
        'access.keys[1] "ci": name: names must be unique, and access.keys[0] "ci" has the same one'
    ),
    KEY + KEY.replace("ci", "laptop"): (
        'access.keys[1] "laptop": sha256: this is the same key as access.keys[0] "ci"; remove one'
    ),
    BACKEND + BACKEND: (
        f'backends[1] "local": name: names must be unique, and {LOCAL} has the same one'
    ),
    f"{BACKEND}default = true\n{OTHER}default = true": (
        f'backends[1] "other": default: only one backend can be the default, and {LOCAL} already is'
    ),
    '[tracing]\nendpoint = "http://127.0.0.1:x/v1/traces"': (
        f'tracing.endpoint: expected {HOST}, got "http://127.0.0.1:x/v1/traces"'
    ),
}
# Settings of a backend and their errors.
SETTING_ERRORS = {
    '[backends.tls]\nverfy = "sk-1"': (
        "tls.verfy: unknown key (did you mean verify?); "
        "known keys: verify, ca_file, cert_file, key_file"
    ),
    'models = "*"': 'models: expected an array, got "*"',
    "models = []": (
        'models: expected at least one model or pattern such as "*", got an empty array'
    ),
    "model_aliases = { a = 1 }": "model_aliases.a: expected a non-empty string, got 1",
    "timeouts = { connect = -1 }": f"timeouts.connect: expected {SECONDS}, got -1",
    'proxy = "http://me:sk-1@proxy:80000"': (f'proxy: expected {HOST}, got "http://…@proxy:80000"'),
    'profile = "opnai"': f'profile: expected one of {quoted(PROFILES)}, got "opnai"',
    'api_key_env = "NOT_SET_HERE"': (
        "api_key_env: the environment variable NOT_SET_HERE is not set"
    ),
    'api_key_env = "sk-1"': (
        f"api_key_env: expected the name of an environment variable, {HIDDEN}"
    ),
    "headers = { x-key = 1 }": f"headers.x-key: expected a string, {HIDDEN}",
    'headers = { "a b" = "sk-1" }': 'headers."a b": not a valid header name',
    'headers = { x-key = "sk-1\\n" }': (
        "headers.x-key: expected printable ASCII characters (value not shown)"
    ),
    'headers = { Content-Length = "1" }': (
        "headers.Content-Length: the gateway sets this header itself; remove it"
    ),
    'headers = { Authorization = "Bearer sk-1" }': (
        "headers.Authorization: keys are read from environment variables; use api_key_env"
    ),
    'tls = { key_file = "key.pem" }': "tls.cert_file: required with key_file",
    'tls = { ca_file = "/none.pem" }': (
        'tls.ca_file: cannot read "/none.pem": No such file or directory'
    ),
    'tls = { cert_file = "/none.pem" }': (
        'tls.cert_file: cannot read "/none.pem": No such file or directory'
    ),
    'capabilities = { empty_content = "nil" }': (
        'capabilities.empty_content: expected one of "empty_string", "null", "omit", got "nil"'
    ),
    'capabilities = { strict_tools = "null" }': (
        'capabilities.strict_tools: expected true or false, got "null"'
    ),
    # It can be "null".
    "capabilities = { reasoning_field = 1 }": (
        "capabilities.reasoning_field: expected a string, got 1"
    ),
    'capabilities = { reasoning_efforts = ["low", 3] }': (
        "capabilities.reasoning_efforts[1]: expected a string, got 3"
    ),
    "capabilities = { max_deferred_tools = -1 }": (
        "capabilities.max_deferred_tools: expected an integer of at least 0, got -1"
    ),
    "capabilities = { developer_rol = true }": (
        "capabilities.developer_rol: unknown key (did you mean developer_role?); "
        f"known keys: {names_of(Capabilities)}"
    ),
    '[[backends.models]]\npattern = "a"\npatern = 1': (
        "models[0]: patern: unknown key (did you mean pattern?); "
        "known keys: pattern, profile, capabilities, extra_body"
    ),
    'models = ["*", 3]': "models[1]: expected a non-empty string or a table, got 3",
    '[[backends.models]]\npattern = "a"\nprofile = "opnai"': (
        f'models[0]: profile: expected one of {quoted(PROFILES)}, got "opnai"'
    ),
    '[[backends.models]]\npattern = "a"\ncapabilities = { strict_tools = 1 }': (
        "models[0]: capabilities.strict_tools: expected true or false, got 1"
    ),
    "extra_body = { model = 1 }": "extra_body.model: the gateway sets this field itself; remove it",
    "capabilities = { extra_body = { stream = true } }": (
        "capabilities.extra_body.stream: the gateway sets this field itself; remove it"
    ),
    "extra_body = { a = { b = [1, nan] } }": (
        "extra_body.a.b[1]: expected a finite number, got nan"
    ),
    "extra_body = { a = 2026-01-01 }": (
        "extra_body.a: expected a value that JSON has, got the date 2026-01-01"
    ),
}
# URLs of a backend and their errors.
URL_ERRORS = {
    "127.0.0.1:8000/v1": (
        'expected a URL that begins with http:// or https://, got "127.0.0.1:8000/v1"'
    ),
    "http://127.0.0.1:80000/v1": f'expected {HOST}, got "http://127.0.0.1:80000/v1"',
    "http://my host:8000/v1": f'expected {HOST}, got "http://my host:8000/v1"',
    "http://[::1:8000/v1": f'expected {HOST}, got "http://[::1:8000/v1"',
    f"{URL}/chat/completions/": (
        f'expected the base URL without /chat/completions, got "{URL}/chat/completions/"'
    ),
    "http://me:sk-1@h/v1": (
        'expected a URL without a user name (for keys use api_key_env), got "http://…@h/v1"'
    ),
    f"{URL}?key=sk-1": f'expected a URL without query and fragment, got "{URL}"',
}


@pytest.mark.parametrize(("text", "error"), ERRORS.items(), ids=ERRORS)
def test_error_names_the_key_and_the_remedy(text: str, error: str, file: Path) -> None:
    assert errors_in(file, text) == [error]
    assert "sk-1" not in error


@pytest.mark.parametrize(("setting", "error"), SETTING_ERRORS.items(), ids=SETTING_ERRORS)
def test_error_in_a_setting_of_a_backend(setting: str, error: str, file: Path) -> None:
    assert errors_in(file, BACKEND + setting) == [f"{LOCAL}: {error}"]
    assert "sk-1" not in error


@pytest.mark.parametrize(("url", "error"), URL_ERRORS.items(), ids=URL_ERRORS)
def test_error_in_the_url_of_a_backend(url: str, error: str, file: Path) -> None:
    assert errors_in(file, BACKEND.replace(URL, url)) == [f"{LOCAL}: url: {error}"]
    assert "sk-1" not in error


@pytest.mark.parametrize("key", ["sk-1\nX-Other: 1", "“sk-1”", "sk-1 and more", " \n"])
def test_api_key_that_cannot_be_sent_is_rejected(
    key: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", key)
    error = "the variable must contain printable ASCII characters without spaces (value not shown)"
    text = BACKEND + 'api_key_env = "A_KEY"'
    assert errors_in(file, text) == [f"{LOCAL}: api_key_env: {error}"]


def test_file_of_a_key_is_checked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A short path, because messages truncate long values.
    monkeypatch.chdir(file.parent)
    key = Path("local.key")
    text = f'{BACKEND}api_key_file = "{key}"'
    missing = f'cannot read "{key}": No such file or directory'
    assert errors_in(file, text) == [f"{LOCAL}: api_key_file: {missing}"]
    key.write_text("\n")
    assert errors_in(file, text) == [f'{LOCAL}: api_key_file: "{key}" is empty']
    key.write_text("sk-1 and more\n")
    expected = "printable ASCII characters without spaces (value not shown)"
    assert errors_in(file, text) == [f"{LOCAL}: api_key_file: the file must contain {expected}"]
    key.write_text("sk-1\n")
    monkeypatch.setenv("A_KEY", "sk-1")
    assert errors_in(file, f'{text}\napi_key_env = "A_KEY"') == [
        f"{LOCAL}: api_key_file: cannot be used together with api_key_env; remove one"
    ]
    file.write_text(text)
    assert load_config(file).backends[0].api_key_file == str(key)


def test_sealing_keys_that_cannot_be_used_are_rejected(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD_KEY", "secret but short")
    monkeypatch.setenv("OLD_KEY", bytes(32).hex())
    invalid = "the variable must contain 32 bytes in base64 or hex (value not shown)"
    text = '[sealing]\nkey_env = "BAD_KEY"\nprevious_key_envs = ["BAD_KEY"]'
    assert errors_in(file, text) == [
        f"sealing.previous_key_envs[0]: {invalid}",
        f"sealing.key_env: {invalid}",
    ]
    assert errors_in(file, '[sealing]\nprevious_key_envs = ["OLD_KEY"]') == [
        "sealing.key_env: required with previous_key_envs, whose keys only decrypt"
    ]


def test_all_errors_are_reported_together(file: Path) -> None:
    text = '[server]\nport = -1\nhots = 1\n[[backends]]\nname = "x"\n' + BACKEND + "models = []"
    places = [error.partition(": ")[0] for error in errors_in(file, text)]
    backends = ['backends[0] "x"', 'backends[0] "x"', 'backends[1] "local"']
    assert places == ["server.hots", "server.port", *backends]


def test_error_in_one_key_does_not_hide_those_in_others(file: Path) -> None:
    text = """
[server]
port = -1
workers = 2
[state]
url = "memory:"
[[access.keys]]
name = "ci"
sha256 = "short"
[[access.keys]]
name = "ci"
sha256 = "short"
[[backends]]
name = "a"
url = "http://h/v1/responses"
dialect = "klingon"
profile = "none"
tls = { verify = 3, ca_file = "/none.pem" }
models = [{ pattern = "*", patern = 1 }, { pattern = "*", profile = "nothing" }]
transforms = [{ use = "adapters:None", option = 1 }]
[[backends]]
headers = { x = 1, "a b" = "c" }
timeouts = { connect = -1 }
"""
    a, unnamed = 'backends[0] "a": ', "backends[1]: "
    ends = re.compile(r" (expected|key is|unknown key|this is|adapters has) .*")
    assert [ends.sub("", error) for error in errors_in(file, text)] == [
        "server.port:",
        'access.keys[0] "ci": sha256:',
        'access.keys[1] "ci": sha256:',
        f"{a}dialect:",
        f"{a}models[0]: patern:",
        f"{a}transforms[0]: option:",
        f"{a}tls.verify:",
        f"{unnamed}name:",
        f"{unnamed}url:",
        f"{unnamed}dialect:",
        f"{unnamed}headers.x:",
        f"{unnamed}timeouts.connect:",
        'access.keys[1] "ci": name: names must be unique, and access.keys[0] "ci" has the same one',
        f"{a}url:",
        f"{a}profile:",
        f"{a}models[1]: profile:",
        f"{a}transforms[0]: use:",
        f'{a}tls.ca_file: cannot read "/none.pem": No such file or directory',
        f'{unnamed}headers."a b": not a valid header name',
        'state.url: 2 workers cannot share "memory:"; use "sqlite:FILE" or "postgresql://…"',
    ]


SYNTAX = {
    "no value": (b"port =", r"invalid TOML: Invalid value \(at .*\)"),
    "no table": (b"\n\n[server", r"invalid TOML: .*\(at .*\)"),
    "twice": (b"[server]\nport = 1\nport = 2\n", r"invalid TOML: .*\(at line 3, column 9\)"),
    "deep": (b"x = " + b"[" * 100_000, "the file is nested too deeply"),
    "digits": (b"x = " + b"9" * 5000, "invalid TOML: .*"),
    "not UTF-8": (b"loss = 1\nx = '\xff'", r"the file is not UTF-8 \(line 2\)"),
}


@pytest.mark.parametrize(("content", "error"), SYNTAX.values(), ids=SYNTAX)
def test_invalid_toml_is_reported_with_its_line(content: bytes, error: str, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert re.fullmatch(f"{re.escape(str(file))}: {error}", str(caught.value))


@pytest.mark.parametrize(
    ("name", "error"), [("none.toml", "No such file or directory"), (".", "Is a directory")]
)
def test_unreadable_file_is_reported(name: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / name)
    assert caught.value.errors == [f"{tmp_path / name}: {error}"]


@pytest.mark.parametrize(
    ("key", "error"),
    [
        # The path before it may be shortened.
        ("ca_file", " contains no certificates in PEM format"),
        ("cert_file", "expected a certificate and its key in PEM format, without a password"),
    ],
)
def test_tls_files_must_be_pem(key: str, error: str, file: Path) -> None:
    pem = file.with_suffix(".pem")
    pem.write_text("noise")
    (found,) = errors_in(file, f'{BACKEND}tls = {{ {key} = "{pem}" }}')
    assert found.startswith(f"{LOCAL}: tls.{key}: ")
    assert found.endswith(error)


def test_tracing_requires_its_packages(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[tracing]\nendpoint = "http://127.0.0.1:4318/v1/traces"'
    file.write_text(text)
    assert load_config(file).tracing.endpoint == "http://127.0.0.1:4318/v1/traces"

    def find_nothing(_name: str) -> None:
        return

    monkeypatch.setattr("gateway.config.value_checks.find_spec", find_nothing)
    assert errors_in(file, text) == [
        'tracing.endpoint: requires more packages; run: pip install "dragoman[tracing]"'
    ]


# Renamed keys and values: a file with the key of each struct, and the path of that key.
TABLES: dict[type[Struct], tuple[str, str]] = {
    schema.Config: ("{} = 1", "{}"),
    schema.ServerConfig: ("server.{} = 1", "server.{}"),
    schema.KeyConfig: (KEY + "{} = 1", 'access.keys[0] "ci": {}'),
    schema.TimeoutConfig: ("timeouts.{} = 1", "timeouts.{}"),
    schema.RetryConfig: (BACKEND + "retries.{} = 1", LOCAL + ": retries.{}"),
    ReplyOptions: ("replies.{} = 1", "replies.{}"),
    schema.SealingConfig: ("sealing.{} = 1", "sealing.{}"),
    schema.BackgroundConfig: ("background.{} = 1", "background.{}"),
    schema.BackendConfig: (BACKEND + "{} = 1", LOCAL + ": {}"),
    schema.TlsConfig: (BACKEND + "tls.{} = 1", LOCAL + ": tls.{}"),
    Capabilities: (BACKEND + "capabilities.{} = 1", LOCAL + ": capabilities.{}"),
}


@pytest.mark.parametrize(
    ("struct", "old", "new"),
    [(struct, old, new) for struct, names in RENAMED_KEYS.items() for old, new in names.items()],
)
def test_old_key_is_reported_with_its_new_name(
    struct: type[Struct], old: str, new: str, file: Path
) -> None:
    text, path = TABLES[struct]
    assert errors_in(file, text.format(old)) == [f"{path.format(old)}: renamed to {new}"]
    assert new in {field.name for field in structs.fields(struct)}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [(name, old, new) for name, values in RENAMED_VALUES.items() for old, new in values.items()],
)
def test_old_value_is_reported_with_its_new_name(name: str, old: str, new: str, file: Path) -> None:
    array = isinstance(getattr(Capabilities(), name), tuple)
    value, index = ('["{}"]', "[0]") if array else ('"{}"', "")
    text = BACKEND + f"capabilities.{name} = {value}"
    assert errors_in(file, text.format(old)) == [
        f'{LOCAL}: capabilities.{name}{index}: "{old}" was renamed to "{new}"'
    ]
    file.write_text(text.format(new))
    assert load_config(file).backends


def test_every_renamed_key_is_in_the_changelog() -> None:
    page = (Path(__file__).parents[3] / "CHANGELOG.md").read_text()
    rows = set(re.findall(r"^ *\| .*?`([^`]+)` \| `([^`]+)`", page, re.MULTILINE))
    renamed = [*RENAMED_KEYS.values(), *RENAMED_VALUES.values()]
    for old, new in (pair for names in renamed for pair in names.items()):
        assert (old, new) in rows or (f'"{old}"', f'"{new}"') in rows
