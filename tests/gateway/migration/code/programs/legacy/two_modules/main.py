import openai

from tools import SCHEMAS, dispatch

messages = [{"role": "user", "content": "Do we have chairs? If not, order five."}]
message = {"role": "assistant", "content": None}
for _ in range(6):
    response = openai.ChatCompletion.create(
        model="gpt-3.5-turbo", messages=messages, functions=SCHEMAS
    )
    message = response.choices[0].message
    messages.append(message)
    if "function_call" not in message:
        break
    messages.append(dispatch(message["function_call"]))
print(message["content"])
