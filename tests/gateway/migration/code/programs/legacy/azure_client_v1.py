import json
import os

from openai import AzureOpenAI

client = AzureOpenAI(
    azure_endpoint=os.environ["AZURE_ENDPOINT"],
    api_key=os.environ["AZURE_KEY"],
    api_version="2023-12-01-preview",
)


def create_ticket(summary, team="it"):
    return {"id": 4711, "summary": summary, "team": team}


messages = [{"role": "user", "content": "My keyboard is broken"}]
response = client.chat.completions.create(
    model="helpdesk",  # the name of the deployment
    messages=messages,
    functions=[
        {
            "name": "create_ticket",
            "description": "Open a ticket",
            "parameters": {
                "type": "object",
                "properties": {
                    "summary": {"type": "string"},
                    "team": {"type": "string", "enum": ["it", "facility"]},
                },
                "required": ["summary"],
            },
        },
    ],
    function_call="auto",
)
response_message = response.choices[0].message
if response_message.function_call:
    function_args = json.loads(response_message.function_call.arguments)
    ticket = create_ticket(
        summary=function_args.get("summary"),
        team=function_args.get("team", "it"),
    )
    # The call has to precede its result.
    messages.append(
        {
            "role": response_message.role,
            "function_call": {
                "name": response_message.function_call.name,
                "arguments": response_message.function_call.arguments,
            },
            "content": None,
        }
    )
    messages.append(
        {
            "role": "function",
            "name": response_message.function_call.name,
            "content": json.dumps(ticket),
        }
    )
    second_response = client.chat.completions.create(model="helpdesk", messages=messages)
    print(second_response.choices[0].message.content)
