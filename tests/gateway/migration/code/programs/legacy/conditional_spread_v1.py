import json
from openai import OpenAI


class Bot:
    def __init__(self, functions=None, handlers=None):
        self.client = OpenAI()
        self.functions = functions or []
        self.handlers = handlers or {}
        self.history = []

    def __call__(self, text):
        self.history += [{"role": "user", "content": text}]
        return self.respond()

    def respond(self, limit=4):
        response = self.client.chat.completions.create(
            model="gpt-4",
            messages=self.history,
            **({"functions": self.functions, "function_call": "auto"} if self.functions and limit else {}),
        )
        reply = response.choices[0].message
        if reply.function_call is not None:
            self.history += [reply]
            self.history += [self.run(reply.function_call.name, reply.function_call.arguments)]
            return self.respond(limit - 1)
        self.history += [{"role": "assistant", "content": reply.content}]
        return reply.content

    def run(self, name, arguments):
        handler = self.handlers.get(name, lambda **_: "no such function")
        return {"role": "function", "name": name, "content": str(handler(**json.loads(arguments)))}


def temperature(sensor):
    return {"attic": 28.5, "cellar": 14.0}[sensor]


bot = Bot(
    [{"name": "temperature", "parameters": {"type": "object", "properties": {"sensor": {"type": "string"}}}}],
    {"temperature": temperature},
)
print(bot("Where is it warmer, in the attic or in the cellar?"))
print(Bot()("Say hello"))
