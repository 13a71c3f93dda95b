"""A library of its own around the replies, which others import."""
from dataclasses import dataclass
from typing import Optional

import openai


@dataclass
class Reply:
    text: Optional[str]
    function_call: Optional[dict]

    @classmethod
    def of(cls, message):
        call = message.function_call
        return cls(message.content, call.model_dump() if call else None)


def complete(messages, **kwargs):
    client = openai.OpenAI()
    response = client.chat.completions.create(model="gpt-4", messages=messages, **kwargs)
    return Reply.of(response.choices[0].message)


__all__ = ["Reply", "complete"]
