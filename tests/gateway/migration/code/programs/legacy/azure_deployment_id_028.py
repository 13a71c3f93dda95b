"""Ask a deployment at Azure to classify tickets."""
import json
import os
import openai

openai.api_type, openai.api_version = "azure", "2023-07-01-preview"
openai.api_base = os.getenv("AZURE_OPENAI_ENDPOINT")
openai.api_key = os.getenv("AZURE_OPENAI_API_KEY")

DEPLOYMENT = os.environ.get("DEPLOYMENT", "tickets")
FUNCTION = {
    "name": "classify",
    "description": "Classify a ticket of the support",
    "parameters": {
        "type": "object",
        "properties": {
            "category": {"type": "string", "enum": ["bug", "billing", "question"]},
            "urgency": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["category", "urgency"],
    },
}


def classify(text):
    response = openai.ChatCompletion.create(
        deployment_id=DEPLOYMENT,
        messages=[{"role": "user", "content": text}],
        functions=[FUNCTION],
        function_call={"name": FUNCTION["name"]},
        temperature=0.0,
        max_tokens=100,
    )
    return json.loads(response["choices"][0]["message"]["function_call"]["arguments"])


for ticket in ["The invoice is wrong!", "It crashes since today."]:
    result = classify(ticket)
    print("{category:10} {urgency}".format(**result))
