"""The functions of the shop."""
import json

STOCK = {"lamp": 3, "chair": 0}

SCHEMAS = [
    {
        "name": "check_stock",
        "description": "How many of an article are in stock",
        "parameters": {
            "type": "object",
            "properties": {"article": {"type": "string"}},
            "required": ["article"],
        },
    },
    {
        "name": "order",
        "description": "Order an article from the factory",
        "parameters": {
            "type": "object",
            "properties": {"article": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["article", "count"],
        },
    },
]


def check_stock(article):
    return STOCK.get(article, 0)


def order(article, count):
    return {"ordered": count, "article": article}


def dispatch(function_call):
    arguments = json.loads(function_call["arguments"])
    function = {"check_stock": check_stock, "order": order}[function_call["name"]]
    return {"role": "function", "name": function_call["name"], "content": json.dumps(function(**arguments))}
