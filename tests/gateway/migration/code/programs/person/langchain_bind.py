import json

from langchain_core.utils.function_calling import convert_to_openai_function
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Joke(BaseModel):
    """A joke."""

    setup: str
    punchline: str


model = ChatOpenAI(model="gpt-4").bind_functions([convert_to_openai_function(Joke)], function_call="Joke")
message = model.invoke("Tell a joke about gateways")
call = message.additional_kwargs["function_call"]
print(Joke(**json.loads(call["arguments"])))
