"""200 clients write to one conversation, through two gateways on one PostgreSQL."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai
from openai.types.conversations import ConversationItem

from tests.gateway.backend_replies import Turn, reply_script
from tests.gateway.background.requests import run_nodes
from tests.gateway.scripted_backend import ReceivedRequest, Script, ScriptedBackend
from tests.judges.reading import objects_in, text_in

WRITERS = 200


def test_200_clients_lose_nothing(tmp_path: Path, backend: ScriptedBackend) -> None:
    def reply(received: ReceivedRequest) -> Script:
        request = received.json()
        last = objects_in(request, "messages")[-1]["content"]
        return reply_script("chat", Turn(f"{last}.reply"), request)

    with run_nodes(backend, tmp_path, "", "", kind="postgresql") as nodes:
        model, conversations = nodes[0].new_model("chat"), nodes[0].sdk.conversations
        backend.respond_with(model, reply)
        name = conversations.create().id
        asyncio.run(write_all([node.gateway.url for node in nodes], model, name))
        listed = texts(conversations.items.list(name, order="asc", limit=100))
        assert texts(conversations.items.list(name, limit=100)) == listed[::-1]
    groups = [texts_of(writer) for writer in range(WRITERS)]
    assert sorted(listed) == sorted(text for group in groups for text in group)
    for group in groups:
        first = listed.index(group[0])
        assert listed[first : first + len(group)] == group


def texts(items: Iterable[ConversationItem]) -> list[str]:
    return [text_in(objects_in(item.to_dict(), "content")[0], "text") for item in items]


def texts_of(writer: int) -> list[str]:
    """Return the texts of a writer: items, if its number is odd, or else a turn."""
    name = f"w{writer}"
    return [f"{name}.a", f"{name}.b", f"{name}.c"] if writer % 2 else [name, f"{name}.reply"]


async def write_all(urls: list[str], model: str, conversation: str) -> None:
    clients = [openai.AsyncOpenAI(base_url=url, api_key="sk-test", timeout=120) for url in urls]
    try:
        used = (clients[number // 2 % 2] for number in range(WRITERS))
        writes = (write(it, model, conversation, number) for number, it in enumerate(used))
        await asyncio.gather(*writes)
    finally:
        for client in clients:
            await client.close()


async def write(client: openai.AsyncOpenAI, model: str, conversation: str, writer: int) -> None:
    own = texts_of(writer)
    turn: Any = {"model": model, "input": own[0], "conversation": conversation}
    if writer % 2:
        items: Any = [{"role": "user", "content": text} for text in own]
        created = await client.conversations.items.create(conversation, items=items)
        assert len(created.data) == len(items)
    elif writer % 4:
        reply = await client.responses.create(model=model, input=own[0], conversation=conversation)
        assert reply.output_text == own[1]
    else:
        async with client.responses.stream(**turn) as events:
            assert (await events.get_final_response()).output_text == own[1]
