"""Version 0.28 of the OpenAI SDK for Python: legacy functions, the model given as `engine`."""

import harness
import openai


def read_stream(chunks):
    """Join a stream as the examples of that time do: all strings are concatenated."""
    message = {"role": "assistant", "content": "", "function_call": None}
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            if delta.get("function_call"):
                call = message["function_call"] or {"name": "", "arguments": ""}
                for name in call:
                    call[name] += delta["function_call"].get(name) or ""
                message["function_call"] = call
    return message


def conversation(run):
    openai.api_base = run.base_url
    messages = [{"role": "system", "content": "Be brief."}]
    for prompt in run.prompts:
        messages.append({"role": "user", "content": prompt})
        while True:
            reply = openai.ChatCompletion.create(
                engine=run.model,
                messages=messages,
                functions=harness.FUNCTIONS,
                stream=run.stream,
            )
            message = read_stream(reply) if run.stream else reply["choices"][0]["message"]
            call = message.get("function_call")
            if not call:
                messages.append({"role": "assistant", "content": message["content"]})
                break
            messages.append({"role": "assistant", "content": None, "function_call": call})
            result = run.call(call["name"], call["arguments"])
            messages.append({"role": "function", "name": call["name"], "content": result})
        yield message["content"]


harness.main(lambda run: [*conversation(run)])
