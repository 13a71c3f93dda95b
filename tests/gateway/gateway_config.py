"""Configuration of the gateways under test."""

from collections.abc import Iterable
from itertools import product

import pytest

DIALECTS = ("chat", "responses", "legacy")
DIALECT_PAIRS = [*product(DIALECTS, DIALECTS)]
PAIR_IDS = ["-to-".join(pair) for pair in DIALECT_PAIRS]
EVERY_PAIR = pytest.mark.parametrize(("client", "dialect"), DIALECT_PAIRS, ids=PAIR_IDS)
STREAMED_OR_NOT = pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])


def backend_table(address: str, name: str, dialect: str, settings: str = "") -> str:
    """Configure a backend that serves the models whose names begin with its own."""
    return (
        f'\n[[backends]]\nname = "{name}"\nurl = "{address}/{name}/v1"\ndialect = "{dialect}"\n'
        f'models = ["{name}-*"]\n{settings}'
    )


def capability_table(line: str) -> str:
    return f"[backends.capabilities]\n{line}\n"


def timeout_settings(line: str) -> str:
    """Configure timeouts of a backend that gets one request without retries."""
    return f"timeouts = {{ {line} }}\nretries = {{ max_retries = 0 }}\n"


# Prefixes of names of backends with special settings; there is one for each dialect.
BACKEND_KINDS = {
    "streaming": capability_table('streaming = "only"'),
    "unary": capability_table('streaming = "never"'),
    "native": 'profile = "openai"\n',
    "late": timeout_settings("connect = 3600, response_start = 0.3"),
    "silent": timeout_settings("idle = 0.5"),
    "steady": timeout_settings("idle = 5"),
    "hanging": timeout_settings("idle = 0.5") + capability_table('streaming = "only"'),
    "endless": timeout_settings("total = 0.7"),
    "again": "retries = { max_retries = 2, initial_backoff = 0.05, max_retry_after = 2,"
    " status_codes = [429, 502, 503] }\n",
}


def backend_tables(address: str, kinds: Iterable[str] = ()) -> str:
    """Configure a backend for each dialect, without special settings and of these kinds."""
    plain = [backend_table(address, dialect, dialect) for dialect in DIALECTS]
    special = [
        backend_table(address, f"{kind}-{dialect}", dialect, BACKEND_KINDS[kind])
        for kind in kinds
        for dialect in DIALECTS
    ]
    return "".join([*plain, *special])


def state_table(url: str, settings: str = "") -> str:
    return f'[state]\nurl = "{url}"\n{settings}\n'
