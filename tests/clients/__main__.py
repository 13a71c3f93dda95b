"""Run clients through the gateway, and write docs/clients.md.

python -m tests.clients            # all clients
python -m tests.clients LangChain  # those whose name contains a word
python -m tests.clients --failed   # only the runs that failed last
"""

import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from tests.clients.backend import model_name, script_backend
from tests.clients.definitions import Client, load_clients
from tests.clients.driver_process import Run, run_driver
from tests.clients.page import Failure, Result, read_results, write_results
from tests.clients.quirks import quirk_names
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway, run_gateway

_FAILED = "--failed"
_BACKEND = """
[[backends]]
name = "{0}"
url = "{1}/{0}/v1"
dialect = "{0}"
models = ["*{0}-*"]
"""


def main(arguments: Sequence[str]) -> None:
    words = [one for one in arguments if one != _FAILED]
    clients = load_clients()
    chosen = [one for one in clients if not words or any(word in one.name for word in words)]
    results = read_results()
    with ScriptedBackend() as backend, tempfile.TemporaryDirectory() as folder:
        config = "".join(_BACKEND.format(dialect, backend.address) for dialect in DIALECTS)
        with run_gateway(config, Path(folder)) as gateway:
            for client in chosen:
                before = results.get(client.name) if _FAILED in arguments else None
                if before is not None and not before.failures:
                    continue
                client.install()
                result = _run_client(client, backend, gateway, before)
                results[client.name] = result
                write_results(clients, results)
                sys.stdout.write(f"{client.name}: {result.summary}\n")
                sys.stdout.flush()


def _run_client(
    client: Client, backend: ScriptedBackend, gateway: Gateway, before: Result | None
) -> Result:
    """Run a client with every backend, or only those runs that failed before."""
    script_backend(backend, client.model)
    failed = None if before is None else {(one.cell, one.quirk) for one in before.failures}
    cells = [
        (dialect, mode, quirk)
        for dialect, mode in product(client.backends, client.modes)
        for quirk in quirk_names(dialect, streamed=mode == "streamed")
        if failed is None or (f"{dialect} {mode}", quirk) in failed
    ]
    runs = [
        Run(gateway.url, model_name(dialect, quirk, client.model), mode == "streamed")
        for dialect, mode, quirk in cells
    ]
    outcomes = run_driver(client.command(), client.folder, runs)
    passed = {} if before is None else dict(before.passed)
    failures: list[Failure] = []
    for (dialect, mode, quirk), error in zip(cells, outcomes, strict=True):
        cell = f"{dialect} {mode}"
        passed.setdefault(cell, 0)
        if error is None:
            passed[cell] += 1
        else:
            failures.append(Failure(cell, quirk, error))
    return Result(passed, _check_alone(client, backend, failures))


def _check_alone(
    client: Client, backend: ScriptedBackend, failures: list[Failure]
) -> list[Failure]:
    """Repeat each failed mode without the gateway, with a canonical backend of its dialect."""
    modes = sorted({one.cell.partition(" ")[2] for one in failures})
    url = f"{backend.address}/{client.dialect}/v1"
    model = model_name(client.dialect, "none", client.model)
    runs = [Run(url, model, mode == "streamed") for mode in modes]
    outcomes = run_driver(client.command(), client.folder, runs)
    alone = dict(zip(modes, outcomes, strict=True))
    return [
        Failure(one.cell, one.quirk, one.error, alone[one.cell.partition(" ")[2]])
        for one in failures
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
