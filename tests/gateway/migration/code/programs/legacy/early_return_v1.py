import json

from openai import OpenAI

client = OpenAI(max_retries=1)


def send_email(to: str, subject: str, body: str = "") -> dict:
    return {"status": "sent", "to": to}


def handle(prompt: str) -> str:
    messages = [{"role": "user", "content": prompt}]
    completion = client.chat.completions.create(
        model="gpt-4",
        messages=messages,
        functions=[{
            "name": "send_email",
            "description": "Send an e-mail",
            "parameters": {
                "type": "object",
                "properties": {
                    "to": {"type": "string"},
                    "subject": {"type": "string"},
                    "body": {"type": "string"},
                },
                "required": ["to", "subject"],
            },
        }],
    )
    msg = completion.choices[0].message
    if not msg.function_call:
        return msg.content
    if msg.function_call.name != "send_email":
        raise ValueError(msg.function_call.name)
    try:
        args = json.loads(msg.function_call.arguments)
    except json.JSONDecodeError:
        return "The arguments are no JSON."
    sent = send_email(args["to"], args["subject"], body=args.get("body", ""))
    return f"{sent['status']} to {sent['to']}: {args['subject']}"


print(handle("Tell ada@example.org that the meeting is at 3"))
print(handle("How are you?"))
