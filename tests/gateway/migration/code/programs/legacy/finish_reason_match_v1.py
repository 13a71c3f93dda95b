import json

from openai import OpenAI
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_message import FunctionCall

client = OpenAI()
FUNCTIONS = [
    {
        "name": "roll",
        "description": "Roll dice",
        "parameters": {
            "type": "object",
            "properties": {"dice": {"type": "integer"}, "sides": {"type": "integer"}},
            "required": ["dice", "sides"],
        },
    }
]


def roll(dice: int, sides: int) -> list[int]:
    # Not very random, but easy to check.
    return [1 + (7 * number) % sides for number in range(dice)]


def execute(call: FunctionCall) -> str:
    arguments = json.loads(call.arguments)
    return json.dumps(roll(**arguments))


def respond(message: ChatCompletionMessage, messages: list) -> None:
    assert message.function_call is not None
    messages.append(message)
    content = execute(message.function_call)
    messages.append({"role": "function", "name": message.function_call.name, "content": content})


messages = [{"role": "user", "content": "Roll two dice with six sides."}]
is_done = False
while not is_done:
    choice = client.chat.completions.create(
        model="gpt-4-0613", messages=messages, functions=FUNCTIONS
    ).choices[0]
    match choice.finish_reason:
        case "function_call":
            respond(choice.message, messages)
        case "stop":
            print(choice.message.content)
            is_done = True
        case other:
            raise SystemExit(f"unexpected: {other}")
