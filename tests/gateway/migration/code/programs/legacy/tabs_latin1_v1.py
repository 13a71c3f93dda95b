# -*- coding: latin-1 -*-
"""Preise für Gäste (written with tabs, on Windows)."""
import json

from openai import OpenAI

client = OpenAI()
functions = [
	{
		"name": "room_price",
		"description": "Price of a room",
		"parameters": {
			"type": "object",
			"properties": {"guests": {"type": "integer"}},	# at least one
			"required": ["guests"],
		},
	},
]


def room_price(guests):
	return "%d £" % (40 + 25 * guests)


messages = [{"role": "user", "content": "Was kostet ein Zimmer für zwei Gäste?"}]
while True:
	response = client.chat.completions.create(
		model="gpt-4",
		messages=messages,
		functions=functions,	# one function
	)
	message = response.choices[0].message
	if not message.function_call:
		print(message.content)
		break
	messages.append(message)
	messages.append({
		"role": "function",
		"name": message.function_call.name,
		"content": room_price(**json.loads(message.function_call.arguments)),
	})
