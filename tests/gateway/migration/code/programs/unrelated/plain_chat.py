"""A chat without functions."""
from openai import OpenAI

client = OpenAI()
history = [{"role": "system", "content": "Explain what a function call is."}]
for question in ("What is a stack frame?", "What is finish_reason?"):
    history.append({"role": "user", "content": question})
    reply = client.chat.completions.create(model="gpt-4o", messages=history)
    choice = reply.choices[0]
    if choice.finish_reason == "length":
        print("cut off")
    history.append({"role": "assistant", "content": choice.message.content})
    print(choice.message.content)
