"""Telephone calls: `call.name` and `call.arguments` are no calls of a model."""
import json
from types import SimpleNamespace

log = [SimpleNamespace(name="ring", arguments="[3]"), SimpleNamespace(name="hang_up", arguments="[]")]


def play(call):
    return call.name, json.loads(call.arguments)


for call in log:
    name, arguments = play(call)
    print(name, *arguments)
