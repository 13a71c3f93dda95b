"""Cassettes and HAR files that are converted to recordings."""

import json
from base64 import b64encode
from gzip import compress
from pathlib import Path
from typing import Any

import pytest

from gateway.recording.format import Recording, find_recordings, read_recording
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.cli import command_line as cli
from tests.gateway.recording.replays import question, question_in

SECRET = "sk-proj-0123456789abcdefghijklmn"  # noqa: S105 - an example
URL = "https://api.openai.com/v1"
REPLY = reply_body("chat", Turn("Hello!"))
STREAM = b"".join(stream_events("responses", Turn("Hello!")))

CASSETTE = f"""\
version: 1
interactions:
- request:
    body: '{json.dumps(question("My key is " + SECRET))}'
    headers:
      authorization: ['Bearer {SECRET}']
      content-type: [application/json]
    method: POST
    uri: {URL}/chat/completions
  response:
    body:
      string: |-
        {REPLY.decode()}
    headers:
      Content-Type: [application/json]
      Set-Cookie: [session={SECRET[::-1]}]
    status: {{code: 200, message: OK}}
- request: {{body: null, headers: {{}}, method: GET, uri: {URL}/models}}
  response: {{body: {{string: '{{}}'}}, headers: {{}}, status: {{code: 200, message: OK}}}}
"""


def imported(folder: Path, content: str | bytes | object, name: str = "file.yaml") -> Recording:
    """Import a file with one exchange, and return its recording."""
    file, output = folder / name, folder / "imported"
    if isinstance(content, str | bytes):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    else:
        file.write_text(json.dumps(content))
    result = cli.run(f"import {file} --output {output}")
    assert result.exit_code == 0, result.stderr
    [found] = find_recordings(output)
    return read_recording(found)


def interaction(response: dict[str, object], request: object = None) -> dict[str, object]:
    body = json.dumps(question("Hi")) if request is None else request
    sent: dict[str, object] = {
        "body": body,
        "headers": {},
        "method": "POST",
        "uri": f"{URL}/chat/completions",
    }
    headers = {"content-type": ["application/json"]}
    status = {"code": 200, "message": "OK"}
    return {"request": sent, "response": {"headers": headers, "status": status, **response}}


def bodies(recording: Recording) -> dict[str, bytes]:
    return {name: body.data for name, body in recording.bodies.items()}


def test_cassette_in_yaml_becomes_a_recording(tmp_path: Path) -> None:
    recording = imported(tmp_path, CASSETTE)
    request = json.dumps(question("My key is [redacted:1]")).encode()
    assert bodies(recording) == {
        "client-request": request,
        "backend-request": request,
        "backend-reply": REPLY,
        "client-reply": REPLY,
    }
    [call] = recording.exchange.calls
    assert (call.backend, call.dialect, call.status) == ("api.openai.com", "chat", 200)
    assert recording.exchange.client.path == "/v1/chat/completions"


def test_secrets_of_a_cassette_are_not_written(tmp_path: Path) -> None:
    imported(tmp_path, CASSETTE)
    for file in (tmp_path / "imported").rglob("*.*"):
        if file.is_file():
            assert SECRET not in file.read_text()
            assert SECRET[::-1] not in file.read_text()


def test_other_requests_are_counted(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(CASSETTE)
    result = cli.run(f"import {tmp_path}/file.yaml --output {tmp_path}/imported")
    assert result.stdout == f"1 recording written to {tmp_path}/imported\n"
    assert result.stderr == "skipped: GET api.openai.com/v1/models\n"


GZIP = {"content-encoding": ["gzip"], "content-type": ["application/json"]}
FORMS: dict[str, dict[str, object]] = {
    "text": {"body": {"string": REPLY.decode()}},
    "plain text": {"body": REPLY.decode()},
    "base64": {"body": {"base64_string": b64encode(REPLY).decode()}},
    "compressed": {
        "body": {"base64_string": b64encode(compress(REPLY)).decode()},
        "headers": GZIP,
    },
    "decompressed before": {"body": {"string": REPLY.decode()}, "headers": GZIP},
    "httpx": {"content": REPLY.decode(), "status_code": 200, "status": None},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", ["interactions", "http_interactions", None])
def test_each_form_of_a_body_is_read(tmp_path: Path, form: str, version: str | None) -> None:
    response = {name: value for name, value in FORMS[form].items() if value is not None}
    recorded = interaction(response)
    if FORMS[form].get("status", 0) is None:
        del recorded["response"]["status"]  # type: ignore[attr-defined]  # it is a dict
    content = [recorded] if version is None else {version: [recorded], "version": 1}
    recording = imported(tmp_path, content, "file.json")
    assert bodies(recording)["backend-reply"] == REPLY
    assert recording.exchange.calls[0].status == 200


def test_binary_body_in_yaml_is_read(tmp_path: Path) -> None:
    recorded = CASSETTE.replace(
        f"string: |-\n        {REPLY.decode()}",
        f"string: !!binary {b64encode(compress(REPLY)).decode()}",
    ).replace("Content-Type:", "Content-Encoding: [gzip]\n      Content-Type:")
    recording = imported(tmp_path, recorded)
    assert bodies(recording)["backend-reply"] == REPLY
    assert "content-encoding" not in recording.exchange.calls[0].reply_headers


def test_parsed_bodies_are_read(tmp_path: Path) -> None:
    recorded = interaction({"parsed_body": json.loads(REPLY)})
    request: Any = recorded["request"]
    request["parsed_body"] = question("Hi")
    request["body"] = ""
    recording = imported(tmp_path, {"interactions": [recorded]}, "file.json")
    assert json.loads(bodies(recording)["client-request"]) == question("Hi")
    assert json.loads(bodies(recording)["client-reply"]) == json.loads(REPLY)


def test_model_in_the_path_is_added(tmp_path: Path) -> None:
    request = {name: value for name, value in question("Hi").items() if name != "model"}
    recorded = interaction({"body": {"string": REPLY.decode()}}, json.dumps(request))
    sent: Any = recorded["request"]
    sent["uri"] = (
        "https://x.openai.azure.com/openai/deployments/mine/chat/completions?api-version=1"
    )
    recording = imported(tmp_path, {"interactions": [recorded]}, "file.json")
    assert recording.exchange.model == "mine"
    assert json.loads(bodies(recording)["backend-request"])["model"] == "mine"


# HAR files


def har(content: dict[str, object], **more: object) -> dict[str, object]:
    entry = {
        "startedDateTime": "2026-11-19T05:52:42.123Z",
        "time": 250.5,
        "request": {
            "method": "POST",
            "url": f"{URL}/responses?key={SECRET}",
            "headers": [{"name": "Authorization", "value": f"Bearer {SECRET}"}],
            "postData": {
                "mimeType": "application/json",
                "text": json.dumps(question_in("responses")),
            },
        },
        "response": {
            "status": 200,
            "headers": [
                {"name": "content-type", "value": "text/event-stream"},
                {"name": "content-encoding", "value": "br"},
            ],
            "content": {"mimeType": "text/event-stream", **content},
        },
        "timings": {"blocked": -1, "send": 1, "wait": 99, "receive": 150.5},
        **more,
    }
    return {"log": {"version": "1.2", "creator": {"name": "test"}, "entries": [entry]}}


@pytest.mark.parametrize(
    "content",
    [{"text": STREAM.decode()}, {"text": b64encode(STREAM).decode(), "encoding": "base64"}],
    ids=["text", "base64"],
)
def test_har_file_becomes_a_recording(tmp_path: Path, content: dict[str, object]) -> None:
    recording = imported(tmp_path, har(content), "session.har")
    assert bodies(recording)["backend-reply"] == STREAM
    assert recording.exchange.time == "2026-11-19T05:52:42.123Z"
    [call] = recording.exchange.calls
    assert (call.dialect, call.reads) == ("responses", ((250.5, len(STREAM)),))
    files = (tmp_path / "imported").rglob("*.json")
    assert not any(SECRET in file.read_text() for file in files)


def test_events_of_chrome_become_a_stream_with_its_pace(tmp_path: Path) -> None:
    events = [
        {"time": 1000 + number / 2, "eventName": "message", "eventId": "", "data": data}
        for number, data in enumerate(['{"type":"a"}', '{"type":"b"}'])
    ]
    recording = imported(tmp_path, har({"size": 0}, _eventSourceMessages=events), "session.har")
    assert bodies(recording)["backend-reply"] == b'data: {"type":"a"}\n\ndata: {"type":"b"}\n\n'
    assert recording.exchange.calls[0].reads == ((100, 20), (600, 20))


def test_failed_request_has_no_reply(tmp_path: Path) -> None:
    recorded = har({})
    recorded["log"]["entries"][0]["response"] = {"status": 0, "headers": [], "content": {}}  # type: ignore[index]  # it is a dict
    [call] = imported(tmp_path, recorded, "session.har").exchange.calls
    assert (call.status, call.error) == (None, "no response was recorded")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it has neither `interactions` nor `log.entries`"),
        ("{}", "it has neither `interactions` nor `log.entries`"),
        ("{", "it is neither JSON nor YAML: "),
        ("a: [", "it is neither JSON nor YAML: "),
        ("interactions: [1]", "an interaction has no request"),
        ('{"log": {"entries": [1]}}', "an entry has no request"),
        ("interactions: !!python/object:a.B {}", "it is neither JSON nor YAML: "),
        (
            "interactions: [{request: {method: GET}, response: {body: {base64_string: '%'}}}]",
            "a body is not valid base64",
        ),
    ],
)
def test_other_files_are_rejected(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(content)
    error = cli.error_of(cli.run(f"import {file} --output {tmp_path}/imported"))
    assert error.startswith(f"dragoman: cannot import {file}: {message}")


def test_request_with_an_invalid_url_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("interactions: [{request: {method: POST, uri: 'http://['}}]")
    result = cli.run(f"import {file} --output {tmp_path}/imported")
    assert (result.exit_code, result.stderr) == (0, "skipped: POST http://[\n")


def test_recordings_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(CASSETTE)
    command = f"import {tmp_path}/file.yaml --output {tmp_path}/imported"
    assert cli.run(command).exit_code == 0
    result = cli.run(command)
    assert result.exit_code == 1
    assert "exists; remove it or choose another folder" in cli.one_line(result.stderr)
