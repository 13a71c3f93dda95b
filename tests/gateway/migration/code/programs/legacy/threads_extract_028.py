import ast
from concurrent.futures import ThreadPoolExecutor

import openai

SENTENCES = ["I love it", "It is awful", "It exists"]

function = dict(
    name="sentiment",
    description="Report the sentiment of a sentence",
    parameters=dict(
        type="object",
        properties=dict(score=dict(type="number"), label=dict(type="string")),
        required=["score", "label"],
    ),
)


def analyse(sentence):
    completion = openai.ChatCompletion.create(
        model="gpt-3.5-turbo-0613",
        messages=[{"role": "user", "content": f"Sentiment of: {sentence}"}],
        functions=[function],
        function_call={"name": function["name"]},
    )
    reply = completion["choices"][0]["message"]
    arguments = reply["function_call"]["arguments"]
    return ast.literal_eval(arguments.replace("\n", " "))


with ThreadPoolExecutor(max_workers=3) as pool:
    for sentence, found in zip(SENTENCES, pool.map(analyse, SENTENCES)):
        print(f"{found['label']:>8} {found['score']:+.1f} {sentence}")
