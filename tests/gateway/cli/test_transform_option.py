"""`dragoman translate --transform`."""

import json

import pytest

from tests.gateway.cli import command_line as cli

SYSTEM = """--transform 'adapters.transforms:AddSystemMessage={"text": "Be brief."}'"""
REDACT = """--transform 'adapters.transforms:RedactText={"patterns": ["[Hh]i"]}'"""
FAIL = """--transform 'tests.gateway.sample_transforms:Fail={"at": "%s"}'"""
CHAT = "--from chat --to chat"


def test_request_is_changed() -> None:
    result = cli.translate(f"{CHAT} {SYSTEM} {REDACT}", cli.REQUEST)
    texts = [message["content"] for message in json.loads(result.stdout)["messages"]]
    assert texts == ["Be brief.", "[redacted]"]
    assert result.stderr.splitlines() == [
        "invented messages: AddSystemMessage: a system message was added",
        "changed messages[0]: RedactText: text was redacted",
    ]


@pytest.mark.parametrize("kind", ["reply", "stream"])
def test_reply_is_changed(kind: str) -> None:
    body = {"reply": cli.REPLY, "stream": cli.STREAM}[kind]
    result = cli.translate(f"{CHAT} {REDACT} --kind {kind}", body)
    assert "[redacted]" in result.stdout
    assert "hi" not in result.stdout.lower().replace("this", "").replace("which", "")
    assert "changed choices[0].message: RedactText: text was redacted" in result.stderr


@pytest.mark.parametrize(
    ("at", "body"), [("request", cli.REQUEST), ("start", cli.REPLY), ("start", cli.STREAM)]
)
def test_fault_is_printed_with_its_traceback(at: str, body: bytes) -> None:
    result = cli.translate(f"{CHAT} {FAIL % at}", body)
    assert result.exit_code == 1
    assert "sample_transforms.py" in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last == "dragoman: the transform Fail failed: raised KeyError"


@pytest.mark.parametrize(
    ("transform", "error"),
    [
        ("shop", 'use: expected the path of a class, "package.module:Class", got "shop"'),
        ("no_such:Shop", "no_such:Shop: cannot import no_such: No module named"),
        ("adapters.transforms:RedactText", "options.patterns: key is required; expected an array"),
        ("adapters.transforms:RedactText={", "must be a JSON object"),
        ("adapters.transforms:RedactText=[]", "options: expected a table, got an array"),
    ],
)
def test_invalid_transform_is_rejected(transform: str, error: str) -> None:
    result = cli.run(f"translate {CHAT} --transform {transform}", cli.REQUEST)
    assert result.exit_code == 2
    words = " ".join(result.stderr.replace("│", " ").split())
    assert error in words
