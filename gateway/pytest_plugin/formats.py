"""The text of snapshots: translated JSON and streams with their losses."""

from collections.abc import Iterable

import msgspec

from adapters import Loss


def format_json(value: object) -> str:
    """Return indented JSON with its keys in the given order."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def format_stream(stream: bytes, losses: Iterable[Loss]) -> str:
    """Return a stream as its client receives it, with the losses in comment lines before it."""
    head = "".join(f": lost {line}\n" for line in format_losses(losses))
    return head + ("\n" if head else "") + stream.decode()


def format_losses(losses: Iterable[Loss]) -> list[str]:
    """Return a line for each loss, with its severity."""
    return [f"{loss} ({loss.severity})" for loss in losses]
