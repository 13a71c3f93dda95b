#!/usr/bin/env python
# -*- coding: utf-8 -*-
import json
import openai


def get_exchange_rate(base, target):
    """Rate of the day."""
    return 1.0876 if (base, target) == ("EUR", "USD") else None


def ask(question):
    data = {
        "model": "gpt-4-0613",
        "messages": [{"role": "user", "content": question}],
        "functions": [
            {
                "name": "get_exchange_rate",
                "description": "Get the exchange rate of two currencies",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "base": {"type": "string"},
                        "target": {"type": "string"},
                    },
                    "required": ["base", "target"],
                },
            },
        ],
        "function_call": "auto",
        "temperature": 0.2,
    }
    result = openai.ChatCompletion.create(**data, request_timeout=30)
    message = result["choices"][0]["message"]
    if "function_call" not in message:
        return message["content"]
    function_name = message["function_call"]["name"]
    args = json.loads(message["function_call"]["arguments"])
    rate = get_exchange_rate(args["base"], args["target"])
    data["messages"].append(message)
    data["messages"].append({"role": "function", "name": function_name, "content": str(rate)})
    del data["functions"], data["function_call"]
    return openai.ChatCompletion.create(**data)["choices"][0]["message"]["content"]


print(ask(u"What is 1 € in dollars?"))
