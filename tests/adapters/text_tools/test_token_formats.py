"""Calls in the formats of special tokens: Harmony, Kimi, GLM and DSML."""

import pytest

from adapters.capabilities import TextFormat
from tests.adapters.text_tools.test_scanner import DSML, TIME_CALL, Found, check

LOOK_CALL = ("look", '{"city":"Rome"}')
LOOK = LOOK_CALL[1]
REASONING, TEXT = ["reasoning"], ["text"]

START = "<|start|>assistant"
COMMENTARY = "<|channel|>commentary to=functions"
SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
BEGIN, ARGUMENTS, END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
CITY = "<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>"
BLOCK, BLOCK_END = f"<{DSML}function_calls>", f"</{DSML}function_calls>"
INVOKE_END = f"</{DSML}invoke>"
INVOKE_TIME = f'<{DSML}invoke name="time">\n{INVOKE_END}'


def invoke(*parameters: str) -> str:
    """Return a DSML call of `look`."""
    written = "\n".join(f"<{DSML}parameter name={one}</{DSML}parameter>" for one in parameters)
    return f'<{DSML}invoke name="look">\n{written}\n{INVOKE_END}'


INVOKE_LOOK = invoke('"city" string="true">Rome')

CALLS: dict[TextFormat, list[tuple[str, Found]]] = {
    "harmony": [
        # The recipient after the channel, and the end of the call or a truncated one.
        (f"{COMMENTARY}.look <|constrain|>json<|message|>{LOOK}<|call|>", [LOOK_CALL]),
        (f"{COMMENTARY}.look <|constrain|>json<|message|>{LOOK}", [LOOK_CALL]),
        (f"{COMMENTARY}.look <|constrain|>json<|message|>{LOOK}<|ca", [LOOK_CALL]),
        (f"{COMMENTARY}.look<|constrain|>json<|message|>{LOOK}<|call|>", [LOOK_CALL]),
        (f"{COMMENTARY}.look json<|message|>{LOOK}<|call|>", [LOOK_CALL]),
        (f"{COMMENTARY}.time code<|message|>{{}}", [TIME_CALL]),
        (f"{COMMENTARY}.time<|message|><|call|>", [("time", "")]),
        (f"{START}{COMMENTARY}.look <|constrain|>json<|message|>{LOOK}<|call|>", [LOOK_CALL]),
        ("<|channel|>analysis to=look code<|message|>{}<|call|>", [("look", "{}")]),
        # The recipient before the channel.
        (
            f"{START} to=functions.look<|channel|>commentary json<|message|>{LOOK}<|call|>",
            [LOOK_CALL],
        ),
        (
            f"{START} to=functions.look<|channel|>commentary <|constrain|>json<|message|>{LOOK}",
            [LOOK_CALL],
        ),
        # Reasoning, a preamble, calls and the final text.
        (
            (
                f"<|channel|>analysis<|message|>Hm.<|end|>{START}{COMMENTARY}.look json<|message|>"
                f"{LOOK}<|call|>{START}{COMMENTARY}.time json<|message|>{{}}<|call|>"
            ),
            [REASONING, "Hm.", LOOK_CALL, TIME_CALL],
        ),
        (
            f"<|channel|>analysis<|message|>Hm.<|end|>{START}<|channel|>final<|message|>Hi.<|return|>",
            [REASONING, "Hm.", TEXT, "Hi."],
        ),
        (
            f"<|channel|>commentary<|message|>Wait.<|end|>\n{START}{COMMENTARY}.time<|message|>{{}}",
            [TEXT, "Wait.", TIME_CALL],
        ),
        (f"{START}<|message|>Hi.<|end|>", [TEXT, "Hi."]),
        # Without the special tokens.
        (f"commentary to=functions.look json{LOOK}", [LOOK_CALL]),
        (f"So.\ncommentary to=functions.look json {LOOK}", ["So.\n", LOOK_CALL]),
        (f"commentary to=functions.look {LOOK}\nDone.", [LOOK_CALL, "\nDone."]),
        (
            f"commentary to=functions.look json{LOOK}commentary to=functions.time json{{}}",
            [LOOK_CALL, TIME_CALL],
        ),
        (f"Hm.assistantcommentary to=functions.look json{LOOK}", ["Hm.", LOOK_CALL]),
        (f"assistant to=functions.lookcommentary json{LOOK}", [LOOK_CALL]),
        (f"to=functions.look {LOOK}", [LOOK_CALL]),
        ("Hm.assistantfinalHello.", ["Hm.", TEXT, "Hello."]),
        ("Hm.assistantanalysisWe see.", ["Hm.", REASONING, "We see."]),
    ],
    "kimi": [
        (f"{SECTION}{BEGIN}functions.time:0{ARGUMENTS}{{}}{END}{SECTION_END}", [TIME_CALL]),
        (
            (
                f"So.{SECTION}{BEGIN}functions.look:0{ARGUMENTS}{LOOK}{END}{BEGIN}functions.time:1"
                f"{ARGUMENTS}{{}}{END}{SECTION_END}Done."
            ),
            ["So.", LOOK_CALL, TIME_CALL, "Done."],
        ),
        (
            f"{SECTION}\n{BEGIN} functions.look:0 {ARGUMENTS} {LOOK} {END}\n{SECTION_END}",
            [LOOK_CALL],
        ),
        # Marks that are missing or truncated.
        (f"{SECTION}{BEGIN}functions.look:0{ARGUMENTS}{LOOK}{END}", [LOOK_CALL]),
        (f"{SECTION}{BEGIN}functions.look:0{ARGUMENTS}{LOOK}", [LOOK_CALL]),
        (f"{SECTION}{BEGIN}functions.look:0{ARGUMENTS}{LOOK}<|tool_call_e", [LOOK_CALL]),
        (f"{BEGIN}functions.look:0{ARGUMENTS}{LOOK}{END}{SECTION_END}", [LOOK_CALL]),
        (f"{BEGIN}functions.look:0{ARGUMENTS}{LOOK}{SECTION_END}", [LOOK_CALL]),
        # Other forms of the id, and a section without calls.
        (f"{BEGIN}look:12{ARGUMENTS}{LOOK}{END}", [LOOK_CALL]),
        (f"{BEGIN}look_3{ARGUMENTS}{LOOK}{END}", [LOOK_CALL]),
        (f"{BEGIN}look{ARGUMENTS}{LOOK}{END}", [LOOK_CALL]),
        (f"Hi.{SECTION}{SECTION_END}", ["Hi."]),
    ],
    "glm": [
        (f"<tool_call>look\n{CITY}\n</tool_call>", [LOOK_CALL]),
        (f"<tool_call>look{CITY}</tool_call>", [LOOK_CALL]),
        (
            f"So.\n<tool_call>look\n{CITY}\n</tool_call>\n<tool_call>time\n</tool_call> Done.",
            ["So.\n", LOOK_CALL, "\n", TIME_CALL, " Done."],
        ),
        ("<tool_call>time</tool_call>", [TIME_CALL]),
        # Values get the types of the schema.
        (
            (
                "<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>007</arg_value>\n"
                "<arg_key>days</arg_key>\n<arg_value>7</arg_value>\n<arg_key>tags</arg_key>"
                '<arg_value>["a"]</arg_value></tool_call>'
            ),
            [("look", '{"city":"007","days":7,"tags":["a"]}')],
        ),
        (
            "<tool_call>look<arg_key>city</arg_key><arg_value> <b>\n </arg_value></tool_call>",
            [("look", '{"city":" <b>\\n "}')],
        ),
        # The last tag is missing or truncated.
        (f"<tool_call>look\n{CITY}\n", [LOOK_CALL]),
        (f"<tool_call>look\n{CITY}\n</tool_ca", [LOOK_CALL]),
        (f"<tool_call>look\n{CITY}\n<tool_call>time</tool_call>", [LOOK_CALL, TIME_CALL]),
    ],
    "dsml": [
        (f"{BLOCK}\n{INVOKE_LOOK}\n{BLOCK_END}", [LOOK_CALL]),
        (f"<{DSML}tool_calls>\n{INVOKE_LOOK}\n</{DSML}tool_calls>", [LOOK_CALL]),
        (
            f"So.\n\n{BLOCK}\n{INVOKE_LOOK}\n{INVOKE_TIME}\n{BLOCK_END} Done.",
            ["So.\n\n", LOOK_CALL, TIME_CALL, " Done."],
        ),
        # Strings, JSON, and a value of which neither is said.
        (
            BLOCK
            + invoke('"city" string="true">7', '"days" string="false">7', '"note">null')
            + BLOCK_END,
            [("look", '{"city":"7","days":7,"note":null}')],
        ),
        (
            BLOCK + invoke('"where" string="false">{"a": [1, "x"]}') + BLOCK_END,
            [("look", '{"where":{"a": [1, "x"]}}')],
        ),
        (BLOCK + invoke('"days" string="false">two') + BLOCK_END, [("look", '{"days":"two"}')]),
        (f'{BLOCK}<{DSML}invoke name="look">{LOOK}{INVOKE_END}{BLOCK_END}', [LOOK_CALL]),
        # Marks that are missing or truncated.
        (f"{BLOCK}\n{INVOKE_LOOK}\n", [LOOK_CALL]),
        (f"{BLOCK}\n{INVOKE_LOOK}\n{BLOCK_END[:5]}", [LOOK_CALL]),
        (f"{BLOCK}\n{INVOKE_LOOK.removesuffix(INVOKE_END)}", [LOOK_CALL]),
        (f"Hi. {INVOKE_TIME}", ["Hi. ", TIME_CALL]),
        (f"Hi.{BLOCK}\n{BLOCK_END}", ["Hi."]),
    ],
}
NO_CALLS: dict[TextFormat, list[str]] = {
    "harmony": [
        "The recipient to=functions.look is written in the header.",
        'Write `commentary to=functions.look json{"city":"Rome"}` to call it.',
        f"It wrote: to=functions.look {LOOK}",
        f"commentary to=functions.fly json{LOOK}",
        "commentary to=functions.look json",
        "commentary to=functions.look json{'city': 1}",
        "The `<|channel|>` token is followed by the channel, as in <|channel|>analysis.",
        "<|start|>user<|message|>Hi",
        *("<|channel|>", "<|channel|>analysis", "<|start|>assistant", "assistant", "commentary"),
        "commentary on the text, and the final analysis of the assistant",
        "the assistantfinal word and assistantcommentary",
        "After <|end|> and <|call|> more text follows.",
        f"{COMMENTARY}.look json<|message|>" + '{"city":"Ro',
        f"{COMMENTARY}.look json<|message|>Rome",
    ],
    "kimi": [
        *(SECTION, BEGIN, f"{BEGIN} is a token", f"the {SECTION} and {BEGIN}look:0 tokens"),
        f"{SECTION}{BEGIN}look:0{ARGUMENTS}" + '{"city":"Ro',
        f"{BEGIN}look:0{ARGUMENTS}Rome{END}",
        *(END, SECTION_END),
    ],
    "glm": [
        *("<tool_call>", "<tool_call>look and more</tool_call>", "<tool_call>fly</tool_call>"),
        f"<tool_call>fly\n{CITY}\n</tool_call>",
        "<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>Rome",
        "<tool_call>look\n<arg_key>city</arg_key>\n</tool_call>",
        f"<tool_call>look\n{CITY} and more</tool_call>",
    ],
    "dsml": [
        *(BLOCK, f"{BLOCK} is a tag", f'<{DSML}invoke name="lo', "<function_calls>"),
        f"{BLOCK}\n{INVOKE_LOOK.partition('Rome')[0]}Ro",
        f'{BLOCK}<{DSML}invoke name="look">words{BLOCK_END}',
        BLOCK_END,
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [(name, text, expected) for name, cases in CALLS.items() for text, expected in cases],
)
def test_calls_are_found(name: TextFormat, text: str, expected: Found) -> None:
    check(text, expected, name)


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in NO_CALLS.items() for text in texts]
)
def test_other_text_is_unchanged(name: TextFormat, text: str) -> None:
    check(text, [text], name)
