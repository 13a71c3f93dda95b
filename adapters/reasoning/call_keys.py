"""The keys under which the reasoning before calls is stored."""

from collections.abc import Iterable

from msgspec import Struct

from adapters.ids import short_call_id, stable_hash
from adapters.ir.types import Item, Message, Text, ToolCall
from adapters.reasoning.sealed import call_fingerprint

# The keys of a call by its identity, because a call may occur twice.
KeysByCall = dict[int, tuple[str, ...]]


class CallKeys(Struct, eq=False):
    """Makes keys for the calls of a conversation, in their order.

    The id, name and arguments of a call are not unique: some servers number the calls of each
    conversation from zero. So a key also depends on the latest message of the user, and on the
    number of equal calls after that message; without ids, on that in the whole conversation.
    """

    # Whether keys depend on the ids of calls alone, because they are made before the arguments are
    # known.
    by_id: bool = False
    # Whether the client has the ids of calls.
    has_ids: bool = True
    # The hash of the latest message of the user; None if the conversation is not known.
    _user: str | None = None
    _equal: dict[str, int] = {}

    def read(self, items: Iterable[Item]) -> KeysByCall:
        """Return the keys of all calls in a conversation."""
        keys: KeysByCall = {}
        self._user, self._equal = "", {}
        user: Message | None = None
        for item in items:
            if isinstance(item, ToolCall):
                if user is not None:
                    self._begin_round(user)
                    user = None
                keys[id(item)] = self.keys(item)
            elif isinstance(item, Message) and item.role == "user":
                user = item
        if user is not None:
            self._begin_round(user)
        return keys

    def _begin_round(self, user: Message) -> None:
        texts = (part.text for part in user.content if isinstance(part, Text))
        self._user = stable_hash(*texts)
        if self.has_ids:
            self._equal = {}

    def id_of(self, call: ToolCall) -> str:
        """Return the id by which a client returns a call; "" if it returns none."""
        return short_call_id(call.call_id) if self.has_ids else ""

    def keys(self, call: ToolCall) -> tuple[str, ...]:
        """Return the keys of the next call, the most specific one first.

        The last one is that of a reply to a request which was not read. It does not identify a
        call without an id.
        """
        fingerprint = call.call_id if self.by_id else call_fingerprint(call, self.id_of(call))
        if self._user is None:
            return (fingerprint,)
        number = self._equal.get(fingerprint, 0)
        self._equal[fingerprint] = number + 1
        key = stable_hash(fingerprint, self._user, str(number))
        return (key, fingerprint) if self.has_ids else (key,)
