from enum import Enum
from typing import List

from openai import OpenAI
from pydantic import BaseModel, Field


class Priority(str, Enum):
    low = "low"
    high = "high"


class Task(BaseModel):
    """A task of a project."""

    title: str = Field(description="What is to be done")
    priority: Priority
    tags: List[str] = []


client = OpenAI()
response = client.chat.completions.create(
    model="gpt-4-0613",
    messages=[
        {"role": "system", "content": "You turn notes into tasks."},
        {"role": "user", "content": "urgent: renew the certificate (ops, security)"},
    ],
    functions=[
        {
            "name": "create_task",
            "description": Task.__doc__,
            "parameters": Task.model_json_schema(),
        }
    ],
    function_call={"name": "create_task"},
)
call = response.choices[0].message.function_call
task = Task.model_validate_json(call.arguments)
print(task.title, task.priority.value, ",".join(task.tags), sep=" | ")
