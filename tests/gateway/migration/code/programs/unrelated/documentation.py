'''Texts about functions, as they are printed for the users of a gateway.

    messages.append({"role": "function", "name": "f", "content": "1"})
    if message.function_call: ...
'''

OLD = """client.chat.completions.create(functions=[...], function_call="auto")"""
NEW = """client.chat.completions.create(tools=[...], tool_choice="auto")"""
# functions=... was replaced by tools=...
print(f"Replace\n  {OLD}\nby\n  {NEW}")
