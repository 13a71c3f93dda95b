"""The OpenAI SDK for Python from version 1: Chat and Responses, also at Azure's paths."""

import sys
from urllib.parse import urlsplit

import harness
import openai


def client_for(run, paths):
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(run.base_url))
    if paths == "azure":
        return openai.AzureOpenAI(azure_endpoint=origin, api_version="2024-10-21", max_retries=0)
    url = f"{origin}/openai/v1/" if paths == "azure-v1" else run.base_url
    return openai.OpenAI(base_url=url, max_retries=0)


def chat(run, client):
    completions = client.chat.completions
    # The stream helper was in `beta` first.
    helper = completions if hasattr(completions, "stream") else client.beta.chat.completions
    tools = [{"type": "function", "function": {**one, "strict": True}} for one in harness.FUNCTIONS]
    messages = [{"role": "system", "content": "Be brief."}]
    for prompt in run.prompts:
        messages.append({"role": "user", "content": prompt})
        while True:
            request = {"model": run.model, "messages": messages, "tools": tools}
            if run.stream:
                with helper.stream(**request) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                message = completions.create(**request).choices[0].message
            messages.append(message.to_dict())
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                result = run.call(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        yield message.content


def responses(run, client):
    tools = [{"type": "function", "strict": True, **one} for one in harness.FUNCTIONS]
    items = []
    for prompt in run.prompts:
        items.append({"role": "user", "content": prompt})
        while True:
            request = {"model": run.model, "input": items, "tools": tools}
            if run.stream:
                with client.responses.stream(**request) as events:
                    response = events.get_final_response()
            else:
                response = client.responses.create(**request)
            items += [item.to_dict() for item in response.output]
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            for call in calls:
                result = run.call(call.name, call.arguments)
                output = {"type": "function_call_output", "call_id": call.call_id, "output": result}
                items.append(output)
        yield response.output_text


def conversation(run):
    api, *paths = sys.argv[1:]
    client = client_for(run, paths[0] if paths else None)
    return [*(responses if api == "responses" else chat)(run, client)]


harness.main(conversation)
