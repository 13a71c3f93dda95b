"""The invented dialect against the whole corpus of the others."""

import pytest
from msgspec.structs import replace

import adapters
from adapters.ir.normalize import without_paths
from adapters.ir.types import FunctionTool, Request
from adapters.losses import Losses
from adapters.sse import encode
from tests import corpus
from tests.exchange import Exchange
from tests.fourth_dialect.dialogue import DIALOGUE

# The calls break off one after the other, which no legal Responses stream has.
SEVERAL_CUT_CALLS = ("chat-custom-input-breaks-off-though-finished",)


def read_request(body: bytes) -> Request:
    return without_paths(DIALOGUE.read_request(adapters.parse_body(body), Losses(None)))


def tool_names(request: Request) -> list[str]:
    return [tool.name for tool in request.tools if isinstance(tool, FunctionTool)]


@pytest.mark.parametrize("case", corpus.case_params(corpus.REQUESTS))
def test_request_to_a_backend_and_back(case: corpus.RequestCase) -> None:
    body = corpus.on_wire(case.body)
    # The dialect has no fields besides its own.
    capabilities = replace(case.capabilities, extra_body={})
    try:
        sent = Exchange(case.dialect, DIALOGUE, capabilities=capabilities).request(body)
    except adapters.UnsupportedRequestError:
        return
    except adapters.InvalidRequestError:
        other = "chat" if case.dialect == "responses" else "responses"
        with pytest.raises(adapters.InvalidRequestError):
            Exchange(case.dialect, other).request(body)
        return
    # What was written once is carried without any loss.
    request, losses = read_request(sent.body), Losses("refuse")
    assert read_request(DIALOGUE.write_request(request, case.capabilities, losses)) == request
    assert list(losses) == []
    for backend in corpus.DIALECTS:
        back = Exchange(DIALOGUE, backend).request(sent.body)
        again = Exchange(backend, DIALOGUE).request(back.body)
        assert tool_names(read_request(again.body)) == tool_names(request)


def to_dialogue(case: corpus.BackendCase) -> Exchange:
    request = corpus.case_request(case)
    return Exchange(DIALOGUE, case.dialect, capabilities=case.capabilities, request=request)


def from_dialogue(case: corpus.BackendCase, client: str) -> Exchange:
    return Exchange(client, DIALOGUE, request=corpus.case_request(case))


@pytest.mark.parametrize("case", corpus.case_params(corpus.REPLIES))
def test_reply_to_a_client_and_back(case: corpus.ReplyCase) -> None:
    try:
        end = to_dialogue(case).reply(corpus.on_wire(case.body))
    except adapters.InvalidReplyError:
        return
    if end.error is not None:
        assert DIALOGUE.read_error(end.status, end.body).message == end.error.message
        return
    context = corpus.reply_context(case)
    reply = DIALOGUE.read_reply(end.body, context)
    assert DIALOGUE.read_reply(encode(DIALOGUE.write_reply(reply, context)), context) == reply
    assert list(context.losses) == []
    for client in corpus.DIALECTS:
        assert from_dialogue(case, client).reply(end.body).error is None
        stream = from_dialogue(case, client).reply_as_stream(end.body)
        assert case.name in SEVERAL_CUT_CALLS or adapters.check(client, stream.body) == []


@pytest.mark.parametrize("case", corpus.case_params(corpus.STREAMS))
def test_stream_to_a_client_and_back(case: corpus.StreamCase) -> None:
    written = to_dialogue(case).translate_stream([case.body])
    assert to_dialogue(case).translate_stream(corpus.single_bytes(case.body)) == written
    assert DIALOGUE.check_stream(written) == []
    for client in corpus.DIALECTS:
        back = from_dialogue(case, client).translate_stream(corpus.single_bytes(written))
        assert adapters.check(client, back) == []
    whole, streamed = (Exchange(DIALOGUE, DIALOGUE, rewrite=True) for _ in range(2))
    collected = whole.collect()
    collected.feed(written)
    end = collected.finish()
    if end.error is None:
        assert streamed.reply(end.body).body == end.body


@pytest.mark.parametrize("case", corpus.case_params(corpus.ERRORS))
def test_error_to_a_client_and_back(case: corpus.ErrorCase) -> None:
    end = Exchange(DIALOGUE, case.dialect).error(case.status, case.wire_body())
    error = DIALOGUE.read_error(case.status, end.body)
    assert end.error is not None
    assert (error.message, error.code) == (end.error.message, end.error.code)
    for client in corpus.DIALECTS:
        back = Exchange(client, DIALOGUE).error(case.status, end.body)
        assert back.error == replace(error, param=back.error and back.error.param)
