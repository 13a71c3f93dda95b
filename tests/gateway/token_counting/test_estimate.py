"""The estimate of tokens: its formula, and what counts."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.token_counting import FRAME, MEDIUM, count_request, estimate_tokens


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_four_letters_are_a_token_and_so_is_any_other_character() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("word") == 1
    assert estimate_tokens("words") == 2
    assert estimate_tokens("東京") == 2
    assert estimate_tokens("word 東京") == 4
    assert estimate_tokens("слово") == 3


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("Hello, my name is GPT-4o. I'm a new type of language model, nice to meet you!", 24, 24),
        ("Привет, меня зовут GPT-4o. Я — новая языковая модель, приятно познакомиться!", 23, 39),
        ("你好，我的名字是GPT-4o。我是一种新型的语言模型，很高兴见到你!", 24, 34),  # noqa: RUF001 - its own commas
        ("こんにちは、私の名前はGPT-4oです。私は新しいタイプの言語モデルです。初めまして!", 26, 37),
    ],
    ids=["English", "Russian", "Chinese", "Japanese"],
)
def test_estimate_is_near_what_tokenisers_say(text: str, least: int, most: int) -> None:
    # As OpenAI counted this sentence for `o200k_base` and for the encoding before it.
    assert most / 2 <= estimate_tokens(text) <= least * 2


def test_estimate_of_code_is_near_what_tokenisers_say() -> None:
    # Of source code, `o200k_base` makes a token of about three to four characters.
    source = Path(__file__).read_text()
    assert len(source) / 4 / 2 <= estimate_tokens(source) <= len(source) / 3 * 2


@given(st.text(), st.text())
def test_more_text_is_never_less(one: str, other: str) -> None:
    assert max(estimate_tokens(one), estimate_tokens(other)) <= estimate_tokens(one + other)
    assert estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other)


def test_what_a_model_reads_counts() -> None:
    assert count_request(body(model="m", input="word")) == FRAME + 1
    assert count_request(body(instructions="word", input=[])) == FRAME + 1
    message = {"type": "message", "id": "msg_123456", "role": "user", "content": "word"}
    assert count_request(body(input=[message])) == FRAME + 1
    assert count_request(body(messages=[{"role": "user", "content": "word"}])) == FRAME + 1
    call = {"type": "function_call", "call_id": "call_1", "name": "word", "arguments": "{}"}
    assert count_request(body(input=[call])) == FRAME + 2
    sealed = {"type": "reasoning", "encrypted_content": "A" * 1000}
    assert count_request(body(input=[sealed])) == FRAME
    assert count_request(b"[]") == 0


def test_media_count_the_same_whatever_their_size() -> None:
    for part in (
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 5000},
        {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}},
        {"type": "input_file", "file_data": "A" * 5000},
        {"type": "input_audio", "input_audio": {"data": "A" * 5000, "format": "wav"}},
    ):
        assert count_request(body(input=[{"role": "user", "content": [part]}])) == FRAME + MEDIUM


def test_a_schema_counts_as_it_is_written() -> None:
    tool = {"type": "function", "name": "x", "parameters": {"type": "object"}}
    spelled = json.dumps(tool, separators=(",", ":"))
    assert count_request(body(tools=[tool])) == FRAME + estimate_tokens(spelled)


def test_a_tokeniser_goes_before_the_estimate() -> None:
    assert count_request(body(input="one two three"), lambda text: len(text.split())) == FRAME + 3
