"""Counts of the input tokens of a request: by the backend, by tiktoken, or as an estimate."""

import asyncio
import hashlib
import importlib.util
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from adapters import (
    DIALECTS,
    IdSource,
    InvalidReplyError,
    Policy,
    RequestBody,
    Sealer,
    TranslationOptions,
    get_dialect,
    read_client_request,
    write_backend_request,
)
from adapters.json_text import DECODE_ERRORS
from adapters.responses import RESPONSES
from adapters.wire.json_object import Json, parse
from gateway.backends.client import SideResponse
from gateway.backends.routing import Route
from gateway.http.headers import Headers
from gateway.http.monitor import ExchangeMonitor

Source = Literal["backend", "tiktoken", "estimate"]
# Returns the number of tokens of a text.
Count = Callable[[str], int]
Value = TypeVar("Value")

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


class TokenCount(Struct, frozen=True):
    """A number of tokens and its source."""

    tokens: int
    source: Source


# By the backend

_NOT_COUNTED: Final = "the backend returned no token count"
_RESPONSES_PATH: Final = "/responses/input_tokens"
# The fields that `/responses/input_tokens` accepts.
_RESPONSES_FIELDS: Final = (
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
_TEMPLATE_FIELDS: Final = ("model", "messages", "tools", "chat_template_kwargs")


class _CountReply(Struct):
    """The fields of a reply of the Responses API, vLLM or one of two endpoints of llama.cpp."""

    input_tokens: int | None = None
    count: int | None = None
    prompt: str | None = None
    tokens: list[Raw] | None = None


_COUNT_REPLY: Final = msgspec.json.Decoder(_CountReply)


class CountableRequest(Struct, frozen=True):
    """A request that can be written in the dialect in which a backend counts tokens."""

    body: RequestBody
    route: Route
    ids: IdSource
    policy: Policy
    sealer: Sealer

    def write(self, dialect_name: str | None = None) -> bytes:
        """Return the body in a dialect, by default the backend's own."""
        backend = self.route.backend
        options = TranslationOptions(
            RESPONSES,
            backend.dialect if dialect_name is None else get_dialect(dialect_name),
            self.ids,
            backend.capabilities,
            policy=self.policy,
            rewrite=backend.rewrite,
            sealer=self.sealer,
            transforms=backend.transforms,
        )
        read = read_client_request(self.body, options)
        return write_backend_request(read, model=self.route.model).body


async def count_on_backend(
    request: CountableRequest, headers: Headers, monitor: ExchangeMonitor
) -> int | None:
    """Return the backend's count; None if it cannot count. Raises a `DragomanError` on failure."""
    backend = request.route.backend

    async def post(path: str, body: Mapping[str, object]) -> _CountReply:
        data, root = _ENCODER.encode(body), path != _RESPONSES_PATH
        response = await backend.post_side_request(path, data, headers, monitor, root=root)
        return _read_count_reply(response)

    match backend.capabilities.count_tokens:
        case "responses":
            fields = _select(request.write("responses"), _RESPONSES_FIELDS)
            return _required_count((await post(_RESPONSES_PATH, fields)).input_tokens)
        case "vllm":
            fields = _select(request.write("chat"), _TEMPLATE_FIELDS)
            return _required_count((await post("/tokenize", fields)).count)
        case "llamacpp":
            fields = _select(request.write("chat"), _TEMPLATE_FIELDS)
            prompt = _required((await post("/apply-template", fields)).prompt)
            body = {"content": prompt, "add_special": True, "parse_special": True}
            return len(_required((await post("/tokenize", body)).tokens))
        case "none":
            return None


def _select(body: bytes, names: tuple[str, ...]) -> dict[str, Raw]:
    fields = _OBJECT.decode(body)
    return {name: fields[name] for name in names if name in fields}


def _read_count_reply(response: SideResponse) -> _CountReply:
    if response.status != HTTPStatus.OK:
        raise InvalidReplyError(None, f"{_NOT_COUNTED}: status {response.status}")
    try:
        return _COUNT_REPLY.decode(response.body)
    except DECODE_ERRORS:
        raise InvalidReplyError(None, _NOT_COUNTED) from None


def _required(value: Value | None) -> Value:
    if value is None:
        raise InvalidReplyError(None, _NOT_COUNTED)
    return value


def _required_count(value: int | None) -> int:
    if (count := _required(value)) < 0:
        raise InvalidReplyError(None, _NOT_COUNTED)
    return count


# By tiktoken
#
# tiktoken is an extra, `dragoman[tokens]`. It downloads its vocabulary at the first use. A request
# must not wait for the download, so tiktoken is used only if its cache contains the vocabulary.

# The encoding of OpenAI's models since 2024; for other models it is better than an estimate.
_ENCODING: Final = "o200k_base"
_VOCABULARY_URL: Final = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_VOCABULARY_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


async def count_locally(body: bytes) -> TokenCount:
    """Count the tokens of a request in a thread, because a long one takes a while."""
    return await asyncio.to_thread(_count, body)


def _count(body: bytes) -> TokenCount:
    tokenizer = _load_tokenizer()
    if tokenizer is None:
        return TokenCount(count_request(body), "estimate")
    return TokenCount(count_request(body, tokenizer), "tiktoken")


@cache
def _load_tokenizer() -> Count | None:
    if importlib.util.find_spec("tiktoken") is None or not _is_vocabulary_cached():
        return None
    import tiktoken  # noqa: PLC0415 - an extra, and slow to import

    # In a request, the name of a special token is ordinary text.
    encode: Callable[[str], list[int]] = tiktoken.get_encoding(_ENCODING).encode_ordinary
    return lambda text: len(encode(text))


def _is_vocabulary_cached() -> bool:
    """Whether the cache folder of tiktoken contains the complete vocabulary."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    name = hashlib.sha1(_VOCABULARY_URL.encode(), usedforsecurity=False).hexdigest()
    try:
        data = (Path(folder) / name).read_bytes() if folder else b""
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() == _VOCABULARY_SHA256


# As an estimate
#
#     1 token for 4 ASCII characters, for 2 characters of another alphabet, for 1 of the rest
#     4 tokens for each message, item and tool, which templates add
#     1000 tokens for each image, file or sound of any size
#
# The estimate is close to the count of tokenizers for English, and a little higher for other
# languages. OpenAI published counts of one sentence: about 75 characters are 24 tokens in English
# and 23 in Russian (previous encoding: 39), 34 characters are 24 tokens in Chinese (previous: 34).

_ASCII_PER_TOKEN: Final = 4
_OTHER_BYTES_PER_TOKEN: Final = 2
ITEM_TOKENS: Final = 4
MEDIA_TOKENS: Final = 1000


def _names_of(*fields: str) -> frozenset[str]:
    """Return the top-level fields in which the dialects have these fields of the IR."""
    return frozenset(
        dialect.names.get(field, field).partition(".")[0]
        for dialect in DIALECTS.values()
        for field in fields
        if field not in dialect.unsupported_fields
    )


# The fields of a request that a model reads, in any dialect.
_CONVERSATION: Final = _names_of("instructions", "items")
_DECLARATIONS: Final = _names_of("tools", "format")
# The fields of an item that a model does not read.
_SKIPPED: Final = frozenset(
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
_MEDIA: Final = frozenset(("image_url", "file_url", "file_data", "input_audio", "file"))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    size = len(text)
    if text.isascii():
        return math.ceil(size / _ASCII_PER_TOKEN)
    ascii_size = len(text.encode("ascii", "ignore"))
    # The bytes after the first: one in most alphabets, two in Indian and East Asian scripts, three
    # in an emoji.
    additional = len(text.encode("utf-8", "replace")) - size
    ascii_tokens = math.ceil(ascii_size / _ASCII_PER_TOKEN)
    return ascii_tokens + math.ceil(additional / _OTHER_BYTES_PER_TOKEN)


def count_request(body: bytes, count: Count = estimate_tokens) -> int:
    """Count the tokens of a request in any dialect."""
    fields = parse(body)
    if not isinstance(fields, dict):
        return 0
    items = sum(
        ITEM_TOKENS + sum(_count_texts(item, count))
        for name in _CONVERSATION
        for item in _as_list(fields.get(name))
    )
    # The model receives declarations as JSON.
    declarations = sum(
        ITEM_TOKENS + count(_ENCODER.encode(declaration).decode())
        for name in _DECLARATIONS
        for declaration in _as_list(fields.get(name))
    )
    return items + declarations


def _as_list(value: Json) -> list[Json]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _count_texts(value: Json, count: Count) -> Iterator[int]:
    match value:
        case str():
            yield count(value)
        case list():
            for element in value:
                yield from _count_texts(element, count)
        case dict():
            for name, field in value.items():
                if name in _MEDIA and field is not None:
                    yield MEDIA_TOKENS
                elif name not in _SKIPPED:
                    yield from _count_texts(field, count)
        case _:
            return
