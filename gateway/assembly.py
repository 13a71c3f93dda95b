"""Makes the parts of the service from its configuration."""

import os

import httpx

from gateway.backends.client import BackendClient
from gateway.backends.transport import make_transport
from gateway.config import backend_capabilities
from gateway.config.schema import BackendConfig, Config
from gateway.crypto import SealingKeys, new_sealing_key, parse_sealing_key
from gateway.demo import DemoTransport
from gateway.store import Store

# What is served where nothing is configured: the demo, once in each dialect, so that a newcomer can
# see any client in front of any backend. Every other model name gets the first.
_DEMO_URL = "http://demo.invalid/v1"
DEMO = (
    BackendConfig("demo", _DEMO_URL, "chat", models=("demo", "demo-chat"), default=True),
    BackendConfig("demo-responses", _DEMO_URL, "responses", models=("demo-responses",)),
    BackendConfig("demo-legacy", _DEMO_URL, "legacy", models=("demo-legacy",)),
)

# The name of the key that all nodes on one database share.
_SEALING_KEY = "sealing key"


def make_upstreams(config: Config) -> list[BackendClient]:
    """Make the backends ready to be asked."""
    if not config.backends:
        demo = DemoTransport()
        return [_make(config, backend, demo) for backend in DEMO]
    return [_make(config, backend, make_transport(backend)) for backend in config.backends]


async def make_sealer(config: Config, store: Store) -> SealingKeys:
    """Make what seals for all clients and backends, with the configured keys.

    Where none is configured, the nodes on one database agree on one and keep it there: what was
    sealed opens on every node and after every restart, without any set-up. What clients carry is
    sealed against them and against others on the way, and they do not see the database. Who can
    read that sees the stored histories anyway; but who gets hold of a copy of it can open, and
    make, what is sealed. `[sealing] key_env` keeps the key out of it.
    """
    names = (config.sealing.key_env, *config.sealing.previous_key_envs)
    found = [parse_sealing_key(os.environ.get(name, "")) for name in names if name is not None]
    # They were looked at when the configuration was read.
    keys = [one for one in found if one is not None]
    first, *older = keys or [await store.secrets.get_or_create(_SEALING_KEY, new_sealing_key())]
    return SealingKeys(first, older)


def _make(
    config: Config, backend: BackendConfig, transport: httpx.AsyncBaseTransport
) -> BackendClient:
    capabilities, rewrite = backend_capabilities(backend)
    return BackendClient(
        backend,
        transport,
        capabilities=capabilities,
        rewrite=rewrite,
        timeouts=backend.timeouts or config.timeouts,
        retries=backend.retries or config.retries,
        # One that comes from a file often ends with a line break.
        key=os.environ.get(backend.api_key_env or "", "").strip() or None,
    )
