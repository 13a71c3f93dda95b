"""Input files: their form, their compression and their records."""

import gzip
import io
import json
from collections.abc import Callable, Sequence
from itertools import accumulate

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from adapters import InvalidRequestError
from gateway.migration.data import input as migration_input
from gateway.migration.data.input import Form, Input, Place

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip of two members": lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:]),
    "zstd": zstandard.compress,
    "zstd of two frames": lambda data: zstandard.compress(data[:5]) + zstandard.compress(data[5:]),
}


def read(data: bytes, name: str = "data") -> tuple[Form, list[tuple[Place, bytes]]]:
    given_input = Input(io.BytesIO(data), name)
    records = [
        (place, record)
        for batch in given_input.batches()
        for place, record in zip(batch.places(), batch.records, strict=False)
        if record.strip()
    ]
    assert given_input.position == len(data)
    return given_input.form, records


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_of_a_compressed_file(compression: str) -> None:
    compressed = COMPRESSIONS[compression](b'{"a":1}\n\n{"a":2}\n')
    assert read(compressed) == (
        "lines",
        [(Place(1), b'{"a":1}'), (Place(3), b'{"a":2}')],
    )


@pytest.mark.parametrize(
    ("data", "name", "form"),
    [
        (b'{"a":1}\n{"a":2}', "data.json", "lines"),
        (b'{"a":1}', "data.json", "lines"),
        (b'\xef\xbb\xbf {\n"a":1\n}\n', "data.json", "value"),
        (b'{"a":1', "data.json", "value"),
        (b'{"a":1', "data.jsonl.gz", "lines"),
        (b'[{"name":"f"}]', "data.json", "array"),
        (b'[{"name":"f"}]\n[{"name":"g"}]', "data.NDJSON", "lines"),
        (b'[{"role":"user"}]', "data.json", "value"),
        (b'[{"object":"thread.message"}]', "data.json", "value"),
        (b'[{"object":"chat.completion"}]', "data.json", "array"),
        (b"[]", "data.json", "array"),
        (b"", "data.json", "value"),
    ],
)
def test_form_is_detected(data: bytes, name: str, form: Form) -> None:
    assert read(data, name)[0] == form


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    elements=st.lists(JSON.map(lambda value: {"value": value}), max_size=6),
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 40),
    ascii_only=st.booleans(),
)
def test_array_is_split_into_its_elements(
    elements: Sequence[object], indent: int | None, size: int, *, ascii_only: bool
) -> None:
    text = json.dumps(elements, indent=indent, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration_input, "_READ_BYTES", size)
        patch.setattr(migration_input, "_BATCH_BYTES", size)
        form, records = read(text)
    assert form == "array"
    assert [json.loads(record) for _, record in records] == elements
    lines = accumulate((record.count(b"\n") + (indent or 0) for _, record in records), initial=1)
    places = [Place(line + (indent or 0), at) for at, line in enumerate(lines, 1)]
    assert [place for place, _ in records] == places[:-1]


@given(
    lines=st.lists(JSON.map(lambda value: json.dumps({"value": value}).encode()), min_size=1),
    size=st.integers(1, 40),
)
def test_lines_keep_their_numbers(lines: Sequence[bytes], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration_input, "_READ_BYTES", size)
        patch.setattr(migration_input, "_BATCH_BYTES", size)
        assert read(b"\n\n".join(lines)) == (
            "lines",
            [*zip(map(Place, range(1, 2 * len(lines), 2)), lines, strict=True)],
        )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[{"a":1},', "the array has no end; the file may be truncated"),
        (b'[{"a":"', "the array has no end; the file may be truncated"),
        (b'[{"a":1}] {}', "the array is followed by other text"),
        (gzip.compress(b"[]" * 99, mtime=0)[:-5], "the input cannot be decompressed"),
        (gzip.compress(b"[]" * 99, mtime=0)[:5] + b"x" * 20, "the input cannot be decompressed"),
        (zstandard.compress(b"[]" * 99)[:-3], "the input cannot be decompressed"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 20, "the input cannot be decompressed"),
    ],
)
def test_broken_file_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        read(data)
