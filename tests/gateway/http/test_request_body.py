import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] # it has no types
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from adapters import InvalidRequestError
from gateway.errors import RequestTooLargeError, UnsupportedEncodingError
from gateway.http.request_body import decompress


def _raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


def _brotli(data: bytes) -> bytes:
    return bytes(brotli.compress(data))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] # it has no types


COMPRESSORS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "deflate with a zlib header": ("deflate", zlib.compress),
    "deflate without": ("deflate", _raw_deflate),
    "br": ("br", _brotli),
    "zstd": ("zstd", zstandard.compress),
    "zstd without its size": (
        "zstd",
        lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    ),
}
each = pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS.values(), ids=COMPRESSORS)
LIMIT = 1024 * 1024


@each
@given(body=st.binary(max_size=2000))
def test_what_was_compressed_comes_out_as_it_was(
    encoding: str, compress: Callable[[bytes], bytes], body: bytes
) -> None:
    assert decompress(compress(body), encoding, LIMIT) == body


@each
def test_a_body_of_many_steps_is_whole(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    body = bytes(range(256)) * 4000
    assert decompress(compress(body), encoding, LIMIT) == body


@each
def test_a_small_body_that_would_become_a_huge_one_is_refused(
    encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    bomb = compress(bytes(8 * LIMIT))
    with pytest.raises(RequestTooLargeError, match="exceeds 1048576 bytes"):
        decompress(bomb, encoding, LIMIT)


@each
def test_a_body_that_is_cut_off_is_refused(
    encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    body = b"a sentence that is long enough to be cut somewhere" * 20
    whole = compress(body)
    half = whole[: len(whole) // 2]
    if encoding == "zstd":
        # Its reader gives what there is; that it is half a JSON text is found by who reads it.
        assert body.startswith(decompress(half, encoding, LIMIT))
        return
    with pytest.raises(InvalidRequestError):
        decompress(half, encoding, LIMIT)


@each
def test_what_is_not_compressed_at_all_is_refused(
    encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    del compress
    with pytest.raises(InvalidRequestError, match="the body is not"):
        decompress(b'{"model": "x"}', encoding, LIMIT)


def test_encodings_are_undone_from_the_last() -> None:
    body = zstandard.compress(gzip.compress(b"{}"))
    assert decompress(body, "gzip, zstd", LIMIT) == b"{}"
    assert decompress(b"{}", "identity", LIMIT) == b"{}"


def test_gzip_in_several_members_is_one_body() -> None:
    assert decompress(gzip.compress(b"{") + gzip.compress(b"}"), "gzip", LIMIT) == b"{}"


def test_gzip_in_very_many_members_is_read_as_fast_as_it_is_long() -> None:
    members = gzip.compress(b"") * 100_000 + gzip.compress(b"{}")
    assert decompress(members, "gzip", LIMIT) == b"{}"


def test_gzip_may_be_padded_with_zeros() -> None:
    padded = gzip.compress(b"{") + bytes(40_000) + gzip.compress(b"}") + bytes(40_000)
    assert decompress(padded, "gzip", LIMIT) == b"{}"


def test_an_encoding_that_nobody_knows_is_named() -> None:
    known = "must be one of gzip, x-gzip, deflate, br, zstd, not 'lzma'"
    with pytest.raises(UnsupportedEncodingError, match=known):
        decompress(b"", "lzma", LIMIT)
