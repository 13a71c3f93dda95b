import json, os
import openai

openai.api_key = os.getenv("OPENAI_API_KEY")

schema = {
    'name': 'save_contact',
    'description': 'Save the contact data that a text contains',
    'parameters': {
        'type': 'object',
        'properties': {
            'name': {'type': 'string'},
            'email': {'type': 'string'},
            'phone': {'type': 'string'},
        },
        'required': ['name'],
    },
}

TEXT = "Please write to Ada Lovelace, ada@example.org, about the engine."

completion = openai.ChatCompletion.create(
    model='gpt-3.5-turbo-0613',
    messages=[
        {'role': 'system', 'content': 'Extract contact data.'},
        {'role': 'user', 'content': TEXT},
    ],
    functions=[schema],
    function_call={'name': 'save_contact'},
    temperature=0,
)
# The call is forced, so there is always one.
data = json.loads(completion.choices[0].message.function_call.arguments)
for key in sorted(data):
    print(f'{key}: {data[key]}')
