import json

from openai import OpenAI

MAX_ROUNDS = 2
client = OpenAI()
FUNCTIONS = [
    {
        "name": "search",
        "description": "Search the web",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    }
]


def search(query: str) -> list:
    return [{"title": query.title(), "rank": len(query)}]


messages = [{"role": "user", "content": "Who built the bridge, and when?"}]
for round_number in range(MAX_ROUNDS + 1):
    is_last = round_number == MAX_ROUNDS
    response = client.chat.completions.create(
        model="gpt-4",
        messages=messages,
        functions=FUNCTIONS,
        function_call="none" if is_last else "auto",
    )
    message = response.choices[0].message
    if message.function_call and not is_last:
        messages.append(message)
        try:
            results = search(**json.loads(message.function_call.arguments))
        except Exception as error:  # noqa
            results = [{"error": str(error)}]
        messages.append(
            {
                "role": "function",
                "name": message.function_call.name,
                "content": json.dumps(results, ensure_ascii=False),
            },
        )
        continue
    print(f"after {round_number} searches:", message.content)
    break
