import json

from openai import OpenAI


def make_agent(client, model, *functions):
    schemas = [function.schema for function in functions]
    by_name = {function.__name__: function for function in functions}

    def call(message):
        function = by_name[message.function_call.name]
        return function(**json.loads(message.function_call.arguments))

    def agent(prompt, history=None):
        messages = list(history or [])
        messages.append({"role": "user", "content": prompt})

        def step():
            return client.chat.completions.create(
                model=model, messages=messages, functions=schemas
            ).choices[0].message

        message = step()
        while message.function_call:
            messages.append(message)
            messages.append({"role": "function", "name": message.function_call.name, "content": call(message)})
            message = step()
        return message.content

    return agent


def word_of_the_day(language):
    return {"Welsh": "hiraeth", "Danish": "hygge"}[language]


word_of_the_day.schema = {
    "name": "word_of_the_day",
    "description": "A word to learn",
    "parameters": {"type": "object", "properties": {"language": {"type": "string"}}},
}

agent = make_agent(OpenAI(), "gpt-4", word_of_the_day)
print(agent("A Welsh and a Danish word"))
