"""Has a backend count the tokens of a request, in whichever way it can."""

import asyncio
import hashlib
import importlib.util
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from adapters import Exchange, IdSource, InvalidReplyError, Policy, Sealer, dialect
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import Json, parse
from gateway import statuses
from gateway.backends.client import SideRequest
from gateway.backends.routing import Route

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
        upstream = self.route.backend
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
    match aside.backend.capabilities.count_tokens:
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
    answer = await aside.post(path, _ENCODER.encode(body), root=root)
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


# Estimates the tokens of a request without a tokeniser.
#
#     a token for every 4 characters of ASCII, for every 2 of another alphabet, for each of the rest
#     4 tokens for every message, item and tool, which templates put around them
#     1000 tokens for every picture, file or sound, whatever its size
#
# English text comes out near what tokenisers say, other languages a little above. OpenAI counted
# one
# sentence in twenty languages when it changed its tokeniser: of about 75 characters, 24 tokens in
# English, 23 in Russian (39 before); of 34 characters, 24 in Chinese (34 before). Of a request the
# texts count that a model reads: the conversation, the instructions, the tools with their schemas
# and
# the schema of the answer; not ids, names of roles, and what is sealed.


ASCII_PER_TOKEN: Final = 4
OTHER_BYTES_PER_TOKEN: Final = 2
FRAME: Final = 4
MEDIUM: Final = 1000

# What a model reads of a request, in any dialect.
_READ: Final = (
    "instructions",
    "input",
    "messages",
    "tools",
    "functions",
    "text",
    "response_format",
)
# What it does not read of an item.
_UNREAD: Final = frozenset(
    (
        "call_id",
        "detail",
        "encrypted_content",
        "file_id",
        "format",
        "id",
        "role",
        "status",
        "tool_call_id",
        "type",
    )
)
# Fields whose value is a picture, a file or a sound, wherever they stand.
_MEDIA: Final = frozenset(("image_url", "file_url", "file_data", "input_audio", "file"))
# Here every word counts: a schema is read as it is written.
_DECLARATIONS: Final = frozenset(("tools", "functions", "text", "response_format"))


# Says how many tokens a text has.
Count = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    size = len(text)
    if text.isascii():
        return math.ceil(size / ASCII_PER_TOKEN)
    ascii_size = len(text.encode("ascii", "ignore"))
    # In UTF-8 the characters of other alphabets have one byte more than those of ASCII, those of
    # Indian and East Asian scripts two, and pictures three.
    more = len(text.encode("utf-8", "replace")) - size
    return math.ceil(ascii_size / ASCII_PER_TOKEN) + math.ceil(more / OTHER_BYTES_PER_TOKEN)


def count_request(body: bytes, count: Count = estimate_tokens) -> int:
    """Count the tokens of a request in any dialect; what a tokeniser says goes before."""
    fields = parse(body)
    if not isinstance(fields, dict):
        return 0
    return sum(_count_field(name, fields[name], count) for name in _READ if name in fields)


def _count_field(name: str, value: Json, count: Count) -> int:
    if value is None:
        return 0
    if name in _DECLARATIONS:
        pieces = value if isinstance(value, list) else [value]
        return sum(FRAME + count(_ENCODER.encode(piece).decode()) for piece in pieces)
    pieces = value if isinstance(value, list) else [value]
    return sum(FRAME + sum(_counted(piece, count)) for piece in pieces)


def _counted(value: Json, count: Count) -> Iterator[int]:
    """Count what there is to read in a value."""
    match value:
        case str():
            yield count(value)
        case list():
            for inner in value:
                yield from _counted(inner, count)
        case dict():
            for name, inner in value.items():
                if name in _MEDIA and inner is not None:
                    yield MEDIUM
                elif name not in _UNREAD:
                    yield from _counted(inner, count)
        case _:
            return


# Counts the tokens of a request here: with a tokeniser if one is at hand, else by an estimate.
#
# The tokeniser is OpenAI's, an extra (`pip install "dragoman[tokens]"`). It would fetch its words
# over the network when it is first used; a request must not wait for that, so it is used only if
# they are there already: in `TIKTOKEN_CACHE_DIR`, or where it keeps them by default.


How = Literal["backend", "tiktoken", "estimate"]

# The encoding of OpenAI's models since 2024; for others it is nearer than any estimate.
_ENCODING: Final = "o200k_base"
_SOURCE: Final = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


class Counted(Struct, frozen=True):
    """How many there are, and who says so."""

    tokens: int
    how: How


async def count_locally(body: bytes) -> Counted:
    """Count the tokens of a request; a long one keeps a thread busy, and nobody else."""
    return await asyncio.to_thread(_count, body)


def _count(body: bytes) -> Counted:
    tokeniser = _tokeniser()
    how: How = "estimate" if tokeniser is None else "tiktoken"
    return Counted(count_request(body, tokeniser or estimate_tokens), how)


@cache
def _tokeniser() -> Count | None:
    """Give what counts, if it can do so without fetching anything; looked for once."""
    if importlib.util.find_spec("tiktoken") is None or not _is_cached():
        return None
    import tiktoken  # noqa: PLC0415 - an extra, and slow to import

    encoding = tiktoken.get_encoding(_ENCODING)
    # What looks like a special token in a text is text.
    encode: Callable[[str], list[int]] = encoding.encode_ordinary
    return lambda text: len(encode(text))


def _is_cached() -> bool:
    """Tell whether the words are where the tokeniser looks, whole: else it would fetch them."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    name = hashlib.sha1(_SOURCE.encode(), usedforsecurity=False).hexdigest()
    try:
        data = (Path(folder) / name).read_bytes() if folder else b""
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() == _SHA256
