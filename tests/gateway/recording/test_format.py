import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import Loss, Violation
from gateway.recording.format import (
    BackendCall,
    Body,
    BodyInfo,
    Client,
    Exchange,
    Recording,
    RecordingError,
    find_recordings,
    make_body,
    read_recording,
    recording_files,
    recording_name,
    write_recording,
)

REQUEST = b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}'
STREAM = b'data: {"id":"c"}\n\ndata: [DONE]\n\n'
EXCHANGE = Exchange(
    1,
    id="3f2a9c01",
    time="2026-11-19T05:52:42.123Z",
    model="org/model",
    losses=(Loss("dropped", "seed", "the Responses API does not support this field"),),
    client=Client("chat", path="/v1/chat/completions", status=200),
    calls=(
        BackendCall("a", "chat", "m", status=503, reads=((1.5, 33),)),
        BackendCall(
            "b",
            "chat",
            profile="vllm",
            capabilities={"developer_role": True},
            status=200,
            violations=(Violation(1, "id is missing"),),
        ),
    ),
)
RECORDING = Recording(
    EXCHANGE,
    {
        "client-request": make_body(REQUEST),
        "client-reply": make_body(STREAM),
        "backend-request": make_body(REQUEST),
        "backend-reply": make_body(b"busy"),
        "backend-request-2": make_body(b'{"model": "m", "messages": []}'),
        "backend-reply-2": make_body(STREAM),
    },
)


def write(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem.replace('_', '-')}.{suffix}").write_bytes(data)
    return folder


def test_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_recording(tmp_path / "one", RECORDING)
    read = read_recording(tmp_path / "one")
    assert read.bodies == RECORDING.bodies
    infos = {"client-request": BodyInfo("compact"), "backend-request": BodyInfo("compact")}
    infos |= {"backend-request-2": BodyInfo("spaced")}
    assert read.exchange == msgspec.structs.replace(EXCHANGE, bodies=infos)


def test_files_are_readable_lines_that_end_with_a_line_break() -> None:
    files = recording_files(RECORDING)
    assert sorted(files) == [
        "backend-reply-2.sse",
        "backend-reply.txt",
        "backend-request-2.json",
        "backend-request.json",
        "client-reply.sse",
        "client-request.json",
        "exchange.json",
    ]
    assert files["client-request.json"].startswith(b'{\n  "model": "m",\n  "messages": [\n')
    assert files["client-request.json"].endswith(b"}\n")
    assert files["exchange.json"].startswith(b'{\n  "format": 1,\n  "id": "3f2a9c01",\n')
    assert b"\n        [1.5, 33]\n" in files["exchange.json"]
    assert recording_files(RECORDING) == files


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
bodies = st.one_of(
    st.binary(min_size=1),
    json_values.map(msgspec.json.encode),
    json_values.map(lambda value: msgspec.json.format(msgspec.json.encode(value), indent=0)),
    json_values.map(lambda value: msgspec.json.format(msgspec.json.encode(value), indent=2)),
    st.sampled_from(
        [b'{"a":"\xff"}', b'{"a":1.0e5,"b":"\\u00e9\\/"}', b'{"a":1}\n', b"\xef\xbb\xbf{}", b'{"a"']
    ),
)


@given(bodies)
def test_every_body_survives_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("recordings") / "one"
    exchange = Exchange(1, client=Client("chat"))
    write_recording(folder, Recording(exchange, {"client-request": make_body(data)}))
    body = read_recording(folder).client_request
    assert body is not None
    assert body.data == data


def test_only_the_owner_can_read_a_recording(tmp_path: Path) -> None:
    write_recording(tmp_path / "recordings" / "one", RECORDING)
    paths = [tmp_path / "recordings", *(tmp_path / "recordings").rglob("*")]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}


def test_failed_writing_leaves_nothing_behind(tmp_path: Path) -> None:
    write_recording(tmp_path / "one", RECORDING)
    with pytest.raises(OSError, match="one"):
        write_recording(tmp_path / "one", RECORDING)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_body_that_was_left_out_keeps_its_size(tmp_path: Path) -> None:
    left_out = Recording(EXCHANGE, {"client-request": Body(b"", ".txt", omitted_bytes=9_000_000)})
    write_recording(tmp_path / "one", left_out)
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["exchange.json"]
    assert read_recording(tmp_path / "one").bodies == left_out.bodies


def test_request_alone_is_a_recording(tmp_path: Path) -> None:
    read = read_recording(write(tmp_path / "one", client_request_json=b'{"input": "Hi"}\n'))
    assert read.exchange == Exchange(1, client=Client("responses"))
    assert read.bodies == {"client-request": Body(b'{"input": "Hi"}\n', ".json")}


@pytest.mark.parametrize(
    ("request_body", "dialect"),
    [
        (b'{"messages": []}', "chat"),
        (b'{"messages": [], "functions": [{"name": "f"}]}', "legacy"),
        (b'{"input": []}', "responses"),
    ],
)
def test_dialect_is_that_of_the_request(tmp_path: Path, request_body: bytes, dialect: str) -> None:
    folder = write(tmp_path / "one", client_request_json=request_body)
    assert read_recording(folder).exchange.client.dialect == dialect


def test_reply_needs_only_the_dialect_of_its_call(tmp_path: Path) -> None:
    exchange = b'{"format": 1, "calls": [{"dialect": "chat"}]}'
    read = read_recording(write(tmp_path / "one", exchange_json=exchange, backend_reply_sse=STREAM))
    assert read.exchange.calls == (BackendCall(dialect="chat", status=200),)
    assert read.backend_reply() == Body(STREAM, ".sse")


def test_second_call_has_a_number(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", client_request_json=REQUEST, backend_request_2_json=REQUEST)
    read = read_recording(folder)
    assert read.exchange.calls == (BackendCall(), BackendCall(dialect="chat"))
    assert read.backend_request(1) == Body(REQUEST, ".json")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is not a recording"),
        ({"exchange_json": b"{}"}, "exchange.json: format is required; the current one is 1"),
        ({"exchange_json": b'{"format": 2}'}, "format 2 is not supported, only 1; update Dragoman"),
        ({"exchange_json": b'{"format": 1, "modle": ""}'}, "unknown field `modle`"),
        ({"exchange_json": b"nothing"}, "exchange.json: JSON is malformed"),
        ({"exchange_json": b'{"format": "1"}'}, "Expected `int | null`, got `str`"),
        ({"backend_reply_sse": STREAM}, "calls needs a dialect"),
        (
            {"exchange_json": b'{"format": 1, "client": {"dialect": "cha"}}'},
            "dialect must be one of chat, responses, legacy, not 'cha'",
        ),
        (
            {"client_request_json": REQUEST, "client_request_txt": b"Hi"},
            "has several files client-request",
        ),
        (
            {
                "exchange_json": b'{"format":1,"bodies":{"client-request":{"layout":"compact"}}}',
                "client_request_json": b"Hi",
            },
            "is not JSON, but exchange.json has a layout for it",
        ),
    ],
)
def test_invalid_recordings_are_refused(
    tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    with pytest.raises(RecordingError) as raised:
        read_recording(write(tmp_path / "one", **files))
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "one"))


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be read: No such file or directory"):
        read_recording(tmp_path / "none")


def test_recordings_are_found_in_order_at_any_depth(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a", ".c-unfinished"):
        write(tmp_path / name, client_request_json=REQUEST)
    write(tmp_path / "other", notes_txt=b"Hi")
    assert list(find_recordings(tmp_path)) == [tmp_path / "a", tmp_path / "b/1", tmp_path / "b/2"]
    assert list(find_recordings(tmp_path / "a")) == [tmp_path / "a"]
    assert list(find_recordings(tmp_path / "none")) == []


def test_name_has_the_time_the_dialect_the_model_and_the_id() -> None:
    assert recording_name(EXCHANGE) == "20261119T055242.123-chat-org-model-3f2a9c01"
    unsafe = msgspec.structs.replace(EXCHANGE, model="../" + "é" * 99)
    assert recording_name(unsafe) == "20261119T055242.123-chat-3f2a9c01"


def test_format_imports_nothing_of_the_service() -> None:
    code = "import sys, gateway.recording.format; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # noqa: S603 - its own interpreter
    roots = {name.partition(".")[0] for name in run.stdout.decode().split()}
    assert roots - sys.stdlib_module_names >= {"adapters", "gateway", "msgspec"}
    assert not roots & {"asyncio", "litestar", "httpx", "structlog", "uvicorn"}
