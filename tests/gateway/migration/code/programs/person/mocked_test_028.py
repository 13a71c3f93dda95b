"""A test replaces the method of the SDK by its name."""
import json
import unittest
from unittest.mock import patch

import openai


def extract(text):
    response = openai.ChatCompletion.create(
        model="gpt-4",
        messages=[{"role": "user", "content": text}],
        functions=[{"name": "save", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}}],
        function_call={"name": "save"},
    )
    return json.loads(response["choices"][0]["message"]["function_call"]["arguments"])


class ExtractTest(unittest.TestCase):
    @patch("openai.ChatCompletion.create")
    def test_name_is_extracted(self, create):
        call = {"name": "save", "arguments": '{"name": "Ada"}'}
        create.return_value = {"choices": [{"message": {"function_call": call}}]}
        self.assertEqual(extract("I am Ada"), {"name": "Ada"})


if __name__ == "__main__":
    unittest.main()
