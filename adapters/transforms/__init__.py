"""Transforms: changes to requests and replies by users of Dragoman.

`Transform` is the extension point; `RenameTools`, `AddSystemMessage` and `RedactText` are ready to
use. docs/transforms.md describes how to write one.
"""

from adapters.transforms.add_system_message import AddSystemMessage
from adapters.transforms.item_transform import ItemTransform
from adapters.transforms.redact_text import RedactText
from adapters.transforms.rename_tools import RenameTools
from adapters.transforms.transform import EventTransform, Transform, TransformLosses

__all__ = [
    "AddSystemMessage",
    "EventTransform",
    "ItemTransform",
    "RedactText",
    "RenameTools",
    "Transform",
    "TransformLosses",
]
