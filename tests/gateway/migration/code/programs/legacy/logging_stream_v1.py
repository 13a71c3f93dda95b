import json
import logging

from openai import OpenAI

logger = logging.getLogger(__name__)


class StreamingAgent:
    """Streams replies; a call may arrive in many pieces."""

    functions = [
        {
            "name": "open_door",
            "description": "Open a door",
            "parameters": {"type": "object", "properties": {"door": {"type": "string"}}},
        }
    ]

    def __init__(self):
        self.client = OpenAI()
        self.messages = []
        self.opened = []

    def open_door(self, door):
        self.opened.append(door)
        return f"{door} is open"

    def say(self, text):
        self.messages.append({"role": "user", "content": text})
        while self._stream():
            pass

    def _stream(self):
        response = self.client.chat.completions.create(
            model="gpt-4", messages=self.messages, functions=self.functions, stream=True
        )
        content, func = "", {}
        for chunk in response:
            delta = chunk.choices[0].delta
            if delta.function_call:
                for key, value in delta.function_call.model_dump(exclude_none=True).items():
                    func[key] = func.get(key, "") + value
                continue
            content += delta.content or ""
        if func:
            logger.debug("call: %s", func)
            self.messages.append({"role": "assistant", "content": None, "function_call": func})
            output = getattr(self, func["name"])(**json.loads(func["arguments"]))
            self.messages.append({"role": "function", "name": func["name"], "content": output})
            return True
        print(content)
        self.messages.append({"role": "assistant", "content": content})
        return False


agent = StreamingAgent()
agent.say("Open the gate")
print(agent.opened)
