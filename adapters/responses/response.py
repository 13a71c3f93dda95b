"""The response object, with every field that it repeats from the request.

The SDKs, and Open Responses even more, want the whole object on every event that carries it. What
was asked does not change while the answer comes, so it is written once.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from adapters.ir.types import Error, Request
from adapters.losses import Losses
from adapters.responses.request_writer import echo_format, echo_tool, write_choice
from adapters.responses.wire import UsageWire
from adapters.wire.extra_fields import ExtrasWriter

Wire = dict[str, object]

# Codes that a failed response may have. The last two are not in the published list, but OpenAI
# sends them and Codex stops on them instead of trying again.
_ERROR_CODES = frozenset(
    (
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "data_residency_mismatch",
        "bio_policy",
        "misalignment_policy_violation",
        "vector_store_timeout",
        "context_length_exceeded",
        "insufficient_quota",
    )
)


class ResponseSnapshot(Struct):
    """What differs between one telling of a response and the next."""

    status: str
    output: list[Wire | Raw] = []
    completed_at: int | None = None
    incomplete_details: Wire | None = None
    error: Wire | None = None
    usage: UsageWire | None = None


class Response:
    """One response, told once or often."""

    def __init__(  # noqa: PLR0913 - each is one thing to say of a response
        self,
        response_id: str,
        created_at: int,
        model: str,
        service_tier: str | None,
        request: Request,
        stamp: Mapping[str, object],
        *,
        often: bool,
    ) -> None:
        self._identity: Wire = {"id": response_id, "object": "response", "created_at": created_at}
        self._created_at = created_at
        self._model = model
        self.service_tier = service_tier or request.service_tier
        echo = _echo(request)
        if often:
            echo = {name: _encoded(value) for name, value in echo.items()}
        self._echo = echo | dict(stamp)

    def write(self, outcome: ResponseSnapshot) -> Wire:
        """Tell the response as it now stands."""
        tier = "default" if self.service_tier in (None, "auto") else self.service_tier
        return (
            self._identity
            | {
                "completed_at": self._not_before(outcome.completed_at),
                "status": outcome.status,
                "error": outcome.error,
                "incomplete_details": outcome.incomplete_details,
                "model": self._model,
                "output": outcome.output,
            }
            | self._echo
            | {"service_tier": tier, "usage": outcome.usage}
        )

    def _not_before(self, moment: int | None) -> int | None:
        """Keep an end from standing before its beginning, where two clocks differ."""
        return None if moment is None else max(moment, self._created_at)


def write_failure(error: Error) -> Wire:
    """Write the error of a failed response."""
    code = error.code or ""
    if code not in _ERROR_CODES:
        limited = error.status == 429 or "rate_limit" in error.type  # noqa: PLR2004 - HTTP
        code = "rate_limit_exceeded" if limited else "server_error"
    return {"code": code, "message": error.message}


def _echo(request: Request) -> Wire:
    """Repeat what was asked. Where nobody said, the default that was in force is told."""
    # What the client itself wrote cannot be lost by repeating it.
    quiet = Losses(None)
    carrier = ExtrasWriter("responses", "", quiet)
    text: Wire = {"format": echo_format(request.format, carrier, quiet)}
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    choice = request.tool_choice
    parallel = request.parallel_tool_calls
    echo: Wire = {
        "background": False,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.find_extra("responses", "max_tool_calls"),
        "metadata": request.metadata or {},
        "parallel_tool_calls": True if parallel is None else parallel,
        "previous_response_id": request.find_extra("responses", "previous_response_id"),
        "prompt_cache_key": request.prompt_cache_key,
        "reasoning": {
            "effort": request.effort,
            "summary": request.find_extra("responses", "reasoning.summary"),
        },
        "safety_identifier": request.safety_identifier,
        # Nothing is stored here; whoever stores says so.
        "store": False,
        "temperature": _number(request.temperature, 1.0),
        "text": text,
        "tool_choice": "auto" if choice is None else write_choice(choice),
        "tools": [echo_tool(tool, carrier, quiet) for tool in request.tools],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": _number(request.top_p, 1.0),
        "presence_penalty": _number(request.presence_penalty, 0.0),
        "frequency_penalty": _number(request.frequency_penalty, 0.0),
        "truncation": "disabled",
    }
    if request.user is not None:
        echo["user"] = request.user
    return echo


def _number(value: float | None, default: float) -> float:
    return default if value is None else value


def _encoded(value: object) -> object:
    """Encode what is large once and for all."""
    return Raw(msgspec.json.encode(value)) if isinstance(value, dict | list) else value
