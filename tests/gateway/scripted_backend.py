"""The scripted backend of the pytest plugin."""

from gateway.pytest_plugin.scripted_backend import *  # noqa: F403 - the same names
