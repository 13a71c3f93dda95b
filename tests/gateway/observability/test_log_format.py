"""The format of the log: readable lines on a terminal, JSON elsewhere."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.gateway.gateway_process import ROOT

ESCAPE = b"\x1b["
_PROGRAM = """
import sys
from gateway.config.schema import LogConfig
from gateway.observability.logging import LOG, logging_config
logging_config(LogConfig(format=sys.argv[1])).configure()
import logging
LOG.info("hello", port=1)
logging.getLogger("library").info("greetings")
"""


def log_on_terminal(log_format: str, **environment: str) -> bytes:
    """Return what is logged if standard error is a terminal."""
    ours, theirs = pty.openpty()
    try:
        run(log_format, theirs, environment)
        return os.read(ours, 10_000)
    finally:
        os.close(ours)
        os.close(theirs)


def run(log_format: str, stderr: int, environment: dict[str, str]) -> bytes:
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM, log_format],
        env={**inherited, "TERM": "xterm", **environment},
        cwd=ROOT,
        stderr=stderr,
        check=True,
    )
    return done.stderr or b""


def test_log_on_a_terminal_is_coloured_text() -> None:
    logged = log_on_terminal("auto")
    assert ESCAPE in logged
    assert b"hello" in logged
    assert b"greetings" in logged
    assert b"{" not in logged


def test_log_without_color_has_no_escape_sequences() -> None:
    logged = log_on_terminal("auto", NO_COLOR="1")
    assert b"hello" in logged
    assert b"port=1" in logged
    assert ESCAPE not in logged


def test_json_is_written_to_a_terminal_if_configured() -> None:
    first, second = log_on_terminal("json").splitlines()
    assert json.loads(first)["event"] == "hello"
    assert json.loads(second)["event"] == "greetings"


@pytest.mark.parametrize(("log_format", "is_json"), [("auto", True), ("text", False)])
def test_log_in_a_pipe(log_format: str, *, is_json: bool) -> None:
    line = run(log_format, subprocess.PIPE, {}).splitlines()[0]
    assert line.startswith(b"{") == is_json
    assert ESCAPE not in line
