"""Find the calls in a source, with words that also appear in chat requests."""
import ast
from dataclasses import dataclass


@dataclass
class Node:
    kind: str
    function_call: str | None = None


def find(source: str) -> list[Node]:
    nodes = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            nodes.append(Node("call", function_call=node.func.id))
    return nodes


for node in find("print(len('abc'))"):
    if node.function_call:
        print(node.kind, node.function_call)
