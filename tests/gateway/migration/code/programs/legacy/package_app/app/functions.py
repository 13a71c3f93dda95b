import json


class Registry:
    def __init__(self):
        self.schemas = []
        self._functions = {}

    def register(self, description, **types):
        def decorator(function):
            self.schemas.append({
                "name": function.__name__,
                "description": description,
                "parameters": {
                    "type": "object",
                    "properties": {name: {"type": kind} for name, kind in types.items()},
                    "required": list(types),
                },
            })
            self._functions[function.__name__] = function
            return function

        return decorator

    async def execute(self, function_call):
        arguments = json.loads(function_call.arguments)
        return str(await self._functions[function_call.name](**arguments))


registry = Registry()


@registry.register("Whether a number is prime", number="integer")
async def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
