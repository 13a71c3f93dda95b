"""Counts the tokens of a request here: with a tokeniser if one is at hand, else by an estimate.

The tokeniser is OpenAI's, an extra (`pip install "dragoman[tokens]"`). It would fetch its words
over the network when it is first used; a request must not wait for that, so it is used only if
they are there already: in `TIKTOKEN_CACHE_DIR`, or where it keeps them by default.
"""

import asyncio
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from gateway.token_counting.estimate import Count, count_request, estimate_tokens

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
