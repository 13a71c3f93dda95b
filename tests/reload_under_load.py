"""Reload the configuration again and again while clients stream replies.

    .venv/bin/python -m tests.reload_under_load --seconds 20

Every second reload moves the model to another backend, and every third file is invalid. The command
prints the number of signals and of streams, and exits with code 1 if one of them was incomplete.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from http import HTTPStatus
from pathlib import Path

import httpx
from msgspec import Struct

from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from tests.gateway.backend_replies import Turn, reply_script
from tests.gateway.gateway_config import backend_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.waiting import TIMEOUT_SECONDS

MODEL = "chat-model"
TURN = Turn("One two three four five six.")
PAUSE_SECONDS = 0.5
INVALID = "[broken"


class Result(Struct):
    """What happened while the configuration was reloaded."""

    signals: int = 0
    streams: int = 0
    failures: list[str] = []
    reloaded: int = 0
    refused: int = 0


def run(seconds: float, clients: int, workers: int) -> Result:
    """Run a gateway and its clients for some time."""
    with ScriptedBackend() as one, ScriptedBackend() as other:
        for backend in (one, other):
            backend.respond_with(MODEL, lambda it: reply_script("chat", TURN, it.json()))
        configs = [
            f"[server]\nworkers = {workers}\n" + backend_table(backend.address, "chat", "chat")
            for backend in (one, other)
        ]
        with (
            tempfile.TemporaryDirectory() as name,
            run_gateway(configs[0], Path(name)) as gateway,
        ):
            load = _Load(gateway, Path(name) / "dragoman.toml", configs, time.monotonic() + seconds)
            result = asyncio.run(load.run(clients))
        result.reloaded = gateway.log.count('"configuration reloaded"')
        result.refused = gateway.log.count('"configuration not reloaded"')
        return result


class _Load:
    """The clients and the reloads."""

    def __init__(self, gateway: Gateway, file: Path, configs: list[str], end: float) -> None:
        self._gateway = gateway
        self._file = file
        self._configs = configs
        self._end = end
        self._result = Result()

    async def run(self, clients: int) -> Result:
        limits = httpx.Limits(max_connections=clients)
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, limits=limits) as client:
            await asyncio.gather(self._reload(), *(self._stream(client) for _ in range(clients)))
        return self._result

    async def _reload(self) -> None:
        result = self._result
        while time.monotonic() < self._end:
            result.signals += 1
            valid = self._configs[result.signals % 2]
            self._file.write_text(valid if result.signals % 3 else INVALID)
            self._gateway.process.send_signal(signal.SIGHUP)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _stream(self, client: httpx.AsyncClient) -> None:
        url = f"{self._gateway.url}/responses"
        body = {"model": MODEL, "input": "Hi", "stream": True}
        while time.monotonic() < self._end:
            try:
                reply = await client.post(url, json=body)
            except httpx.HTTPError as error:
                self._result.failures.append(repr(error))
                continue
            if reply.status_code == HTTPStatus.OK and "response.completed" in reply.text:
                self._result.streams += 1
            else:
                self._result.failures.append(f"{reply.status_code}: {reply.text[:200]}")


def main() -> int:
    """Print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    result = run(given.seconds, given.clients, given.workers)
    reloads = f"{result.reloaded} reloads by {given.workers} workers"
    lines = (
        f"{result.signals} signals: {reloads}, {result.refused} files refused",
        f"{result.streams} streams complete, {len(result.failures)} incomplete",
        *result.failures[:3],
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
