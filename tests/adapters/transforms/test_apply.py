"""Transforms in exchanges: their order, what they cost, what they report and how they fail."""

import json
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

import adapters
from adapters import EventTransform, ItemTransform, Request, Transform, TransformLosses
from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Error, FunctionTool, Item, Message, Text
from tests.adapters.transforms.samples import Identity, Uppercase
from tests.exchange import Exchange

T = TypeVar("T")
CHAT = b"""{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "unknown": 1}"""
RESPONSES = b"""{"model": "m", "input": [{"role": "user", "content": "Hi"}],
    "tools": [{"type": "function", "name": "f", "parameters": {}}]}"""
REPLY = b"""{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "x": 1,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"},
    "finish_reason": "stop"}]}"""


def chunk(delta: str, finish: str = "null") -> bytes:
    choice = f'{{"index":0,"delta":{delta},"finish_reason":{finish}}}'
    head = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m"'
    return f'data: {{{head},"choices":[{choice}]}}\n\n'.encode()


STREAM = [
    chunk('{"role":"assistant","content":""}'),
    chunk('{"content":"Hel"}'),
    chunk('{"content":"lo"}'),
    chunk("{}", '"stop"'),
    b"data: [DONE]\n\n",
]


def translate(body: bytes, *transforms: Transform, **options: Any) -> adapters.BackendRequest:
    client = "responses" if body is RESPONSES else "chat"
    return adapters.translate_request(
        body, client=client, backend="chat", transforms=transforms, **options
    )


class AddWord(Transform, frozen=True):
    """Adds a word to each text of both directions."""

    word: str

    def request(self, request: Request, losses: TransformLosses) -> Request:
        losses.changed("items", f"added {self.word}")
        return replace(request, items=tuple([_with(item, self.word) for item in request.items]))

    def reply(self, losses: TransformLosses) -> EventTransform:
        return _AddedWord(self.word, losses)


def _with(item: Item, word: str) -> Item:
    assert isinstance(item, Message)
    return replace(item, content=(*item.content, Text(f" {word}")))


class _AddedWord(ItemTransform):
    def __init__(self, word: str, losses: TransformLosses) -> None:
        super().__init__()
        self._word = word
        self._losses = losses

    def item(self, item: Item) -> list[Item]:
        assert isinstance(item, Message)
        self._losses.changed(item.path, f"added {self._word}")
        return [_with(item, self._word)]


# Order and losses


def text_of(body: bytes) -> str:
    text: str = json.loads(body)["choices"][0]["message"]["content"]
    return text


def test_requests_pass_transforms_in_order_and_replies_in_reverse() -> None:
    sent = translate(CHAT, AddWord("one"), AddWord("two"))
    [message] = json.loads(sent.body)["messages"]
    assert "".join(part["text"] for part in message["content"]) == "Hi one two"
    assert text_of(adapters.translate_reply(REPLY, sent).body) == "Hello two one"


def test_losses_begin_with_the_name_of_the_transform() -> None:
    sent = translate(RESPONSES, AddWord("one"))
    assert adapters.Loss("changed", "input", "AddWord: added one") in sent.losses
    reply = adapters.translate_reply(REPLY, sent)
    assert adapters.Loss("changed", "output[0]", "AddWord: added one") in reply.losses


def test_policy_applies_to_losses_of_transforms() -> None:
    class Drop(Transform, frozen=True):
        def request(self, request: Request, losses: TransformLosses) -> Request:
            losses.dropped("temperature", "always 1", "capability")
            return replace(request, temperature=None)

    assert translate(CHAT, Drop()).losses[0].reason == "Drop: always 1"
    with pytest.raises(adapters.UnsupportedRequestError, match="temperature: Drop: always 1"):
        translate(CHAT, Drop(), policy="refuse")


# The terms of the client


def test_transform_sees_the_tools_of_the_client() -> None:
    seen: list[object] = []

    class Look(Transform, frozen=True):
        def request(self, request: Request, _losses: TransformLosses) -> Request:
            seen.extend(request.tools)
            return request

        def reply(self, _losses: TransformLosses) -> EventTransform:
            return _LookAtCalls()

    class _LookAtCalls(ItemTransform):
        def item(self, item: Item) -> list[Item]:
            seen.append(item)
            return [item]

    body = {"model": "m", "input": "Hi", "tools": [{"type": "custom", "name": "shout"}]}
    sent = adapters.translate_request(
        body, client="responses", backend="chat", capabilities=_NO_CUSTOM, transforms=[Look()]
    )
    function = {"name": "shout", "arguments": '{"input":"hey"}'}
    call = {"id": "c", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    adapters.translate_reply({"id": "1", "model": "m", "choices": [choice]}, sent)
    tool, restored = seen
    assert type(tool).__name__ == "CustomTool"
    assert (getattr(restored, "kind", ""), getattr(restored, "arguments", "")) == ("custom", "hey")


_NO_CUSTOM = replace(adapters.Capabilities(), custom_tools=False)


def test_reply_repeats_the_settings_of_the_client() -> None:
    class Other(Transform, frozen=True):
        def request(self, request: Request, _losses: TransformLosses) -> Request:
            return replace(request, tools=(FunctionTool("g"),), temperature=0.5, effort="low")

    sent = translate(RESPONSES, Other())
    assert json.loads(sent.body)["tools"][0]["function"]["name"] == "g"
    reply = json.loads(adapters.translate_reply(REPLY, sent).body)
    assert [tool["name"] for tool in reply["tools"]] == ["f"]
    assert reply["temperature"] == 1.0


# Paths


Make = Callable[[tuple[Item, ...]], tuple[Item, ...]]


class Items(Transform, frozen=True):
    """Replaces the items of a request by those of a function, which forgets the paths."""

    make: Make

    def request(self, request: Request, _losses: TransformLosses) -> Request:
        return replace(request, items=self.make(request.items))


class Paths(Transform, frozen=True):
    paths: list[str]

    def request(self, request: Request, _losses: TransformLosses) -> Request:
        self.paths.extend(path for _, path in request.items_with_paths())
        return request


TWO = {"model": "m", "messages": [{"role": "user", "content": text} for text in ("a", "b")]}
NEW = Message("user", (Text("new"),))


MADE: list[tuple[Make, list[str]]] = [
    (lambda items: (NEW, *items), ["messages", "messages[0]", "messages[1]"]),
    (lambda items: items[1:], ["messages[1]"]),
    (lambda items: (NEW, items[1]), ["messages[0]", "messages[1]"]),
    (lambda items: items[::-1], ["messages[1]", "messages[0]"]),
]


@pytest.mark.parametrize(("make", "paths"), MADE, ids=["added", "removed", "replaced", "reversed"])
def test_changed_items_keep_the_paths_of_the_client(make: Make, paths: list[str]) -> None:
    seen = Paths([])
    adapters.translate_request(TWO, client="chat", backend="chat", transforms=[Items(make), seen])
    assert seen.paths == paths


def test_given_paths_are_kept() -> None:
    class Own(Transform, frozen=True):
        def request(self, request: Request, _losses: TransformLosses) -> Request:
            return replace(request, items=(NEW,), paths=("messages[7]",))

    seen = Paths([])
    adapters.translate_request(TWO, client="chat", backend="chat", transforms=[Own(), seen])
    assert seen.paths == ["messages[7]"]


def test_errors_of_the_backend_name_the_tools_of_the_client() -> None:
    class AddTool(Transform, frozen=True):
        def request(self, request: Request, _losses: TransformLosses) -> Request:
            return replace(request, tools=(FunctionTool("g"), *request.tools))

    exchange = Exchange("responses", "chat", transforms=(AddTool(),))
    exchange.request(RESPONSES)
    error = b'{"error":{"message":"no","param":"tools[1].function.name"}}'
    assert json.loads(exchange.error(400, error).body)["error"]["param"] == "tools"


# Costs


def test_request_is_forwarded_unchanged_without_transforms() -> None:
    assert translate(CHAT).body == CHAT


def test_transform_of_replies_forwards_the_request_unchanged() -> None:
    class Replies(Transform, frozen=True):
        def reply(self, _losses: TransformLosses) -> EventTransform:
            return _AddedWord("!", _losses)

    sent = translate(CHAT, Replies())
    assert sent.body == CHAT
    assert not sent.reply_plan.passthrough
    assert text_of(adapters.translate_reply(REPLY, sent).body) == "Hello !"


def test_transform_of_requests_forwards_the_reply_unchanged() -> None:
    class Requests(Transform, frozen=True):
        def request(self, request: Request, _losses: TransformLosses) -> Request:
            return replace(request, temperature=0.5)

    sent = translate(CHAT.replace(b'"model"', b'"stream": true, "model"'), Requests())
    assert json.loads(sent.body) == {**json.loads(CHAT), "stream": True, "temperature": 0.5}
    assert sent.reply_plan.passthrough
    stream = adapters.ReplyTranslator(sent.reply_plan, streamed=True)
    assert [stream.feed(frame) for frame in STREAM[:2]] == STREAM[:2]


def test_reasoning_keeps_its_field_within_a_dialect() -> None:
    sent = translate(CHAT, Uppercase())
    reply = REPLY.replace(b'"content":', b'"reasoning": "Hm.", "content":')
    message = json.loads(adapters.translate_reply(reply, sent).body)["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("Hm.", "HELLO")
    stream = Exchange("chat", "chat", transforms=(Identity(),)).stream()
    written = [stream.feed(frame) for frame in (STREAM[0], chunk('{"reasoning_content":"Hm."}'))]
    assert b'"reasoning_content":"Hm."' in written[1]


# One exchange


class Count(Transform, frozen=True):
    """Adds a text to a reply that depends on its request."""

    def for_exchange(self) -> Transform:
        return _Counting({})


class _Counting(Transform, frozen=True):
    counts: dict[str, int]

    def request(self, request: Request, _losses: TransformLosses) -> Request:
        self.counts["items"] = self.counts.get("items", 0) + len(request.items)
        return request

    def reply(self, losses: TransformLosses) -> EventTransform:
        return _AddedWord(str(self.counts), losses)


def test_values_of_one_exchange_are_not_shared() -> None:
    count = Count()
    # `Count` itself changes nothing, but its exchanges do.
    for _ in range(2):
        sent = translate(CHAT, count)
        assert text_of(adapters.translate_reply(REPLY, sent).body) == "Hello {'items': 1}"


# Faults


class Broken(Transform, frozen=True):
    method: str

    def for_exchange(self) -> Transform:
        return self._fail("for_exchange", self)

    def request(self, request: Request, _losses: TransformLosses) -> Request:
        return self._fail("request", request)

    def reply(self, _losses: TransformLosses) -> EventTransform:
        return self._fail("reply", EventTransform())

    def _fail(self, method: str, value: T) -> T:
        if self.method == f"exit {method}":
            raise SystemExit
        if self.method == f"cancel {method}":
            raise CancelledError
        if self.method == method:
            raise KeyError("a secret")
        return cast("T", 1) if self.method == f"return {method}" else value


@pytest.mark.parametrize("method", ["for_exchange", "request"])
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("", "raised KeyError"),
        ("exit ", "raised SystemExit"),
        ("cancel ", "raised CancelledError"),
        ("return ", "{} must return a {}"),
    ],
)
def test_fault_in_a_request_is_raised_with_its_cause(method: str, how: str, reason: str) -> None:
    reason = reason.format(method, "Request" if method == "request" else "Transform")
    with pytest.raises(adapters.TransformError) as caught:
        translate(CHAT, Broken(how + method))
    assert str(caught.value) == f"the transform Broken failed: {reason}"
    assert isinstance(caught.value.__cause__, BaseException) == (how != "return ")


def test_stream_cannot_be_changed() -> None:
    class Stream(Transform, frozen=True):
        def request(self, request: Request, _losses: TransformLosses) -> Request:
            return replace(request, stream=True)

    with pytest.raises(adapters.TransformError, match="Stream failed: stream cannot be changed"):
        translate(CHAT, Stream())


WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"items": ["Hi"]}, "str is not an item"),
    ({"items": (None,)}, "NoneType is not an item"),
    ({"tools": ({},)}, "dict is not a tool"),
]


@pytest.mark.parametrize(("values", "reason"), WRONG_TYPES)
def test_values_of_a_request_have_their_types(values: dict[str, Any], reason: str) -> None:
    class Values(Transform, frozen=True):
        def request(self, request: Request, _losses: TransformLosses) -> Request:
            return replace(request, **values)

    with pytest.raises(adapters.TransformError, match=f"Values failed: {reason}"):
        translate(CHAT, Values())


@pytest.mark.parametrize("arguments", [("user", "x", "grave"), (None, "x"), ("user", 1)])
def test_invalid_loss_is_a_fault(arguments: Any) -> None:
    class Lossy(Transform, frozen=True):
        def request(self, request: Request, losses: TransformLosses) -> Request:
            losses.changed(*arguments)
            return request

    with pytest.raises(adapters.TransformError, match=r"raised (Type|Value)Error"):
        translate(CHAT, Lossy())


def test_fault_in_a_whole_reply_is_raised_with_its_cause() -> None:
    sent = translate(CHAT, Identity(), Broken("reply"), Identity())
    with pytest.raises(adapters.TransformError) as caught:
        adapters.translate_reply(REPLY, sent)
    assert str(caught.value) == "the transform Broken failed: raised KeyError"
    assert isinstance(caught.value.__cause__, KeyError)


Change = Callable[[Event], Any]


def test_exchange_can_be_rejected_before_its_request() -> None:
    class Reject(Transform, frozen=True):
        def for_exchange(self) -> Transform:
            raise adapters.InvalidRequestError("model", "is not for you")

    with pytest.raises(adapters.InvalidRequestError, match="model is not for you"):
        translate(CHAT, Reject())


def test_transform_can_leave_a_reply_unchanged() -> None:
    class Nothing(Transform, frozen=True):
        def reply(self, _losses: TransformLosses) -> EventTransform | None:
            return None

    sent = translate(CHAT, Nothing())
    assert text_of(adapters.translate_reply(REPLY, sent).body) == "Hello"


class Events(Transform, frozen=True):
    """Replaces each event by those of a function."""

    change: Change

    def reply(self, _losses: TransformLosses) -> EventTransform:
        return _Changed(self.change)


class _Changed(EventTransform):
    def __init__(self, change: Change) -> None:
        self._change = change

    def feed(self, event: Event) -> Sequence[Any]:
        changed: Sequence[Any] = self._change(event)
        return changed


def _without(kind: type[Struct]) -> Callable[[Event], list[Event]]:
    return lambda event: [] if isinstance(event, kind) else [event]


ILLEGAL: list[tuple[Change, str]] = [
    (_without(Started), "Opened is not legal while idle"),
    (_without(Opened), "Delta of block 0: the block is not open"),
    (_without(Closed), "Finished while blocks are open"),
    (_without(Finished), "the reply has no Finished or Failed"),
    (lambda event: [event, event], "Started is not legal while running"),
    (lambda _: ["text"], "str is not legal while idle"),
    (lambda _: 1, "raised TypeError"),
    (
        lambda e: [replace(e, item="Hi") if isinstance(e, Opened) else e],
        "str is not an item",
    ),
    (
        lambda e: [replace(e, text=None) if isinstance(e, Delta) else e],
        "Delta of block 0: the text is not a string",
    ),
    (
        lambda e: [replace(e, part=2) if isinstance(e, Delta) else e],
        "Delta of block 0: parts must follow each other and have one channel each",
    ),
    (
        lambda e: [replace(e, channel="arguments") if isinstance(e, Delta) else e],
        "Delta of block 0: the item has no arguments",
    ),
]


@pytest.mark.parametrize(("change", "reason"), ILLEGAL)
def test_illegal_events_end_the_reply_with_an_error(change: Change, reason: str) -> None:
    message = f"the transform Events failed: {reason}"
    for client in ("chat", "responses"):
        exchange = Exchange(client, "chat", transforms=(Identity(), Events(change), Identity()))
        stream = exchange.stream()
        written = b"".join([*map(stream.feed, STREAM), stream.finish(started=True).body])
        assert adapters.check(client, written) == []
        assert message.encode() in written
        assert [str(fault) for fault in stream.faults] == [message]
        end = exchange.reply(REPLY)
        assert end.status == 500
        assert json.loads(end.body)["error"] == {
            "message": message,
            "type": "server_error",
            "param": None,
            "code": "transform_failed",
        }


def test_error_of_the_backend_is_kept_if_a_transform_fails_at_it() -> None:
    def fail(event: Event) -> list[Event]:
        if isinstance(event, Failed):
            raise KeyError
        return [event]

    stream = Exchange("chat", "chat", transforms=(Events(fail),)).stream()
    written = b"".join([*map(stream.feed, STREAM[:2]), stream.finish(started=True).body])
    assert b"the backend's stream ended before the reply was complete" in written
    assert [str(fault) for fault in stream.faults] == [
        "the transform Events failed: raised KeyError"
    ]


def test_transform_can_reject_a_reply() -> None:
    def reject(_event: Event) -> list[Event]:
        raise adapters.UnsupportedRequestError("choices", "this reply is not allowed")

    exchange = Exchange("chat", "chat", transforms=(Events(reject),))
    end = exchange.reply(REPLY)
    assert end.status == 400
    assert json.loads(end.body)["error"]["message"] == "choices: this reply is not allowed"


def test_transform_can_end_a_reply_early() -> None:
    def cut(event: Event) -> list[Event]:
        if isinstance(event, Closed):
            return [event, Failed(Error("enough"))]
        return [event]

    stream = Exchange("responses", "chat", transforms=(Events(cut),)).stream()
    written = b"".join([*map(stream.feed, STREAM), stream.finish(started=True).body])
    assert adapters.check("responses", written) == []
    assert b"enough" in written


def test_new_blocks_of_two_transforms_have_different_ids() -> None:
    def add(event: Event) -> list[Event]:
        if isinstance(event, Opened) and isinstance(event.index, int):
            new = Opened("new", Message("assistant"))
            return [new, Delta("new", "text", "New. "), Closed("new"), event]
        return [event]

    exchange = Exchange("chat", "chat", transforms=(Events(add), Events(add)))
    assert text_of(exchange.reply(REPLY).body) == "New. \n\nNew. \n\nHello"
