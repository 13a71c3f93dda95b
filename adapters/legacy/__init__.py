"""Legacy functions: `functions`, `function_call`, `role: function`, one call per reply.

Legacy and Chat have the same endpoint, and clients and servers mix them. So the readers of
`adapters.chat` read both, and only the writers differ.
"""

from dataclasses import replace
from functools import partial

from adapters.chat import CHAT
from adapters.chat.conformance import check_legacy_stream
from adapters.chat.reply_repair import check_reply
from adapters.chat.request_reader import is_legacy
from adapters.chat.stream_reader import StreamReader
from adapters.chat.wire import LOSS_NAMES
from adapters.dialect import no_call_ids
from adapters.legacy.reply_writer import write_reply, write_stream
from adapters.legacy.request_writer import NAMES, supports_tool, write_request

LEGACY = replace(
    CHAT,
    name="legacy",
    matches=is_legacy,
    names=NAMES,
    loss_names=LOSS_NAMES | NAMES,
    has_call_ids=False,
    predates_tools=True,
    nests_tools=False,
    has_strict=False,
    supports_tool=supports_tool,
    call_kinds=frozenset(("function",)),
    find_call_ids=no_call_ids,
    write_request=write_request,
    write_reply=write_reply,
    read_stream=partial(StreamReader, style="functions"),
    write_stream=write_stream,
    check_stream=check_legacy_stream,
    check_reply=partial(check_reply, style="functions"),
)
