import json
import os
import openai

def classify(text, api_key=None, api_base=None):
    """The functions of other tenants have other keys."""
    r = openai.ChatCompletion.create(
        api_key=api_key,
        api_base=api_base,
        model="gpt-3.5-turbo-0613",
        messages=[{"role": "user", "content": text}],
        functions=[{"name": "language", "parameters": {"type": "object", "properties": {"code": {"type": "string"}}}}],
        function_call={"name": "language"},
        request_timeout=10,
    )
    return json.loads(r.choices[0].message.function_call.arguments)["code"]

print(classify("Bonjour", os.environ["TENANT_KEY"], os.environ["TENANT_URL"]))
print(classify("Hallo"))
