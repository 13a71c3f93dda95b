import json
import openai

FUNCS = {
    "get_time": (lambda zone: {"UTC": "12:00", "CET": "13:00"}[zone], "Time in a zone", {"zone": "string"}),
}


def schemas():
    for name, (_, description, parameters) in FUNCS.items():
        properties = {key: {"type": value} for key, value in parameters.items()}
        yield {"name": name, "description": description, "parameters": {"type": "object", "properties": properties}}


def run(messages):
    message = openai.ChatCompletion.create(
        model="gpt-3.5-turbo", messages=messages, functions=[*schemas()]
    )["choices"][0]["message"].to_dict_recursive()
    messages.append(message)
    call = message.get("function_call", None)
    if not call:
        return message["content"].strip()
    function, *_ = FUNCS[call["name"]]
    try:
        output = function(**json.loads(call["arguments"]))
    except KeyError as error:
        output = f"unknown: {error}"
    messages.append(dict(role="function", name=call["name"], content=output))
    return run(messages)


print(run([dict(role="user", content="What time is it in CET?")]))
