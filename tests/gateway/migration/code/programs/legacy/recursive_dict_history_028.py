import json
import openai

functions = [
    {"name": "list_files", "description": "List the files of a folder",
     "parameters": {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]}},
    {"name": "read_file", "description": "Read a file",
     "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
]
DISK = {"notes/todo.txt": "buy milk", "notes/done.txt": "sleep"}

def list_files(folder):
    return [path for path in DISK if path.startswith(folder)]

def read_file(path):
    return DISK.get(path, "no such file")

def step(messages, depth=0):
    if depth > 5:
        return "too many steps"
    response = openai.ChatCompletion.create(model="gpt-4-0613", messages=messages, functions=functions)
    choice = response["choices"][0]
    message = choice["message"]
    if choice["finish_reason"] != "function_call":
        return message["content"]
    call = message["function_call"]
    args = json.loads(call["arguments"])
    print("  " * depth + call["name"], args)
    output = globals()[call["name"]](**args)
    history = messages + [
        {"role": "assistant", "content": message["content"], "function_call": {"name": call["name"], "arguments": call["arguments"]}},
        {"role": "function", "name": call["name"], "content": json.dumps(output)},
    ]
    return step(history, depth + 1)

print(step([{"role": "user", "content": "What do I have to do?"}]))
