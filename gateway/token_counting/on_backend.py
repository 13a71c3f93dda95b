"""Has a backend count the tokens of a request, in whichever way it can."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from adapters import Exchange, IdSource, InvalidReplyError, Policy, Sealer, dialect
from adapters.json_text import DECODE_ERRORS
from gateway import statuses
from gateway.backends.routing import Route
from gateway.backends.side_request import SideRequest

_NOT_COUNTED: Final = "the backend did not count"
# What the Responses API counts.
_COUNTED: Final = (
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "personality",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
)


class _Count(Struct):
    """What the Responses API says, what vLLM says, and the two answers of llama.cpp."""

    input_tokens: int | None = None
    count: int | None = None
    prompt: str | None = None
    tokens: list[Raw] | None = None


_COUNT: Final = msgspec.json.Decoder(_Count)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


class CountableRequest(Struct, frozen=True):
    """Writes one request as a backend gets it."""

    body: bytes
    route: Route
    mint: IdSource
    policy: Policy
    seal: Sealer

    def write(self, name: str | None = None) -> bytes:
        """Write it in a dialect, the backend's own by default."""
        upstream = self.route.upstream
        exchange = Exchange(
            dialect("responses"),
            upstream.dialect if name is None else dialect(name),
            mint=self.mint,
            capabilities=upstream.capabilities,
            policy=self.policy,
            rewrite=upstream.rewrite,
            seal=self.seal,
        )
        return exchange.request(self.body, model=self.route.model).body


async def count_on_backend(written: CountableRequest, aside: SideRequest) -> int | None:
    """Ask the backend; None if it has no way to count. Raises a `DragomanError` if it fails."""
    match aside.upstream.capabilities.counting:
        case "responses":
            return await _as_responses(written, aside)
        case "vllm":
            return await _as_vllm(written, aside)
        case "llamacpp":
            return await _as_llamacpp(written, aside)
        case "none":
            return None


async def _as_responses(written: CountableRequest, aside: SideRequest) -> int:
    fields = _OBJECT.decode(written.write("responses"))
    body: dict[str, object] = {name: fields[name] for name in _COUNTED if name in fields}
    return _number((await _ask(aside, "/responses/input_tokens", body, root=False)).input_tokens)


async def _as_vllm(written: CountableRequest, aside: SideRequest) -> int:
    return _number((await _ask(aside, "/tokenize", _template_input(written))).count)


async def _as_llamacpp(written: CountableRequest, aside: SideRequest) -> int:
    prompt = (await _ask(aside, "/apply-template", _template_input(written))).prompt
    body = {"content": _said(prompt), "add_special": True, "parse_special": True}
    return len(_said((await _ask(aside, "/tokenize", body)).tokens))


def _template_input(written: CountableRequest) -> dict[str, Raw]:
    """Give what the template of a model is filled with."""
    fields = _OBJECT.decode(written.write("chat"))
    wanted = ("model", "messages", "tools", "chat_template_kwargs")
    return {name: fields[name] for name in wanted if name in fields}


async def _ask(
    aside: SideRequest, path: str, body: Mapping[str, object], *, root: bool = True
) -> _Count:
    answer = await aside.ask(path, _ENCODER.encode(body), root=root)
    if answer.status != statuses.WHOLE:
        raise InvalidReplyError(None, f"{_NOT_COUNTED}: status {answer.status}")
    try:
        return _COUNT.decode(answer.body)
    except DECODE_ERRORS:
        raise InvalidReplyError(None, _NOT_COUNTED) from None


T = TypeVar("T")


def _said(value: T | None) -> T:
    if value is None:
        raise InvalidReplyError(None, _NOT_COUNTED)
    return value


def _number(value: int | None) -> int:
    number = _said(value)
    if number < 0:
        raise InvalidReplyError(None, _NOT_COUNTED)
    return number
