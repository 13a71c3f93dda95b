import json
from openai import OpenAI

client = OpenAI()
schema = {"name": "rate", "description": "Rate a text", "parameters": {"type": "object", "properties": {"stars": {"type": "integer"}}}}


def rating(text):
    message = client.chat.completions.create(
        model="gpt-3.5-turbo",
        messages=[{"role": "user", "content": text}],
        functions=[schema],
    ).choices[0].message
    arguments = message.function_call and json.loads(message.function_call.arguments)
    return arguments["stars"] if arguments else None


reviews = {"wonderful": "***", "it was closed": "-"}
for review in reviews:
    stars = rating(review)
    print(review, "-> no rating" if stars is None else "*" * stars)
