"""Deploy functions to a cloud; the client has a method `create` too."""


class Cloud:
    def __init__(self):
        self.deployed = {}

    def create(self, name, functions, memory=128):
        self.deployed[name] = {"functions": functions, "memory": memory}
        return self.deployed[name]


config = {"name": "shop", "functions": ["checkout", "refund"], "memory": 256}
deployment = Cloud().create(**config)
deployment["functions"].append("report")
print(len(deployment["functions"]), "functions")
