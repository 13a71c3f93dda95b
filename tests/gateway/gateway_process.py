"""The gateway as a process, and what the system knows about it."""

import re
from pathlib import Path

from gateway.pytest_plugin.gateway_process import (
    COMMAND,
    GatewayProcess,
    run_gateway,
    run_server,
)
from tests.gateway.waiting import wait_until

__all__ = [
    "COMMAND",
    "ROOT",
    "Gateway",
    "assert_no_errors_logged",
    "is_stopped",
    "log_line_naming",
    "memory",
    "run_gateway",
    "run_server",
]

ROOT = Path(__file__).parent.parent.parent
Gateway = GatewayProcess


def is_stopped(gateway: Gateway) -> bool:
    """Whether the process is stopped by a signal."""
    fields = Path(f"/proc/{gateway.process.pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0] == "T"


def memory(gateway: Gateway) -> int:
    """Return the resident memory of the process in bytes."""
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024


def log_line_naming(gateway: Gateway, model: str) -> str:
    """Return the first log line that names a model; it may be written after the reply."""
    wait_until(lambda: any(f'"{model}"' in line for line in gateway.lines))
    return next(line for line in gateway.lines if f'"{model}"' in line)


def assert_no_errors_logged(gateway: Gateway) -> None:
    """Raise if the gateway itself failed, whatever its clients and backends did."""
    assert "Traceback" not in gateway.log, gateway.log
    assert "never retrieved" not in gateway.log, gateway.log
