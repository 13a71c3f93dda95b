"""Tools and helpers for the tests of tool emulation."""

import json

from msgspec import Raw
from msgspec.structs import replace

import adapters
from adapters.ir import types as ir
from adapters.losses import Losses
from adapters.tool_emulation import BackendToolSupport, EmulatedRequest, emulate_tools
from tests.exchange import Exchange
from tests.judges.reading import objects_in, read_object

Wire = dict[str, object]

FUNCTIONS_ONLY = BackendToolSupport(lambda tool: isinstance(tool, ir.FunctionTool))
ALL_TOOLS = BackendToolSupport(lambda _tool: True)


def namespace(name: str, *tools: Wire) -> ir.HostedTool:
    value = {"type": "namespace", "name": name, "description": "", "tools": tools}
    return ir.HostedTool("namespace", Raw(json.dumps(value).encode()))


def hosted(kind: str, **more: object) -> ir.HostedTool:
    return ir.HostedTool(kind, Raw(json.dumps({"type": kind, **more}).encode()))


def emulate(
    *items: ir.Item,
    tools: tuple[ir.Tool, ...] = (),
    backend: BackendToolSupport = FUNCTIONS_ONLY,
    losses: Losses | None = None,
) -> EmulatedRequest:
    request = ir.Request(items=items, tools=tools)
    return emulate_tools(request, "responses", backend, Losses() if losses is None else losses)


def reply_of(*items: ir.ToolCall | ir.Message) -> ir.Reply:
    return ir.Reply("r", "m", 1, (ir.Choice(items, ir.Finish("calls", "tool_calls")),))


def exchange(
    client: str, backend: str, *, rewrite: bool = False, **capabilities: object
) -> Exchange:
    return Exchange(
        client,
        backend,
        capabilities=replace(adapters.Capabilities(), **capabilities),
        rewrite=rewrite,
    )


def function(name: str, **more: object) -> Wire:
    return {"type": "function", "name": name, **more}


def item(kind: str, call_id: str, **more: object) -> Wire:
    return {"type": kind, "call_id": call_id, **more}


def encoded(body: Wire) -> bytes:
    return json.dumps({"model": "m", **body}).encode()


def send(exchange: Exchange, **body: object) -> Wire:
    return read_object(exchange.request(encoded(body)).body)


def completion(**calls: str) -> bytes:
    """Return a Chat reply that calls functions with some arguments."""
    tool_calls = [
        {"id": name, "function": {"name": name, "arguments": text}} for name, text in calls.items()
    ]
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": tool_calls}}
    return json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


def output_of(reply: adapters.ReplyEnd) -> list[Wire]:
    return objects_in(read_object(reply.body), "output")
