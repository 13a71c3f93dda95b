import json
from dataclasses import dataclass, field
from typing import Optional

from openai import OpenAI


@dataclass
class Message:
    role: str
    content: Optional[str]
    name: Optional[str] = None
    function_call: Optional[dict] = None

    def to_dict(self) -> dict:
        result = {"role": self.role, "content": self.content}
        if self.name:
            result["name"] = self.name
        if self.function_call:
            result["function_call"] = self.function_call
        return result


@dataclass
class Conversation:
    messages: list[Message] = field(default_factory=list)

    def add(self, role: str, content: Optional[str], **extra) -> None:
        self.messages.append(Message(role, content, **extra))

    def to_list(self) -> list[dict]:
        return [message.to_dict() for message in self.messages]


FUNCTIONS = [
    {
        "name": "get_balance",
        "description": "Balance of an account",
        "parameters": {"type": "object", "properties": {"account": {"type": "string"}}},
    }
]


def get_balance(account: str) -> float:
    return {"savings": 1250.5}.get(account, 0.0)


client = OpenAI()
conversation = Conversation()
conversation.add("user", "How much is in my savings account?")
while True:
    reply = client.chat.completions.create(
        model="gpt-4", messages=conversation.to_list(), functions=FUNCTIONS
    ).choices[0].message
    if reply.function_call:
        call = {"name": reply.function_call.name, "arguments": reply.function_call.arguments}
        conversation.add("assistant", None, function_call=call)
        output = get_balance(**json.loads(call["arguments"]))
        conversation.add("function", json.dumps(output), name=call["name"])
    else:
        conversation.add("assistant", reply.content)
        break
print(conversation.messages[-1].content)
