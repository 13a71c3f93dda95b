"""`python -m gateway`, the same as the command `dragoman`."""

from gateway.cli import run

run()
