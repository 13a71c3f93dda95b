"""Writes content parts for Chat."""

from msgspec import Raw

from adapters.ir.types import Audio, File, Image, OtherPart, Part, Refusal, Text
from adapters.losses import Losses
from adapters.wire.extra_fields import ExtrasWriter

Wire = dict[str, object]

# Between texts that become one and must not run together.
TEXT_SEPARATOR = "\n\n"


def is_media(part: Part) -> bool:
    """Tell whether the part is something that a tool message cannot hold."""
    return isinstance(part, Image | File | Audio)


def is_plain(content: tuple[Part, ...]) -> bool:
    """Tell whether the content is just one text, which every server takes as a string."""
    if len(content) != 1:
        return False
    part = content[0]
    if not isinstance(part, Text) or part.cache_breakpoint is not None:
        return False
    return not any(extra.family == "completions" for extra in part.extras)


class PartWriter:
    """Writes parts, and reports what they cannot keep."""

    def __init__(
        self, label: str, carrier: ExtrasWriter, losses: Losses, *, text_parts: bool = True
    ) -> None:
        self._label = label
        # Whether text may come as a list of parts.
        self._text_parts = text_parts
        self._carrier = carrier
        self._losses = losses

    def write_content(self, content: tuple[Part, ...], path: str) -> str | list[Wire | Raw]:
        """Write the content of a message."""
        if not content:
            return ""
        if is_plain(content) and isinstance(content[0], Text):
            self._carrier.report_dropped(content[0].extras, f"{path}[0]")
            return content[0].text
        if not self._text_parts and all(isinstance(part, Text) for part in content):
            return self._joined(content, path)
        written = [self.write(part, f"{path}[{number}]") for number, part in enumerate(content)]
        return [wire for wire in written if wire is not None]

    def _joined(self, content: tuple[Part, ...], path: str) -> str:
        """Make one string of several texts, and say what it cannot keep."""
        texts = [part for part in content if isinstance(part, Text)]
        if len(texts) > 1:
            self._losses.changed(path, "the backend takes a string; the texts are put together")
        for number, text in enumerate(texts):
            self._carrier.report_dropped(text.extras, f"{path}[{number}]")
            if text.cache_breakpoint is not None:
                why = "a string has no breakpoints"
                self._losses.dropped(f"{path}[{number}].prompt_cache_breakpoint", why)
        return TEXT_SEPARATOR.join(text.text for text in texts)

    def write(self, part: Part, path: str) -> Wire | Raw | None:
        """Write one part; None where Chat has no form for it."""
        if isinstance(part, OtherPart) and part.family == "completions":
            return part.value
        wire = self._shape(part, path)
        if wire is None:
            self._losses.dropped(path, f"{self._label} cannot carry this part", "meaning")
            return None
        if isinstance(part, Text | Image | File | Audio):
            if part.cache_breakpoint is not None:
                wire["prompt_cache_breakpoint"] = part.cache_breakpoint
            self._carrier.carry(part.extras, wire, path)
        return wire

    def _shape(self, part: Part, path: str) -> Wire | None:
        """Give the part's own shape, or None where Chat has none for it."""
        match part:
            case Text() | Refusal():
                return {"type": "text", "text": part.text}
            case Image(url=str(url)):
                detail = {"detail": part.detail} if part.detail else {}
                return {"type": "image_url", "image_url": {"url": url} | detail}
            case File(url=None):
                return self._shape_file(part, path)
            case Audio():
                inner = {"data": part.data, "format": part.format}
                return {"type": "input_audio", "input_audio": inner}
            case _:
                return None

    def _shape_file(self, part: File, path: str) -> Wire:
        if part.detail:
            self._losses.dropped(f"{path}.detail", f"{self._label} has no detail of files")
        names = {"file_data": part.data, "file_id": part.file_id, "filename": part.filename}
        return {"type": "file", "file": {k: v for k, v in names.items() if v is not None}}
