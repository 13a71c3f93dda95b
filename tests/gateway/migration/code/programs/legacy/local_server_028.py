import json, os
from openai import ChatCompletion
import openai

# A server in the same room that is compatible.
openai.api_key = "none"
openai.api_base = os.environ["LLM_URL"]

def lookup(word): return {"ersatz": "substitute"}.get(word, "unknown")

messages = [{"role": "user", "content": "Define ersatz"}]
r = ChatCompletion.create(model="local", messages=messages, functions=[{
  "name": "lookup", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}
}])
m = r.choices[0].message
if m.get("function_call") is not None:
  messages += [m, {"role": "function", "name": m.function_call.name, "content": lookup(**json.loads(m.function_call.arguments))}]
  r = ChatCompletion.create(model="local", messages=messages)
print(r.choices[0].message.content)
