"""Instructor: a model is forced to call a function that stands for a type."""

import sys

import harness
import instructor
import openai
from pydantic import BaseModel

MODES = {"chat": instructor.Mode.TOOLS, "responses": instructor.Mode.RESPONSES_TOOLS}


class get_weather(BaseModel):  # noqa: N801 - the name of the tool
    city: str


class get_time(BaseModel):  # noqa: N801 - the name of the tool
    city: str


class final_answer(BaseModel):  # noqa: N801 - the name of the tool
    answer: str


def create(run, client, kind, prompt):
    request = {
        "model": run.model,
        "messages": [{"role": "user", "content": prompt}],
        "response_model": kind,
        "max_retries": 0,
    }
    if not run.stream:
        return client.chat.completions.create(**request)
    for value in client.chat.completions.create_partial(**request):
        last = value
    return last


def conversation(run):
    client = openai.OpenAI(base_url=run.base_url, max_retries=0)
    client = instructor.from_openai(client, mode=MODES[sys.argv[1]])
    question, farewell = run.prompts
    cities = [create(run, client, kind, question).city for kind in (get_weather, get_time)]
    yield f"{run.get_weather(cities[0])} / {run.get_time(cities[1])}"
    yield create(run, client, final_answer, farewell).answer


harness.main(lambda run: [*conversation(run)])
