"""Two hundred writers to one conversation, over two gateways on one PostgreSQL."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai
from openai.types.conversations import ConversationItem

from tests.gateway.conftest import Fresh, state, tables
from tests.gateway.keeping import client_of
from tests.gateway.postgres import new_database
from tests.gateway.process import running
from tests.gateway.scripted import Received, Script, ScriptedBackend
from tests.gateway.speech import Turn, script
from tests.judges.reading import objects_in, text_in

WRITERS = 200


def test_two_hundred_writers_lose_nothing(
    tmp_path: Path, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")

    def answered(received: Received) -> Script:
        """Answer each writer by its name."""
        asked = received.json()
        last = objects_in(asked, "messages")[-1]["content"]
        return script("chat", Turn(f"{last}.answer"), asked)

    backend.play_always(model, answered)
    settings = state(new_database()) + tables(backend.address)
    (tmp_path / "other").mkdir()
    with (
        running(settings, tmp_path) as one,
        running(settings, tmp_path / "other") as other,
        client_of(one) as client,
    ):
        name = client.conversations.create().id
        asyncio.run(write_all([one.url, other.url], model, name))
        found = texts(client.conversations.items.list(name, order="asc", limit=100))
        assert texts(client.conversations.items.list(name, limit=100)) == found[::-1]
    expected = [said(writer) for writer in range(WRITERS)]
    assert sorted(found) == sorted(text for group in expected for text in group)
    for group in expected:
        place = found.index(group[0])
        assert found[place : place + len(group)] == group


def texts(items: Iterable[ConversationItem]) -> list[str]:
    return [text_in(objects_in(item.to_dict(), "content")[0], "text") for item in items]


def said(writer: int) -> list[str]:
    """Give what a writer adds: those with odd numbers add items, the others have responses made."""
    return [f"w{writer}.{part}" for part in ("a", "b", "c")] if writer % 2 else response_of(writer)


def response_of(writer: int) -> list[str]:
    return [f"w{writer}", f"w{writer}.answer"]


async def write_all(urls: list[str], model: str, name: str) -> None:
    clients = [openai.AsyncOpenAI(base_url=url, api_key="sk-me", timeout=120) for url in urls]
    try:
        await asyncio.gather(
            *(write(clients[number // 2 % 2], model, name, number) for number in range(WRITERS))
        )
    finally:
        for client in clients:
            await client.close()


async def write(client: openai.AsyncOpenAI, model: str, name: str, writer: int) -> None:
    own = said(writer)
    if writer % 2:
        items: Any = [{"role": "user", "content": text} for text in own]
        made = await client.conversations.items.create(name, items=items)
        assert len(made.data) == len(items)
    elif writer % 4:
        response = await client.responses.create(model=model, input=own[0], conversation=name)
        assert response.output_text == own[1]
    else:
        async with client.responses.stream(model=model, input=own[0], conversation=name) as events:
            assert (await events.get_final_response()).output_text == own[1]
