import json
import sys
import time

import openai

GPT_MODEL = "gpt-3.5-turbo-0613"


def chat_completion_request(messages, functions=None, function_call=None, model=GPT_MODEL):
    params = {"model": model, "messages": messages}
    if functions is not None:
        params["functions"] = functions
    if function_call is not None:
        params["function_call"] = function_call
    for attempt in range(3):
        try:
            return openai.ChatCompletion.create(**params)
        except (openai.error.RateLimitError, openai.error.ServiceUnavailableError) as e:
            print(f"attempt {attempt + 1} failed", file=sys.stderr)
            time.sleep(0.01)
    raise RuntimeError("no reply")


functions = [
    {
        "name": "ask_database",
        "description": "Answer questions about the sales with SQL",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "SQL, in one line"}},
            "required": ["query"],
        },
    }
]


def ask_database(query):
    return "[('2023-06', 1200)]" if "sum" in query.lower() else "[]"


def execute_function_call(message):
    if message["function_call"]["name"] == "ask_database":
        query = json.loads(message["function_call"]["arguments"])["query"]
        results = ask_database(query)
    else:
        results = f"Error: function {message['function_call']['name']} does not exist"
    return results


messages = []
messages.append({"role": "system", "content": "Answer with SQL over the table sales."})
messages.append({"role": "user", "content": "What did we sell in June?"})
chat_response = chat_completion_request(messages, functions)
assistant_message = chat_response["choices"][0]["message"]
messages.append(assistant_message)
if assistant_message.get("function_call"):
    results = execute_function_call(assistant_message)
    messages.append({"role": "function", "name": assistant_message["function_call"]["name"], "content": results})
    final = chat_completion_request(messages, functions, function_call="none")
    print(final["choices"][0]["message"]["content"])
