"""Plots of functions; nothing here calls a model."""

import math

functions = {"sine": math.sin, "cosine": math.cos, "root": math.sqrt}


def table(functions, values):
    return {name: [round(function(value), 2) for value in values] for name, function in functions.items()}


for name, row in table(functions=functions, values=[0, 1, 4]).items():
    print(name, row)
