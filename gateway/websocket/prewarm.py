"""Answers a turn that only prepares another one: nothing is generated, no backend is asked.

Codex sends its long instructions so before the user has said anything, and then goes on from there.
"""

from typing import Final

from msgspec import Raw

from adapters import Exchange, dialect
from gateway.context import AppContext
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import STREAM
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.terminal import last_response
from gateway.turns.turn import Turn, UnstoredResponses

_NOTHING: Final = (
    b'{"id":"resp_0","object":"response","status":"completed","output":[],"usage":{'
    b'"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},'
    b'"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}}'
)


async def prewarm(
    desk: AppContext,
    client: ClientConnection,
    record: ExchangeRecord,
    caller: Principal,
    body: bytes,
    nearby: UnstoredResponses,
) -> None:
    """Tell a response without output, and keep it, so that it can be continued."""
    if desk.configuration.logging.bodies:
        record.request_body = body
    plan = await desk.ledger.begin(caller, body, nearby)
    if plan is None:
        raise AssertionError("with something nearby there is always a plan")
    record.client, record.model = "responses", plan.model
    # Whether the model is served is better learned now.
    desk.router.find(plan.model)
    told = _told(desk, plan)
    response = last_response(told)
    if response is not None:
        await _keep(desk, plan, response, nearby)
    record.streamed = True
    await client.send_response(200, [*STREAM], told)


def _told(desk: AppContext, plan: Turn) -> bytes:
    """Write the events, as if a server of the client's own dialect had said nothing."""
    spoken = dialect("responses")
    exchange = Exchange(spoken, spoken, mint=desk.mint, rewrite=True, stamp=plan.stamp)
    exchange.request(plan.body)
    return exchange.tell(_NOTHING).body


async def _keep(desk: AppContext, plan: Turn, response: Raw, nearby: UnstoredResponses) -> None:
    if plan.store:
        await desk.ledger.save(plan, response)
    else:
        nearby.remember(plan, response)
