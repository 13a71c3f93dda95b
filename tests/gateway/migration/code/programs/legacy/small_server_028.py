"""A web service with one path, and a request to it."""
import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import openai

functions = [
    {
        "name": "reverse",
        "description": "Reverse a text",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }
]


def reverse(text):
    return text[::-1]


def reply_to(prompt):
    messages = [{"role": "user", "content": prompt}]
    response = openai.ChatCompletion.create(model="gpt-4", messages=messages, functions=functions)
    message = response["choices"][0]["message"]
    if message.get("function_call"):
        result = reverse(**json.loads(message["function_call"]["arguments"]))
        messages.append(message)
        messages.append({"role": "function", "name": "reverse", "content": result})
        response = openai.ChatCompletion.create(model="gpt-4", messages=messages, functions=functions, function_call="none")
    return response["choices"][0]["message"]["content"]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"answer": reply_to(body["prompt"])}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
thread = threading.Thread(target=server.handle_request)
thread.start()
url = f"http://127.0.0.1:{server.server_port}/"
data = json.dumps({"prompt": "Reverse 'gateway'"}).encode()
with urllib.request.urlopen(url, data) as response:
    print(json.load(response)["answer"])
thread.join()
server.server_close()
