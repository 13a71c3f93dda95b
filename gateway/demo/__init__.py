"""The built-in demo backend: it calls the tools that it is given, in whichever dialect it is asked.

There is no model behind it. It shows the whole loop, from the question by way of calls and their
results to an answer, on a fresh machine and with no key.
"""

from gateway.demo.reply import DEMO_MODEL
from gateway.demo.transport import DemoTransport

__all__ = ["DEMO_MODEL", "DemoTransport"]
