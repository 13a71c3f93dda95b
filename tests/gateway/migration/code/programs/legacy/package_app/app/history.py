class History:
    """The messages of a conversation."""

    def __init__(self):
        self.messages = []

    def add_user(self, text):
        self.messages.append({"role": "user", "content": text})

    def add_assistant(self, text):
        self.messages.append({"role": "assistant", "content": text})

    def add_call(self, message):
        self.messages.append(message)

    def add_result(self, name, content):
        self.messages.append({"role": "function", "name": name, "content": content})
