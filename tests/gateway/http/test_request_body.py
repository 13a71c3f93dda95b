import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] # it has no types
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from adapters import InvalidRequestError
from gateway.errors import RequestTooLargeError, UnsupportedEncodingError
from gateway.http.request_body import decompress


def _raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


def _brotli(data: bytes) -> bytes:
    return bytes(brotli.compress(data))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] # it has no types


Compressor = Callable[[bytes], bytes]
COMPRESSORS: dict[str, Compressor] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": _brotli,
    "zstd": zstandard.compress,
}
# The value of the header and the compressor.
ENCODINGS: dict[str, tuple[str, Compressor]] = {
    **{encoding: (encoding, compress) for encoding, compress in COMPRESSORS.items()},
    "x-gzip": ("X-GZIP", gzip.compress),
    "deflate without a header": ("deflate", _raw_deflate),
    "zstd without the size": (
        "zstd",
        lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    ),
}
every_encoding = pytest.mark.parametrize(
    ("encoding", "compress"), ENCODINGS.values(), ids=ENCODINGS
)
LIMIT = 1024 * 1024


@every_encoding
@given(body=st.binary(max_size=2000))
@example(body=bytes(range(256)) * 4000)
def test_decompressed_body_is_the_original(
    encoding: str, compress: Compressor, body: bytes
) -> None:
    assert decompress(compress(body), encoding, LIMIT) == body


@every_encoding
def test_body_that_becomes_too_large_is_rejected(encoding: str, compress: Compressor) -> None:
    bomb = compress(bytes(8 * LIMIT))
    with pytest.raises(RequestTooLargeError, match="exceeds 1048576 bytes"):
        decompress(bomb, encoding, LIMIT)


@every_encoding
def test_cut_body_is_rejected(encoding: str, compress: Compressor) -> None:
    body = b"a sentence that is long enough to be cut somewhere" * 20
    whole = compress(body)
    half = whole[: len(whole) // 2]
    if encoding == "zstd":
        # zstandard returns the part that it has; the JSON decoder rejects it.
        assert body.startswith(decompress(half, encoding, LIMIT))
        return
    with pytest.raises(InvalidRequestError):
        decompress(half, encoding, LIMIT)


@pytest.mark.parametrize("encoding", [encoding for encoding, _ in ENCODINGS.values()])
def test_uncompressed_body_is_rejected(encoding: str) -> None:
    with pytest.raises(InvalidRequestError, match="the body is not"):
        decompress(b'{"model": "x"}', encoding, LIMIT)


GZIPPED_BRACES = (gzip.compress(b"{"), gzip.compress(b"}"))


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (zstandard.compress(gzip.compress(b"{}")), "gzip, zstd"),
        (b"{}", "identity"),
        (b"".join(GZIPPED_BRACES), "gzip"),
        (bytes(40_000).join([*GZIPPED_BRACES, b""]), "gzip"),
        # The time must be linear.
        (gzip.compress(b"") * 100_000 + gzip.compress(b"{}"), "gzip"),
    ],
    ids=["two encodings", "identity", "two members", "padded members", "many members"],
)
def test_encodings_and_members_of_a_body(body: bytes, encoding: str) -> None:
    assert decompress(body, encoding, LIMIT) == b"{}"


def test_unknown_encoding_is_named() -> None:
    known = "must be one of gzip, x-gzip, deflate, br, zstd, not 'lzma'"
    with pytest.raises(UnsupportedEncodingError, match=known) as caught:
        decompress(b"", "lzma", LIMIT)
    assert caught.value.status == 415
