"""Mistakes in a configuration file, each with all that is told of it."""

from msgspec import structs

from adapters import Capabilities
from adapters.capabilities import PROFILES
from gateway.crypto import api_key_digest

BACKEND = '[[backends]]\nname = "local"\nurl = "http://127.0.0.1:8000/v1"\ndialect = "chat"\n'
OTHER = BACKEND.replace("local", "other")
DIGEST = api_key_digest("one")
KEY = f'[[access.keys]]\nname = "ci"\nsha256 = "{DIGEST}"\n'
HIDDEN = "got something else (not shown: it may be a secret)"
LOCAL = 'backends[0] "local"'
PROFILE_NAMES = ", ".join(f'"{name}"' for name in PROFILES)
CAPABILITY_NAMES = ", ".join(field.name for field in structs.fields(Capabilities))
DIALECTS = '"chat", "legacy", "responses"'


SHAPES = {
    "unknown word": (
        'loss_policy = "reprot"',
        'loss_policy: expected one of "refuse", "report", got "reprot"',
    ),
    "unknown table": (
        "[sever]",
        (
            "sever: there is no such key (did you mean server?); there are: loss_policy, server, "
            "access, timeouts, retries, replies, logging, metrics, tracing, sealing, state, "
            "background, backends"
        ),
    ),
    "unknown key": (
        "[metrics]\ncolour = 1",
        "metrics.colour: there is no such key; there are: enabled",
    ),
    "too short a lease": (
        "[background]\nlease_duration = 0",
        "background.lease_duration: expected a number from 1 to 3600, got 0",
    ),
    "unknown key of a backend": (
        BACKEND + '[backends.tls]\nverfy = "sk-1"',
        (
            f"{LOCAL}: tls.verfy: there is no such key (did you mean verify?); "
            "there are: verify, ca_file, cert_file, key_file"
        ),
    ),
    "unknown key that needs quotes": (
        '[metrics]\n"a b" = 1',
        'metrics."a b": there is no such key; there are: enabled',
    ),
    "unknown preference": (
        "[replies]\nreasoning_txt = true",
        (
            "replies.reasoning_txt: there is no such key (did you mean reasoning_text?); "
            "there are: reasoning_text, reasoning_field, incomplete_as_completed"
        ),
    ),
    "too large": (
        "[server]\nport = 99999",
        "server.port: expected a whole number from 0 to 65535, got 99999",
    ),
    "too small": (
        "[server]\nworkers = 0",
        "server.workers: expected a whole number, 1 or more, got 0",
    ),
    "no whole number": (
        "[server]\nport = 80.5",
        "server.port: expected a whole number from 0 to 65535, got 80.5",
    ),
    "no number": (
        '[timeouts]\nconnect = "10"',
        'timeouts.connect: expected a number from 0 to 31536000, got "10"',
    ),
    "not finite": (
        "[timeouts]\ntotal = inf",
        "timeouts.total: expected a number from 0 to 31536000, got inf",
    ),
    "undefined": (
        "[server]\nheartbeat_interval = nan",
        "server.heartbeat_interval: expected a number from 0 to 31536000, got nan",
    ),
    "no truth": (
        '[metrics]\nenabled = "yes"',
        'metrics.enabled: expected true or false, got "yes"',
    ),
    "a number for true": (
        "[logging]\nbodies = 1",
        "logging.bodies: expected true or false, got 1",
    ),
    "no text": (
        "[server]\nhost = true",
        "server.host: expected a text that is not empty, got true",
    ),
    "empty text": (
        '[server]\nhost = ""',
        'server.host: expected a text that is not empty, got ""',
    ),
    "a date": (
        "[server]\nhost = 2026-01-01",
        "server.host: expected a text that is not empty, got the date 2026-01-01",
    ),
    "no table": ("server = 3", "server: expected a table, got 3"),
    "a list for a table": ("server = []", "server: expected a table, got a list"),
    "a table for a list": (
        BACKEND.replace("[[", "[").replace("]]", "]"),
        "backends: expected a list of tables, each in [[ ]], got a table",
    ),
    "no list": (
        BACKEND + 'models = "*"',
        f'{LOCAL}: models: expected a list, got "*"',
    ),
    "element of a list": (
        "[retries]\nstatus_codes = [503, 200]",
        "retries.status_codes[1]: expected a whole number from 400 to 599, got 200",
    ),
    "value of a table": (
        BACKEND + "model_aliases = { a = 1 }",
        f"{LOCAL}: model_aliases.a: expected a text that is not empty, got 1",
    ),
    "missing key": (
        '[[backends]]\nurl = "http://h/v1"\ndialect = "chat"',
        "backends[0]: name: it is missing; expected a name of printable ASCII characters",
    ),
    "dialect": (
        BACKEND + OTHER.replace("chat", "chatt"),
        f'backends[1] "other": dialect: expected one of {DIALECTS}, got "chatt"',
    ),
    "table that may be left out": (
        BACKEND + "timeouts = { connect = -1 }",
        f"{LOCAL}: timeouts.connect: expected a number from 0 to 31536000, got -1",
    ),
    "url without scheme": (
        BACKEND.replace("http://127", "127"),
        f'{LOCAL}: url: expected a URL, http://… or https://…, got "127.0.0.1:8000/v1"',
    ),
    "state": (
        '[state]\nurl = "mysql://me:sk-1@db"',
        'state.url: expected "sqlite:FILE", "postgresql://…" or "memory:", got "mysql://…@db"',
    ),
    # SQLite's own name for it would be another memory for each connection.
    "state in SQLite's memory": (
        '[state]\nurl = "sqlite::memory:"',
        'state.url: expected "sqlite:FILE", "postgresql://…" or "memory:", got "sqlite::memory:"',
    ),
    "long value": (
        f'[logging]\nlevel = "{"x" * 200}"',
        f'logging.level: expected one of "debug", "error", "info", "warning", got "{"x" * 80}…"',
    ),
    "key for its digest": (
        '[[access.keys]]\nname = "ci"\nsha256 = "sk-1"',
        (
            'access.keys[0] "ci": sha256: expected the SHA-256 of a key, 64 digits of '
            f"lower-case hex, as `dragoman key` makes it, {HIDDEN}"
        ),
    ),
    "header that is no text": (
        BACKEND + "headers = { x-key = 1 }",
        f"{LOCAL}: headers.x-key: expected a text, {HIDDEN}",
    ),
}

PARTS = {
    "memory of several workers": (
        '[server]\nworkers = 2\n[state]\nurl = "memory:"',
        (
            'state.url: expected "sqlite:FILE" or "postgresql://…", which 2 workers share, '
            'got "memory:", which each would have for itself'
        ),
    ),
    "same name": (
        BACKEND + BACKEND,
        f'backends[1] "local": name: "local" is the name of {LOCAL} already; expected another one',
    ),
    "same name of keys": (
        KEY + KEY.replace(DIGEST, api_key_digest("two")),
        (
            'access.keys[1] "ci": name: "ci" is the name of access.keys[0] "ci" already; '
            "expected another one"
        ),
    ),
    "same key": (
        KEY + KEY.replace("ci", "laptop"),
        'access.keys[1] "laptop": sha256: this is the same key as access.keys[0] "ci"',
    ),
    "two defaults": (
        BACKEND + "default = true\n" + OTHER + "default = true\n",
        f'backends[1] "other": default: only one can be true, and that of {LOCAL} is',
    ),
    "no models": (
        BACKEND + "models = []",
        f'{LOCAL}: models: expected at least one model, such as "*", got none',
    ),
    "port of a url": (
        BACKEND.replace("8000", "80000"),
        (
            f"{LOCAL}: url: expected a host and perhaps a port from 1 to 65535, "
            'got "http://127.0.0.1:80000/v1"'
        ),
    ),
    "space in a url": (
        BACKEND.replace("127.0.0.1", "my host"),
        (
            f"{LOCAL}: url: expected a host and perhaps a port from 1 to 65535, "
            'got "http://my host:8000/v1"'
        ),
    ),
    "bracket in a url": (
        BACKEND.replace("127.0.0.1", "[::1"),
        (
            f"{LOCAL}: url: expected a host and perhaps a port from 1 to 65535, "
            'got "http://[::1:8000/v1"'
        ),
    ),
    "port of a proxy": (
        BACKEND + 'proxy = "http://me:sk-1@proxy:80000"',
        (
            f"{LOCAL}: proxy: expected a host and perhaps a port from 1 to 65535, "
            'got "http://…@proxy:80000"'
        ),
    ),
    "bracket in a proxy": (
        BACKEND + 'proxy = "http://[::1"',
        (f'{LOCAL}: proxy: expected a host and perhaps a port from 1 to 65535, got "http://[::1"'),
    ),
    "port of a collector": (
        '[tracing]\nendpoint = "http://127.0.0.1:x/v1/traces"',
        (
            "tracing.endpoint: expected a host and perhaps a port from 1 to 65535, "
            'got "http://127.0.0.1:x/v1/traces"'
        ),
    ),
    "endpoint in a url": (
        BACKEND.replace("/v1", "/v1/chat/completions/"),
        (
            f"{LOCAL}: url: expected only what comes before /chat/completions, "
            'got "http://127.0.0.1:8000/v1/chat/completions/"'
        ),
    ),
    "password in a url": (
        BACKEND.replace("127", "me:sk-1@127"),
        (
            f"{LOCAL}: url: expected no name and password in it (keys: see api_key_env), "
            'got "http://…@127.0.0.1:8000/v1"'
        ),
    ),
    "query in a url": (
        BACKEND.replace("/v1", "/v1?key=sk-1"),
        f'{LOCAL}: url: expected no query and no fragment in it, got "http://127.0.0.1:8000/v1"',
    ),
    "profile": (
        BACKEND + 'profile = "opnai"',
        (f'{LOCAL}: profile: expected one of {PROFILE_NAMES}, got "opnai"'),
    ),
    "unset variable": (
        BACKEND + 'api_key_env = "NOT_SET_HERE"',
        (
            f"{LOCAL}: api_key_env: expected an environment variable that is set, "
            "but NOT_SET_HERE is not"
        ),
    ),
    "key for a variable": (
        BACKEND + 'api_key_env = "sk-1"',
        f"{LOCAL}: api_key_env: expected an environment variable that is set, {HIDDEN}",
    ),
    "header name": (
        BACKEND + 'headers = { "a b" = "sk-1" }',
        f'{LOCAL}: headers."a b": this cannot be the name of a header',
    ),
    "header value": (
        BACKEND + 'headers = { x-key = "sk-1\\n" }',
        f"{LOCAL}: headers.x-key: expected printable ASCII, got something else (not shown)",
    ),
    "header of ours": (
        BACKEND + 'headers = { Content-Length = "1" }',
        f"{LOCAL}: headers.Content-Length: this header is written by the gateway itself",
    ),
    "key in a header": (
        BACKEND + 'headers = { Authorization = "Bearer sk-1" }',
        f"{LOCAL}: headers.Authorization: keys are taken from the environment; see api_key_env",
    ),
    "key without certificate": (
        BACKEND + 'tls = { key_file = "key.pem" }',
        f"{LOCAL}: tls.cert_file: it is missing; key_file alone proves nothing",
    ),
    "no file of authorities": (
        BACKEND + 'tls = { ca_file = "/none.pem" }',
        f'{LOCAL}: tls.ca_file: expected a file, but "/none.pem": No such file or directory',
    ),
    "no certificate": (
        BACKEND + 'tls = { cert_file = "/none.pem" }',
        (f'{LOCAL}: tls.cert_file: expected a file, but "/none.pem": No such file or directory'),
    ),
    "capability that is a word": (
        BACKEND + 'capabilities = { empty_content = "nil" }',
        (
            f'{LOCAL}: capabilities.empty_content: expected one of "empty_string", "null", "omit", '
            'got "nil"'
        ),
    ),
    "capability that is true or false": (
        BACKEND + 'capabilities = { strict_tools = "null" }',
        f'{LOCAL}: capabilities.strict_tools: expected true or false, got "null"',
    ),
    "capability that may be null": (
        BACKEND + "capabilities = { reasoning_field = 1 }",
        f"{LOCAL}: capabilities.reasoning_field: expected a text, got 1",
    ),
    "capability that is a list": (
        BACKEND + 'capabilities = { reasoning_efforts = ["low", 3] }',
        f"{LOCAL}: capabilities.reasoning_efforts[1]: expected a text, got 3",
    ),
    "capability that is a number": (
        BACKEND + "capabilities = { max_deferred_tools = -1 }",
        f"{LOCAL}: capabilities.max_deferred_tools: expected a whole number, 0 or more, got -1",
    ),
    "unknown capability": (
        BACKEND + "capabilities = { developer_rol = true }",
        (
            f"{LOCAL}: capabilities.developer_rol: there is no such key "
            f"(did you mean developer_role?); there are: {CAPABILITY_NAMES}"
        ),
    ),
}
MISTAKES = SHAPES | PARTS
