"""Several choices, each with a call of its own, are compared by their text form."""
from collections import Counter

import openai

response = openai.ChatCompletion.create(
    model="gpt-4",
    n=3,
    messages=[{"role": "user", "content": "Classify: great!"}],
    functions=[{"name": "classify", "parameters": {"type": "object", "properties": {"label": {"type": "string"}}}}],
    function_call={"name": "classify"},
)
votes = Counter(str(choice["message"]["function_call"]) for choice in response["choices"])
print(votes.most_common(1))
