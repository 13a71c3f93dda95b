# One question, one function, one answer.
import json

import openai


def get_weather(city, unit="celsius"):
    degrees = {"Oslo": 3, "Cairo": 31}
    return json.dumps({"city": city, "temperature": degrees.get(city, 20), "unit": unit})


def run_conversation():
    messages = [{"role": "user", "content": "How warm is it in Oslo?"}]
    functions = [
        {
            "name": "get_weather",
            "description": "Return the current weather of a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city"],
            },
        }
    ]
    response = openai.ChatCompletion.create(
        model="gpt-3.5-turbo-0613",
        messages=messages,
        functions=functions,
        function_call="auto",
    )
    response_message = response["choices"][0]["message"]

    if response_message.get("function_call"):
        available = {"get_weather": get_weather}
        name = response_message["function_call"]["name"]
        arguments = json.loads(response_message["function_call"]["arguments"])
        result = available[name](city=arguments.get("city"), unit=arguments.get("unit", "celsius"))
        messages.append(response_message)
        messages.append({"role": "function", "name": name, "content": result})
        second = openai.ChatCompletion.create(model="gpt-3.5-turbo-0613", messages=messages)
        return second
    return response


print(run_conversation()["choices"][0]["message"]["content"])
