"""What the drivers of Python clients share; it runs in the environments of the clients.

A driver reads runs as JSON lines and writes the result of each as a JSON line.
"""

import asyncio
import inspect
import json
import os
import sys
import traceback


class Run:
    """A conversation with one model: its prompts, and the tools that the client may call."""

    def __init__(self, base_url, model, stream, prompts, results):
        self.base_url = base_url
        self.model = model
        self.stream = stream
        self.prompts = prompts
        self._results = results
        # The calls of the tools: name and city.
        self.calls = []

    def get_weather(self, city: str) -> str:
        """Return the weather of a city."""
        return self._call("get_weather", city)

    def get_time(self, city: str) -> str:
        """Return the time in a city."""
        return self._call("get_time", city)

    def call(self, name, arguments):
        """Call a tool with its arguments as JSON."""
        return self._call(name, json.loads(arguments)["city"])

    def _call(self, name, city):
        self.calls.append([name, city])
        return self._results[name]


PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTIONS = [
    {"name": name, "description": f"Return the {name[4:]} of a city.", "parameters": PARAMETERS}
    for name in ("get_weather", "get_time")
]


def main(conversation):
    """Have a conversation for each run; `conversation` returns the answers to its prompts."""
    output = os.fdopen(os.dup(1), "w")
    # Clients may print to standard output.
    os.dup2(2, 1)
    for line in sys.stdin:
        run = Run(**json.loads(line))
        try:
            texts = conversation(run)
            if inspect.iscoroutine(texts):
                texts = asyncio.run(texts)
            result = {"texts": [str(text) for text in texts], "calls": run.calls}
        except BaseException as error:  # noqa: BLE001 - whatever a client raises is its result
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}", "calls": run.calls}
        print(json.dumps(result), file=output, flush=True)
