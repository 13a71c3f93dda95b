"""All that can be configured, with a default for everything.

The file is TOML, and its tables have the names of these fields. `reading` turns it into these
values and says what is wrong with it; the command line may say a few of them too.

Times are seconds. Where 0 makes sense it means: no limit.
"""

from types import NoneType
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct, structs

from adapters import Capabilities, Policy, ReplyOptions
from adapters.capabilities import GENERIC, PROFILES

DialectName = Literal["chat", "responses", "legacy"]

# At most a year: event loops cannot count for ever.
Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]
# Shorter ones would run out wherever a process is busy for a moment.
Lease = Annotated[float, Meta(ge=1, le=3600)]
Positive = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=0, le=65535)]
# The SHA-256 of a key, in hex: the key itself is never stored.
Digest = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{64}$",
        description="the SHA-256 of a key, 64 digits of lower-case hex, as `dragoman key` makes it",
    ),
]
Url = Annotated[str, Meta(pattern="^https?://[^/]+", description="a URL, http://… or https://…")]
StateUrl = Annotated[
    str,
    Meta(
        pattern="^(sqlite:[^:].*|postgresql://.+|memory:)$",
        description='"sqlite:FILE", "postgresql://…" or "memory:"',
    ),
]
# The database that is forgotten with its process.
MEMORY_URL = "memory:"
# Names stand in logs, labels and headers.
Name = Annotated[
    str,
    Meta(
        pattern="^[!-~]([ -~]*[!-~])?$",
        description="a name of printable ASCII characters",
    ),
]
Text = Annotated[str, Meta(min_length=1, description="a text that is not empty")]
Status = Annotated[int, Meta(ge=400, le=599)]

MEBIBYTE = 1024 * 1024


class ServerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where we listen, and how we treat those who call."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    workers: Positive = 1
    # The largest request body, after it is decompressed.
    max_body_bytes: Positive = 64 * MEBIBYTE
    # After so much silence of a backend, a streaming client is told that we are still there. Load
    # balancers cut connections after 60 seconds of nothing (P148).
    heartbeat_interval: Seconds = 15
    # How long running answers may go on after we were told to stop.
    shutdown_timeout: Seconds = 30
    # Whether `/responses` is spoken over WebSockets too. If not, clients are told so at once.
    websocket: bool = True
    # So old a WebSocket may become; the answer that is running then is still told to its end.
    websocket_max_lifetime: Seconds = 3600


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One key that clients may use: a name for the logs, and the digest of the key."""

    name: Name
    sha256: Digest
    # How clients with this key want to be told things; None: as everybody.
    replies: ReplyOptions | None = None


class AccessConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may call. With no keys everybody may, and the client's own key goes to the backend."""

    keys: tuple[KeyConfig, ...] = ()


class TimeoutConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How long a backend may take."""

    connect: Seconds = 10
    # From the request to the first byte of the answer: a long prompt takes its time.
    response_start: Seconds = 600
    # Between two pieces of an answer.
    idle: Seconds = 300
    # For all of it.
    total: Seconds = 0


class RetryConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """When a request is sent again. Only before the first byte of an answer, never after.

    Clients try three times themselves, so what we add is multiplied: by default only a backend that
    could not be reached is tried again.
    """

    max_retries: Annotated[int, Meta(ge=0, le=10)] = 1
    status_codes: tuple[Status, ...] = ()
    # Before the first retry; doubled before each one after it.
    initial_backoff: Seconds = 0.5
    # A backend that says `Retry-After` is waited for no longer than this; the client is told.
    max_retry_after: Seconds = 10


class TlsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How we know a backend, and how it knows us."""

    verify: bool = True
    # Files in PEM.
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class BackendConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One server that has models."""

    name: Name
    # Everything before `/chat/completions` or `/responses`.
    url: Url
    dialect: DialectName
    # Globs; the first backend that matches serves the model, the next ones if it is down.
    models: tuple[Text, ...] = ("*",)
    # What a model is called there, by the name that clients use.
    model_aliases: dict[str, Text] = {}
    # Serves the models that no backend matches.
    default: bool = False
    # The environment variable with our key there. None: the client's Authorization goes through.
    api_key_env: str | None = None
    # A named bundle of capabilities, and single ones that differ from it (see `profiles`).
    # Without either, requests in the backend's own dialect pass as they are.
    profile: str | None = None
    capabilities: dict[str, object] = {}
    # Headers to send besides; not for keys, which belong into the environment.
    headers: dict[str, str] = {}
    # The HTTP implementation: our own, or that of httpx, which a proxy always needs.
    transport: Literal["direct", "httpx"] = "direct"
    proxy: Url | None = None
    tls: TlsConfig = TlsConfig()
    max_connections: Positive = 1000
    # None: as for all backends.
    timeouts: TimeoutConfig | None = None
    retries: RetryConfig | None = None


class LogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What is written about each exchange."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"
    # Write the bodies too, secrets blacked out.
    bodies: bool = False


class MetricsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What is counted, for Prometheus to fetch at `/metrics`."""

    enabled: bool = True


class TracingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where traces go: the address of an OTLP collector over HTTP. None: nowhere."""

    endpoint: Url | None = None
    service_name: Text = "dragoman"


class SealingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The key with which we seal what clients carry for us, such as a model's reasoning."""

    # The environment variable with the key: 32 bytes in base64 or hex, the same on every node.
    # None: the nodes on one database make one and keep it there; with it, a copy of the database
    # opens what was sealed.
    key_env: str | None = None
    # Variables with keys that were used before: they still open.
    previous_key_envs: tuple[Text, ...] = ()


class StateConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where answers are kept, and for how long."""

    url: StateUrl = "sqlite:dragoman.db"
    # What nobody has used for so many days is forgotten; 0: never.
    retention_days: Annotated[float, Meta(ge=0, le=36_500)] = 30


class BackgroundConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How responses are made in the background."""

    # So many at once, in each process; others wait for their turn.
    concurrency: Positive = 100
    # A process that gives no sign of life for so long is dead: others take over its work.
    lease_duration: Lease = 15


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. With no backends, the built-in demo serves every model."""

    loss_policy: Policy = "report"
    server: ServerConfig = ServerConfig()
    access: AccessConfig = AccessConfig()
    timeouts: TimeoutConfig = TimeoutConfig()
    retries: RetryConfig = RetryConfig()
    replies: ReplyOptions = ReplyOptions()
    logging: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()
    tracing: TracingConfig = TracingConfig()
    sealing: SealingConfig = SealingConfig()
    state: StateConfig = StateConfig()
    background: BackgroundConfig = BackgroundConfig()
    backends: tuple[BackendConfig, ...] = ()


# What a backend can take: its profile, and the single capabilities that differ from it.


# TOML has no null. This word says it, where a capability has it.
NOTHING = "null"

_MAY_BE_NOTHING = {
    field.name for field in structs.fields(Capabilities) if NoneType in get_args(field.type)
}
# The dialects are this vendor's, so what its profile would ask for is what its clients send.
_AT_HOME = "openai"


def backend_capabilities(backend: BackendConfig) -> tuple[Capabilities, bool]:
    """Give what a backend takes, and whether requests in its own dialect must be rewritten for it.

    Without a profile nobody knows better than the client what the backend takes.
    """
    bundle = GENERIC if backend.profile is None else PROFILES[backend.profile]
    given = overrides(backend.capabilities)
    whole = msgspec.convert(msgspec.to_builtins(bundle) | given, Capabilities)
    return whole, bool(given) or backend.profile not in (None, _AT_HOME)


def overrides(given: dict[str, object]) -> dict[str, object]:
    """Read the word for nothing as nothing."""
    return {
        name: None if value == NOTHING and name in _MAY_BE_NOTHING else value
        for name, value in given.items()
    }
