"""Semantic Kernel: chat completion with automatic function calls."""

import harness
from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
)
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function


async def conversation(run):
    class Tools:
        @kernel_function(name="get_weather", description="Return the weather of a city.")
        def get_weather(self, city: str) -> str:
            return run.get_weather(city)

        @kernel_function(name="get_time", description="Return the time in a city.")
        def get_time(self, city: str) -> str:
            return run.get_time(city)

    kernel = Kernel()
    kernel.add_plugin(Tools(), plugin_name="tools")
    client = AsyncOpenAI(base_url=run.base_url, max_retries=0)
    service = OpenAIChatCompletion(ai_model_id=run.model, async_client=client)
    settings = OpenAIChatPromptExecutionSettings(
        function_choice_behavior=FunctionChoiceBehavior.Auto()
    )
    history, texts = ChatHistory(system_message="Be brief."), []
    for prompt in run.prompts:
        history.add_user_message(prompt)
        if run.stream:
            pieces = service.get_streaming_chat_message_content(history, settings, kernel=kernel)
            text = "".join([str(piece) async for piece in pieces if piece])
        else:
            text = str(await service.get_chat_message_content(history, settings, kernel=kernel))
        history.add_assistant_message(text)
        texts.append(text)
    return texts


harness.main(conversation)
