"""Without the SDK: the API is called with requests."""
import json
import os

import requests

GPT_MODEL = "gpt-3.5-turbo-0613"


def chat_completion_request(messages, functions=None, function_call=None, model=GPT_MODEL):
    headers = {
        "Content-Type": "application/json",
        "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
    }
    json_data = {"model": model, "messages": messages}
    if functions is not None:
        json_data.update({"functions": functions})
    if function_call is not None:
        json_data.update({"function_call": function_call})
    try:
        response = requests.post(
            os.environ["OPENAI_API_BASE"] + "/chat/completions",
            headers=headers,
            json=json_data,
            timeout=30,
        )
        return response
    except Exception as e:
        print("Unable to generate a completion")
        print(f"Exception: {e}")
        return e


def get_schedule(day):
    return {"monday": "10:00 dentist"}.get(day.lower(), "nothing")


functions = [
    {
        "name": "get_schedule",
        "description": "Appointments of a day",
        "parameters": {
            "type": "object",
            "properties": {"day": {"type": "string"}},
            "required": ["day"],
        },
    },
]
messages = []
messages.append({"role": "user", "content": "What do I have on Monday?"})
chat_response = chat_completion_request(messages, functions=functions, function_call={"name": "get_schedule"})
assistant_message = chat_response.json()["choices"][0]["message"]
messages.append(assistant_message)
if assistant_message.get("function_call"):
    arguments = json.loads(assistant_message["function_call"]["arguments"])
    messages.append({
        "role": "function",
        "name": assistant_message["function_call"]["name"],
        "content": get_schedule(**arguments),
    })
    chat_response = chat_completion_request(messages)
    print(chat_response.json()["choices"][0]["message"]["content"])
