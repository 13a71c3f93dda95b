"""The fast paths for typical input read the same as the general readers."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import adapters
from adapters import InputItem
from adapters.chat import message_reader, reply_reader, stream_reader
from adapters.chat.choice_reader import ChoiceReader
from adapters.chat.stream_reader import DeltaFastPath, find_fast_path
from adapters.dialect import ReplyContext
from adapters.errors import DragomanError
from adapters.ir.events import Event
from adapters.ir.types import EMPTY_REQUEST
from adapters.losses import Losses
from adapters.responses import item_reader
from tests import corpus
from tests.judges.samples import CHAT_REPLY

Result = tuple[object, object]


def read(reader: Callable[[Losses], object]) -> Result:
    losses = Losses(None)
    try:
        return reader(losses), list(losses)
    except DragomanError as error:
        return None, str(error)


def read_messages(*messages: object) -> Result:
    raws = [Raw(msgspec.json.encode(message)) for message in messages]
    return read(lambda losses: list(message_reader.read_messages(raws, losses)))


def read_items(*items: object) -> Result:
    inputs = [
        InputItem(Raw(msgspec.json.encode(item)), f"input[{number}]")
        for number, item in enumerate(items)
    ]
    return read(lambda losses: list(item_reader.read_items(inputs, losses)))


def read_request(case: corpus.RequestCase) -> Result:
    body = adapters.parse_body(bytes(case.body))
    return read(lambda losses: adapters.get_dialect(case.dialect).read_request(body, losses))


def read_reply(body: bytes) -> Result:
    return read(
        lambda losses: reply_reader.read_reply(
            body, ReplyContext(EMPTY_REQUEST, adapters.deterministic_ids(), losses)
        )
    )


def translate_request(case: corpus.RequestCase) -> Result:
    backend = "chat" if case.dialect == "responses" else "responses"

    def translate(_losses: Losses) -> object:
        sent = adapters.translate_request(bytes(case.body), client=case.dialect, backend=backend)
        return sent.body, sent.losses

    return read(translate)


def read_nothing(*_arguments: object) -> None:
    """Stand in for a fast path that is never taken."""


def assert_same(
    owner: str, reader: Callable[[], object], replacement: object = read_nothing
) -> None:
    fast = reader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"adapters.{owner}", replacement)
        assert reader() == fast


MESSAGES_PATH = "chat.message_reader._read_typical"
ITEMS_PATH = "responses.item_reader.read_typical"
TOOLS_PATH = "wire.tools._read_typical"
REPLY_PATH = "chat.reply_reader._read_typical"
DECLARATIONS_PATH = "tool_emulation.declare._DeclarationReader._read_typical"
FUNCTIONS_PATH = "tool_emulation._plain_functions"
PAIRING_PATH = "translation.fit._is_paired"
DELTAS_PATH = "chat.stream_reader.find_fast_path"
STAGES_PATH = "stages.stage.Pipeline.passes_deltas"


each_request = pytest.mark.parametrize("case", corpus.case_params(corpus.REQUESTS))


@each_request
@pytest.mark.parametrize("owner", [MESSAGES_PATH, ITEMS_PATH, TOOLS_PATH])
def test_requests_are_the_same_for_every_case(case: corpus.RequestCase, owner: str) -> None:
    assert_same(owner, lambda: read_request(case))


@each_request
@pytest.mark.parametrize("owner", [DECLARATIONS_PATH, FUNCTIONS_PATH, PAIRING_PATH])
def test_translations_are_the_same_for_every_case(case: corpus.RequestCase, owner: str) -> None:
    assert_same(owner, lambda: translate_request(case))


@pytest.mark.parametrize("case", corpus.case_params(corpus.REPLIES))
def test_replies_are_the_same_for_every_case(case: corpus.ReplyCase) -> None:
    assert_same(REPLY_PATH, lambda: read_reply(bytes(case.body)))


CHAT_STREAMS = [case for case in corpus.STREAMS if case.dialect != "responses"]


@pytest.mark.parametrize("case", corpus.case_params(CHAT_STREAMS))
def test_deltas_are_the_same_for_every_case(case: corpus.StreamCase) -> None:
    assert_same(DELTAS_PATH, lambda: corpus.read_events(case, [case.body]))


def translate_stream(case: corpus.StreamCase) -> Result:
    client = adapters.get_dialect("chat" if case.dialect == "responses" else "responses")
    backend, ids = adapters.get_dialect(case.dialect), adapters.deterministic_ids()
    plan = adapters.plan_reply(adapters.TranslationOptions(client, backend, ids), streams=True)
    translator = adapters.ReplyTranslator(plan, streamed=True)
    return translator.feed(bytes(case.body)), translator.finish()


@pytest.mark.parametrize("case", corpus.case_params(corpus.STREAMS))
def test_streams_are_the_same_for_every_case(case: corpus.StreamCase) -> None:
    assert_same(STAGES_PATH, lambda: translate_stream(case), replacement=False)


STRINGS = st.sampled_from(("", "f", "Ja.", " ", "{}", '{"a":1}', "call_1"))
ODD: list[object] = [None, 0, 1.5, True, [], {}, [{}], ["x"], {"a": None}]


def objects(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    """Objects with any of these fields, one of which may have an odd value or name."""
    usual: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries({}, optional=fields)
    names = st.sampled_from([*fields, "other"])
    odd = st.dictionaries(names, st.sampled_from(ODD), max_size=1)
    return st.tuples(usual, odd).map(lambda pair: pair[0] | pair[1])


NAMES: dict[str, st.SearchStrategy[object]] = {"name": STRINGS, "arguments": STRINGS}
FUNCTIONS = objects(**NAMES)
CALLS = objects(
    id=STRINGS, type=st.sampled_from(("function", "custom")), function=FUNCTIONS, index=st.just(0)
)
MESSAGES = objects(
    role=st.sampled_from(("system", "developer", "user", "tool", "function")),
    content=STRINGS,
    name=STRINGS,
    tool_call_id=STRINGS,
)
ASSISTANT_MESSAGES = objects(
    role=st.just("assistant"),
    content=STRINGS | st.none(),
    tool_calls=st.lists(CALLS, max_size=2),
    function_call=FUNCTIONS | st.none(),
    refusal=st.none(),
    annotations=st.just([]),
    reasoning_content=st.none(),
)
CHOICES = objects(
    index=st.integers(0, 1),
    message=ASSISTANT_MESSAGES,
    finish_reason=st.sampled_from(("stop", "tool_calls", "length")),
    logprobs=st.none(),
)
REPLY_CHANGES = objects(
    id=STRINGS,
    choices=st.lists(CHOICES, min_size=1, max_size=2),
    usage=objects(prompt_tokens=st.just(1), prompt_tokens_details=objects(audio_tokens=st.just(1))),
    service_tier=STRINGS,
    system_fingerprint=STRINGS | st.none(),
)


@given(messages=st.lists(MESSAGES | ASSISTANT_MESSAGES, max_size=4))
def test_messages_are_the_same(messages: list[dict[str, object]]) -> None:
    assert_same(MESSAGES_PATH, lambda: read_messages(*messages))


@given(changes=REPLY_CHANGES)
def test_replies_are_the_same(changes: dict[str, object]) -> None:
    body = msgspec.json.encode(CHAT_REPLY | changes)
    assert_same(REPLY_PATH, lambda: read_reply(body))


@pytest.mark.parametrize("usage", [b'{"a":"\xff"}', b'{"prompt_tokens":1,"a":"\xc3"}'])
def test_replies_with_invalid_text_are_the_same(usage: bytes) -> None:
    body = msgspec.json.encode(CHAT_REPLY | {"usage": Raw(usage)})
    assert_same(REPLY_PATH, lambda: read_reply(body))


PARTS = objects(
    type=st.sampled_from(("input_text", "output_text", "input_image")),
    text=STRINGS,
    image_url=STRINGS,
    detail=STRINGS,
)
STATUSES = st.sampled_from(("completed", "in_progress", ""))
ITEM_FIELDS: dict[str, st.SearchStrategy[object]] = {"id": STRINGS, "status": STATUSES}
ITEMS = (
    objects(
        type=st.just("message"),
        role=st.sampled_from(("user", "assistant")),
        content=STRINGS | st.lists(PARTS, max_size=2),
        **ITEM_FIELDS,
    )
    | objects(type=st.just("function_call"), call_id=STRINGS, **NAMES, **ITEM_FIELDS)
    | objects(
        type=st.just("function_call_output"),
        call_id=STRINGS,
        output=STRINGS | st.just('[{"type":"input_image"}]'),
        **ITEM_FIELDS,
    )
)


@given(items=st.lists(ITEMS, max_size=4))
def test_items_are_the_same(items: list[dict[str, object]]) -> None:
    assert_same(ITEMS_PATH, lambda: read_items(*items))


FUNCTION = {"name": "f", "arguments": "{}"}
CALL = {"id": "call_1", "type": "function", "function": FUNCTION}
TEXT_PART = {"type": "input_text", "text": "Hi."}
TYPICAL_MESSAGES: list[dict[str, object]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "assistant", "content": None, "function_call": FUNCTION},
    {"role": "tool", "tool_call_id": "call_1", "content": "7"},
    {"role": "function", "name": "f", "content": "7"},
]
TYPICAL_ITEMS: list[dict[str, object]] = [
    {"type": "message", "role": "user", "content": [TEXT_PART]},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": "Ja."},
    {"type": "function_call", "call_id": "call_1", **FUNCTION},
    {"type": "function_call_output", "call_id": "call_1", "output": "7"},
]
TYPICAL_REPLIES: list[dict[str, object]] = [
    {"content": "Ja.", "refusal": None, "annotations": [], "reasoning_content": None},
    {"content": None, "tool_calls": [CALL, CALL]},
    {"content": "", "tool_calls": [CALL]},
    {"content": "I look.", "tool_calls": [CALL]},
]


def read_reply_message(message: dict[str, object]) -> Result:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}
    usage = {"usage": {"prompt_tokens": 1}, "system_fingerprint": "fp_1", "service_tier": "default"}
    return read_reply(msgspec.json.encode(CHAT_REPLY | usage | {"choices": [choice]}))


@pytest.mark.parametrize(
    ("reader", "general", "typical"),
    [
        *((read_messages, "chat.message_reader._read_message", one) for one in TYPICAL_MESSAGES),
        *((read_items, "responses.item_reader.read_item", one) for one in TYPICAL_ITEMS),
        *((read_reply_message, "chat.reply_reader._read_any", one) for one in TYPICAL_REPLIES),
    ],
)
def test_typical_input_takes_the_fast_path(
    reader: Callable[[object], Result],
    general: str,
    typical: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(f"adapters.{general}")
    reader(typical)


DELTA_STRINGS = st.text(max_size=8) | st.sampled_from(
    ("{", "}", "[", '"', "\\", '{"a":1}', '"content":', '"arguments":"', "\x00", "\u2028", " ")
)
# Valid strings, and other values that no server should send.
DELTA_VALUES = st.builds(msgspec.json.encode, DELTA_STRINGS) | st.sampled_from(
    (b"null", b'""', b'"\\ud83d"', b'"\\u00e9"', b'"\xff"', b"{}", b"1", b'"a"}', b'"a","b":"c"')
)
DELTA_CHUNKS = st.sampled_from(
    (
        b'{"choices":[{"index":0,"delta":{"content":%b}}]}',
        b'{"choices":[{"index":0,"delta":{"content": %b}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%b}}]}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":%b}}]}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":%b}}]}}]}',
        b'{"choices":[{"index":0,"delta":{"function_call":{"arguments":%b}}}]}',
        b'{"choices":[{"index":1,"delta":{"content":%b}}]}',
    )
)
OPENING = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function",'
    b'"function":{"name":"f","arguments":""}}]}}]}\n\n'
)
ENDING = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


RUNS = st.lists(st.tuples(DELTA_CHUNKS, st.lists(DELTA_VALUES, min_size=1)), max_size=6)


@given(opening=st.sampled_from([b"", OPENING]), runs=RUNS)
def test_deltas_are_the_same(opening: bytes, runs: list[tuple[bytes, list[bytes]]]) -> None:
    chunks = [b"data: %b\n\n" % (chunk % value) for chunk, values in runs for value in values]
    case = corpus.StreamCase(body=b"".join([opening, *chunks, ENDING]), point="x", dialect="chat")
    assert_same(DELTAS_PATH, lambda: corpus.read_events(case, [case.body]))


def test_typical_deltas_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def find(data: bytes, events: list[Event], choice: ChoiceReader) -> DeltaFastPath | None:
        decoded.append(data)
        return find_fast_path(data, events, choice)

    monkeypatch.setattr(stream_reader, "find_fast_path", find)
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n'
    body = b"".join(chunk % number for number in range(100)) + ENDING
    corpus.read_events(corpus.StreamCase(body=body, point="x", dialect="chat"), [body])
    # The first chunk opens the message, and the second one is learned from.
    assert len(decoded) == 2
