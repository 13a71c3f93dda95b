import json
import openai

def add_event(title, day):
    return json.dumps({"added": title, "day": day})

def stream_chat(messages, functions):
    response = openai.ChatCompletion.create(
        model='gpt-3.5-turbo-0613',
        messages=messages,
        functions=functions,
        function_call='auto',
        stream=True,
    )
    function_call = {'name': None, 'arguments': ''}
    for chunk in response:
        choice = chunk['choices'][0]
        delta = choice['delta']
        if delta.get('function_call'):
            piece = delta['function_call']
            if piece.get('name'):
                function_call['name'] = piece['name']
            function_call['arguments'] += piece.get('arguments', '')
        if choice.get('finish_reason') == 'function_call':
            return function_call
        if delta.get('content'):
            print(delta['content'], end='')
    print()
    return None

functions = [{
    'name': 'add_event',
    'description': 'Add an event to the calendar',
    'parameters': {
        'type': 'object',
        'properties': {'title': {'type': 'string'}, 'day': {'type': 'string'}},
        'required': ['title', 'day'],
    },
}]
messages = [{'role': 'user', 'content': 'Lunch with Bo on Friday'}]
call = stream_chat(messages, functions)
if call is not None:
    messages.append({'role': 'assistant', 'content': '', 'function_call': call})
    messages.append({
        'role': 'function',
        'name': call['name'],
        'content': add_event(**json.loads(call['arguments'])),
    })
    stream_chat(messages, functions)
