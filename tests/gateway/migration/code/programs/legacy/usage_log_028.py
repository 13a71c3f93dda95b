import json
import openai

LOG = open("requests.jsonl", "a")
total_tokens = 0


def logged(**request):
    global total_tokens
    response = openai.ChatCompletion.create(**request)
    total_tokens += response["usage"]["total_tokens"]
    LOG.write(json.dumps({"request": request, "response": response}) + "\n")
    return response["choices"][0]["message"]


def get_tide(harbour):
    return "high" if harbour == "Brest" else "low"


request = {
    "model": "gpt-4",
    "messages": [{"role": "user", "content": "How is the tide in Brest?"}],
    "functions": [{"name": "get_tide", "parameters": {"type": "object", "properties": {"harbour": {"type": "string"}}}}],
}
message = logged(**request)
if message.get("function_call"):
    request["messages"].append(message)
    request["messages"].append({
        "role": "function",
        "name": message["function_call"]["name"],
        "content": get_tide(**json.loads(message["function_call"]["arguments"])),
    })
    message = logged(**request)
print(message["content"])
print(total_tokens, "tokens")
LOG.close()
