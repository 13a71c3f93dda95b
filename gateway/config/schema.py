"""The schema of the configuration file: each table is a struct, each key one of its fields.

Times are in seconds. A timeout of 0 means no limit.
"""

from datetime import date
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from msgspec import Meta, Struct, structs

from adapters import (
    DIALECTS,
    Capabilities,
    Policy,
    ReplyOptions,
)
from adapters.capabilities import ModelRule
from adapters.model_rules import BackendCapabilities

if TYPE_CHECKING:
    DialectName = str
else:
    # Type checkers cannot evaluate this; msgspec and OpenAPI check and list the names with it.
    DialectName = Literal[tuple(DIALECTS)]

# Limited to a year, because event loops reject timers far in the future.
Seconds = Annotated[
    float, Meta(ge=0, le=31_536_000, description="a number of seconds from 0 to 31536000")
]
# At least a second, because a shorter lease could expire while its process is busy.
LeaseSeconds = Annotated[
    float, Meta(ge=1, le=3600, description="a number of seconds from 1 to 3600")
]
PositiveInt = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=0, le=65535)]
StatusCode = Annotated[int, Meta(ge=400, le=599)]
NonEmptyString = Annotated[str, Meta(min_length=1, description="a non-empty string")]
# ASCII, because names appear in logs, metric labels and headers.
Name = Annotated[
    str, Meta(pattern="^[!-~]([ -~]*[!-~])?$", description="a name of printable ASCII characters")
]
KeyDigest = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{64}$",
        description="the SHA-256 of a key as 64 lower-case hex digits (see `dragoman key`)",
    ),
]
Url = Annotated[
    str, Meta(pattern="^https?://[^/]+", description="a URL that begins with http:// or https://")
]
Origin = Annotated[
    str,
    Meta(
        pattern=r"^(\*|https?://[^/*\s]+)$",
        description='an origin such as "https://app.example", or "*"',
    ),
]
PathGlob = Annotated[
    str,
    Meta(
        # Without the version, which is a part of the backend's base URL.
        pattern=r"^/(?!v1(/|$))[^\s?#]+$",
        description='a path without /v1, such as "/embeddings", or a pattern such as "/files/*"',
    ),
]
Date = Annotated[date, Meta(description="a date such as 2027-06-30, without quotes")]
ImportPath = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$",
        description='the path of a class, "package.module:Class"',
    ),
]
StateUrl = Annotated[
    str,
    Meta(
        pattern="^(sqlite:[^:].*|postgres(ql)?://.+|memory:)$",
        description='"sqlite:FILE", "postgresql://…" or "memory:"',
    ),
]
# The default of `max_choices`, which the dry run uses too.
MAX_CHOICES = 8
# A database within the process, lost when the process ends.
MEMORY_URL = "memory:"


class ServerTlsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """TLS of the listening socket; the files are PEM, and are read again when they change."""

    # None to serve without TLS.
    cert_file: NonEmptyString | None = None
    # None if the key is in the file of the certificate.
    key_file: NonEmptyString | None = None


class ServerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The HTTP server."""

    host: NonEmptyString = "127.0.0.1"
    # 0 selects a free port.
    port: Port = 8080
    workers: PositiveInt = 1
    # The file with the process id, for `dragoman reload`.
    pid_file: NonEmptyString | None = None
    # Measured after decompression.
    max_body_bytes: PositiveInt = 64 * 1024 * 1024
    # Many load balancers close connections without data for 60 seconds.
    heartbeat_interval: Seconds = 15
    shutdown_timeout: Seconds = 30
    # Whether `/ready` fails while no backend can be reached. Off, because a common outage would
    # remove all nodes from a load balancer.
    ready_requires_backend: bool = False
    websocket: bool = True
    websocket_max_lifetime: Seconds = 3600
    # The web sites whose pages may use the gateway from a browser.
    cors_origins: tuple[Origin, ...] = ()
    tls: ServerTlsConfig = ServerTlsConfig()


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A key of a client; the file contains only its digest."""

    name: Name
    sha256: KeyDigest
    # None for the general options.
    replies: ReplyOptions | None = None


class AccessConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Authentication of clients. Without keys everyone has access."""

    keys: tuple[KeyConfig, ...] = ()


class TimeoutConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Timeouts of requests to backends."""

    connect: Seconds = 10
    # From the request to the head of the response. Long prompts take minutes to process.
    response_start: Seconds = 600
    # Between two chunks of the response.
    idle: Seconds = 300
    total: Seconds = 0


class RetryConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Retries of requests to backends, before any byte of the response was received.

    By default only failed connections are retried, because SDKs retry too.
    """

    max_retries: Annotated[int, Meta(ge=0, le=10)] = 1
    status_codes: tuple[StatusCode, ...] = ()
    # Doubled with each retry.
    initial_backoff: Seconds = 0.5
    # If `Retry-After` requests a longer wait, the client gets the response.
    max_retry_after: Seconds = 10
    # Retries per request on average, apart from a few after a time without any.
    budget: Annotated[float, Meta(ge=0, le=10)] = 0.2


class CircuitBreakerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """When requests to a failing backend are rejected without being sent."""

    # The number of failures in a row; 0 disables the circuit breaker.
    failures: Annotated[int, Meta(ge=0)] = 5
    # The time until one request is sent as a trial.
    open_seconds: Annotated[float, Meta(gt=0)] = 10


class TlsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """TLS to a backend; all files are PEM."""

    verify: bool = True
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the models of a backend that match a pattern."""

    # The backend's name of a model, or a glob such as `grok-*`; the case does not matter.
    pattern: NonEmptyString
    # The profile to use instead of that of the backend.
    profile: str | None = None
    capabilities: dict[str, object] = {}
    extra_body: dict[str, object] = {}


class TransformConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A class of the user that changes requests and replies, with its options."""

    use: ImportPath
    # The fields of the class.
    options: dict[str, object] = {}


class BackendConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How a backend is reached, and which models it serves."""

    name: Name
    # Without `/chat/completions` or `/responses`.
    url: Url
    dialect: DialectName
    # Names of models, or globs such as `gpt-*`. A table does not select models, but has settings.
    models: tuple[NonEmptyString | ModelConfig, ...] = ("*",)
    # The backend's names of models, by the names that clients use instead.
    model_aliases: dict[str, NonEmptyString] = {}
    # Whether requests for models that match no backend are sent to this one.
    default: bool = False
    # None if the client's Authorization header is forwarded instead.
    api_key_env: str | None = None
    # A file with the key instead, which is read again when the configuration is reloaded.
    api_key_file: NonEmptyString | None = None
    # With neither a profile nor capabilities, requests in the backend's dialect are not changed.
    profile: str | None = None
    capabilities: dict[str, object] = {}
    # Fields that are added to each request.
    extra_body: dict[str, object] = {}
    # Whether replies in the backend's own dialect are repaired, instead of forwarded as they are.
    repair: bool = True
    # In the order in which requests pass them. An import path is a transform without options.
    transforms: tuple[ImportPath | TransformConfig, ...] = ()
    headers: dict[str, str] = {}
    # The other paths of its API that clients may use, or globs such as `/files/*`.
    passthrough_paths: tuple[PathGlob, ...] = ()
    # The HTTP implementation: our own, or that of httpx, which is always used with a proxy.
    transport: Literal["direct", "httpx"] = "direct"
    proxy: Url | None = None
    tls: TlsConfig = TlsConfig()
    max_connections: PositiveInt = 1000
    # The maximum number of requests for one with several choices, if the backend gives one choice.
    max_choices: PositiveInt = MAX_CHOICES
    # None for the general settings.
    timeouts: TimeoutConfig | None = None
    retries: RetryConfig | None = None
    circuit_breaker: CircuitBreakerConfig | None = None

    @property
    def served_models(self) -> tuple[str, ...]:
        """The names and globs of the models that it serves; without any, all models."""
        names = tuple(model for model in self.models if isinstance(model, str))
        return names or (("*",) if self.models else ())


class LogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    # "auto" is "text" on a terminal and otherwise "json".
    format: Literal["auto", "json", "text"] = "auto"
    # Includes request and response bodies, with secrets redacted.
    bodies: bool = False


class MetricsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Prometheus metrics at `/metrics`."""

    enabled: bool = True


class TracingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """OpenTelemetry traces, sent over OTLP/HTTP."""

    # None to disable traces.
    endpoint: Url | None = None
    service_name: NonEmptyString = "dragoman"


class RecordingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Recordings of exchanges."""

    # None to record nothing.
    directory: NonEmptyString | None = None
    # A longer body is left out.
    max_body_bytes: PositiveInt = 8 * 1024 * 1024
    # When the directory has as many recordings, or as many bytes, no more are written.
    max_recordings: PositiveInt = 10_000
    max_total_bytes: PositiveInt = 1024 * 1024 * 1024
    # Whether requests with `store: false` are left out.
    skip_store_false: bool = False


class LegacyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Headers that announce the end of legacy functions to the clients that use them."""

    # Since when they are deprecated, in the header `deprecation`.
    deprecation: Date | None = None
    # When they will stop working, in the header `sunset`.
    sunset: Date | None = None
    # A page for people, in the header `link`.
    link: Url | None = None


class SealingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Encryption of data that clients carry, such as a model's reasoning."""

    # A variable with 32 bytes in base64 or hex, equal on all nodes. If None, the nodes generate a
    # key and share it in the database, so that a copy of the database is enough for decryption.
    key_env: str | None = None
    # Variables with earlier keys, which are only used for decryption.
    previous_key_envs: tuple[NonEmptyString, ...] = ()


class StateConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The database with stored responses and conversations."""

    url: StateUrl = "sqlite:dragoman.db"
    # A variable or a file with the URL.
    url_env: NonEmptyString | None = None
    url_file: NonEmptyString | None = None
    # A variable or a file with the password of a PostgreSQL user, instead of one in the URL.
    password_env: NonEmptyString | None = None
    password_file: NonEmptyString | None = None
    # Counted from the last use; 0 for no limit.
    retention_days: Annotated[
        float, Meta(ge=0, le=36_500, description="a number of days from 0 to 36500")
    ] = 30


class BackgroundConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Background responses."""

    # The maximum number of running jobs in each process.
    concurrency: PositiveInt = 100
    # Another process takes over a job whose lease was not renewed for this long.
    lease_duration: LeaseSeconds = 15


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. Without backends, the built-in demo serves every model."""

    loss_policy: Policy = "report"
    server: ServerConfig = ServerConfig()
    access: AccessConfig = AccessConfig()
    timeouts: TimeoutConfig = TimeoutConfig()
    retries: RetryConfig = RetryConfig()
    circuit_breaker: CircuitBreakerConfig = CircuitBreakerConfig()
    replies: ReplyOptions = ReplyOptions()
    logging: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()
    tracing: TracingConfig = TracingConfig()
    recording: RecordingConfig = RecordingConfig()
    legacy: LegacyConfig = LegacyConfig()
    sealing: SealingConfig = SealingConfig()
    state: StateConfig = StateConfig()
    background: BackgroundConfig = BackgroundConfig()
    backends: tuple[BackendConfig, ...] = ()


# TOML has no null, so this string replaces it in capabilities that can be None.
_NULL = "null"
_NULLABLE = {
    field.name for field in structs.fields(Capabilities) if NoneType in get_args(field.type)
}


def backend_capabilities(backend: BackendConfig) -> BackendCapabilities:
    """Return the capabilities of a backend and of its models."""
    return BackendCapabilities(
        backend.profile,
        _own_capabilities(backend),
        tuple(
            ModelRule(model.pattern, _own_capabilities(model), model.profile)
            for model in backend.models
            if isinstance(model, ModelConfig)
        ),
    )


def _own_capabilities(config: BackendConfig | ModelConfig) -> dict[str, object]:
    """Return the given capabilities, with the fields of `extra_body` as one of them."""
    capabilities = read_nulls(config.capabilities)
    return capabilities | ({"extra_body": config.extra_body} if config.extra_body else {})


def read_nulls(capabilities: dict[str, object]) -> dict[str, object]:
    """Replace "null" by None in capabilities that can be None."""
    return {
        name: None if value == _NULL and name in _NULLABLE else value
        for name, value in capabilities.items()
    }
