# coding: utf-8
"""Extract the lines of an order."""

import json
from typing import List, Optional

from openai import OpenAI
from pydantic import BaseModel, Field, ValidationError


class Line(BaseModel):
    article: str
    count: int = Field(1, ge=1)


class Order(BaseModel):
    customer: Optional[str] = None
    lines: List[Line]


def to_function(model: type) -> dict:
    schema = model.model_json_schema()
    return {
        "name": model.__name__.lower(),
        "description": f"Return the {model.__name__.lower()} in the text.",
        "parameters": schema,
    }


def extract(model: type, text: str, attempts: int = 2):
    client = OpenAI()
    function = to_function(model)
    for _ in range(attempts):
        completion = client.chat.completions.create(
            model="gpt-4-1106-preview",
            messages=[
                {"role": "system", "content": "Use only what is written."},
                {"role": "user", "content": text},
            ],
            functions=[function],
            function_call={"name": function["name"]},
            seed=1,
        )
        arguments = completion.choices[0].message.function_call.arguments
        try:
            return model(**json.loads(arguments, strict=False))
        except ValidationError as e:
            print("again:", e.error_count(), "errors")
    return None


print(extract(Order, "Müller orders 3 lamps and a chair"))
