"""Background work over both databases: two nodes, one of which may be gone."""

import asyncio
from contextlib import aclosing
from pathlib import Path

from msgspec import Raw

from gateway.store import Conversation, Event, Page, Store, StoredTurn
from gateway.store.store import open_database
from tests.gateway.stores import BOTH, item, names, new_url, opened, over_both, response, turn

# A lease that nobody outlives, and one that has run out when it begins.
LONG, NONE = 600.0, -1.0
REQUEST = Raw(b'{"model":"m"}')


def queued(name: str = "j", **fields: object) -> StoredTurn:
    return StoredTurn(response(name, status="queued", **fields), (item(f"{name}-in"),))


def events(*numbers: int) -> list[Event]:
    return [Event(number, Raw(b'{"n":%d}' % number)) for number in numbers]


async def read(store: Store, name: str = "j", after: int = -1, owner: str = "me") -> list[int]:
    return [event.number async for event in store.jobs.follow_events(owner, name, after)]


@over_both
async def test_a_job_from_beginning_to_end(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", LONG)
    found = await other.responses.load("me", "j")
    assert found is not None
    assert found == StoredTurn(queued().response, found.input)
    assert names(found.input) == ["j-in"]
    assert await store.jobs.mark_in_progress("j", "A", Raw(b'"working"'))
    found = await other.responses.load("me", "j")
    assert found is not None
    assert (found.response.status, found.response.body) == ("in_progress", Raw(b'"working"'))
    assert await store.jobs.append_events("j", "A", events(0, 1))
    assert await store.jobs.finish(turn("j").response, "A", [item("j-out")], events(2))
    found = await other.jobs.wait_until_finished("me", "j", LONG)
    assert found is not None
    assert found.response == turn("j").response
    assert names(found.input + found.output) == ["j-in", "j-out"]
    assert await read(other) == [0, 1, 2]
    assert await read(other, after=1) == [2]
    # There is nothing left to do.
    assert not await store.jobs.append_events("j", "A", events(3))
    assert not await store.jobs.request_cancel("me", "j")
    assert await other.jobs.claim_expired("B", NONE) == ()


@over_both
async def test_a_stream_is_followed_live_on_another_node(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", LONG)
    assert await store.jobs.append_events("j", "A", events(0, 1))
    async with aclosing(other.jobs.follow_events("me", "j", 0)) as following:
        assert (await anext(following)).number == 1
        for number in range(2, 5):
            coming = asyncio.ensure_future(anext(following))
            assert await store.jobs.append_events("j", "A", events(number))
            assert (await coming).number == number
        assert await store.jobs.finish(turn("j").response, "A", [], events(5))
        assert [event.number async for event in following] == [5]


@BOTH
def test_who_follows_a_stream_is_told_of_news(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run() -> None:
        async with opened(url) as store:
            database = await open_database(url)
            # Whoever is not told would wait for ever.
            database.poll_seconds = LONG
            follower = Store(database)
            # Nobody tells processes that share a file: they look for themselves.
            node = store if kind == "postgresql" else follower
            await node.jobs.enqueue(queued(), REQUEST, "A", LONG)
            following = follower.jobs.follow_events("me", "j")
            for number in range(3):
                coming = asyncio.ensure_future(anext(following))
                assert await node.jobs.append_events("j", "A", events(number))
                assert (await coming).number == number
            ended = asyncio.ensure_future(anext(following, None))
            assert await node.jobs.finish(turn("j").response, "A", [], ())
            assert await ended is None
            await follower.close()

    asyncio.run(run())


@over_both
async def test_a_long_stream_is_read_to_its_end(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", LONG)
    reading = asyncio.gather(read(store), read(other, after=700))
    for begin in range(0, 1200, 100):
        assert await store.jobs.append_events("j", "A", events(*range(begin, begin + 100)))
    assert await store.jobs.finish(turn("j").response, "A", [], ())
    whole, rest = await reading
    assert whole == list(range(1200))
    assert rest == list(range(701, 1200))


@over_both
async def test_a_stream_of_another_owner_is_not_there(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", LONG)
    await store.jobs.append_events("j", "A", events(0))
    assert await read(other, owner="you") == []
    assert await other.jobs.wait_until_finished("you", "j", LONG) is None
    assert not await other.jobs.request_cancel("you", "j")
    assert await store.jobs.renew_leases("A", LONG) == {"j": False}


@over_both
async def test_the_end_is_not_waited_for_too_long(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", LONG)
    found = await other.jobs.wait_until_finished("me", "j", 0.01)
    assert found is not None
    assert found.response.status == "queued"


@over_both
async def test_the_working_node_learns_that_its_job_is_cancelled(
    store: Store, other: Store
) -> None:
    for name in ("j", "k"):
        await store.jobs.enqueue(queued(name), REQUEST, "A", LONG)
    assert await store.jobs.renew_leases("A", LONG) == {"j": False, "k": False}
    assert await other.jobs.request_cancel("me", "j")
    assert await store.jobs.renew_leases("A", LONG) == {"j": True, "k": False}
    waiting = asyncio.ensure_future(other.jobs.wait_until_finished("me", "j", LONG))
    await store.jobs.finish(response("j", status="cancelled"), "A", [], ())
    found = await waiting
    assert found is not None
    assert found.response.status == "cancelled"
    assert await store.jobs.renew_leases("A", LONG) == {"k": False}


@over_both
async def test_jobs_of_a_dead_node_are_taken_over_once(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued("begun"), REQUEST, "A", LONG)
    assert await store.jobs.mark_in_progress("begun", "A", Raw(b"1"))
    assert await store.jobs.append_events("begun", "A", events(0, 1, 2))
    await store.jobs.enqueue(queued("waiting"), REQUEST, "A", LONG)
    await store.jobs.enqueue(queued("alive"), REQUEST, "B", LONG)
    assert await other.jobs.request_cancel("me", "waiting")
    assert await other.jobs.claim_expired("C", LONG) == ()
    await store.jobs.renew_leases("A", NONE)
    claims = await asyncio.gather(
        *(
            node.jobs.claim_expired(f"C{number}", LONG)
            for number in range(4)
            for node in (store, other)
        )
    )
    jobs = {job.response.id: job for claim in claims for job in claim}
    assert sum(map(len, claims)) == len(jobs) == 2
    begun, waiting = jobs["begun"], jobs["waiting"]
    assert (begun.response.status, begun.cancelled, begun.next_event) == ("in_progress", False, 3)
    assert (waiting.response.status, waiting.cancelled, waiting.next_event) == ("queued", True, 0)
    assert waiting.request == REQUEST


@over_both
async def test_a_job_has_events_before_it_is_begun(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", NONE, events(0, 1))
    [job] = await other.jobs.claim_expired("B", LONG)
    assert (job.response.status, job.next_event) == ("queued", 2)
    assert await other.jobs.mark_in_progress("j", "B", Raw(b"1"), events(2))
    assert await other.jobs.finish(turn("j").response, "B", [], events(3))
    assert await read(store) == [0, 1, 2, 3]


@over_both
async def test_a_node_gives_up_some_of_its_jobs(store: Store, other: Store) -> None:
    for name in ("j", "k", "l"):
        await store.jobs.enqueue(queued(name), REQUEST, "A", LONG)
    # Of another node's jobs it can give up none.
    await store.jobs.release("B", ["k"])
    await store.jobs.release("A", ["j", "l", "unknown"])
    claimed = await other.jobs.claim_expired("B", LONG)
    assert {job.response.id for job in claimed} == {"j", "l"}
    assert await store.jobs.renew_leases("A", LONG) == {"k": False}


@BOTH
def test_a_node_is_called_when_something_is_asked_of_it(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run() -> None:
        async with opened(url) as store, opened(url) as other:
            # Nobody tells processes that share a file: they look for themselves.
            asking = other if kind == "postgresql" else store
            for name in ("j", "k"):
                await store.jobs.enqueue(queued(name), REQUEST, "A", LONG)
            for ask in (
                lambda: asking.jobs.request_cancel("me", "j"),
                lambda: asking.jobs.release("A", ["k"]),
            ):
                called = asyncio.ensure_future(store.jobs.wait_for_signal("A", LONG))
                while not called.done():
                    # It listens from some moment on; whoever is not told would wait for ever.
                    await ask()
                    await asyncio.wait([called], timeout=0.05)
            # And otherwise it is not waited for too long.
            await store.jobs.wait_for_signal("B", 0.01)

    asyncio.run(run())


@over_both
async def test_a_node_thought_dead_cannot_write_any_more(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", NONE)
    assert len(await other.jobs.claim_expired("B", LONG)) == 1
    failed = response("j", status="failed")
    late = [
        store.jobs.mark_in_progress("j", "A", Raw(b"1")),
        store.jobs.append_events("j", "A", events(0)),
        store.jobs.finish(turn("j").response, "A", [item("j-out")], events(1)),
    ]
    rightful = other.jobs.finish(failed, "B", [], events(0))
    assert await asyncio.gather(*late, rightful) == [False, False, False, True]
    assert await read(store) == [0]
    found = await store.responses.load("me", "j")
    assert found is not None
    assert (found.response.status, found.output) == ("failed", ())


@over_both
async def test_a_deleted_job_ends(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", LONG)
    waiting = asyncio.ensure_future(read(store))
    assert await other.responses.delete("me", "j")
    assert await waiting == []
    assert not await store.jobs.append_events("j", "A", events(0))


@over_both
async def test_a_job_enters_its_conversation_when_it_is_finished(
    store: Store, other: Store
) -> None:
    await store.conversations.create(Conversation("c", "me", 1000))
    await store.jobs.enqueue(queued(conversation="c"), REQUEST, "A", LONG)
    await other.conversations.append_items("me", "c", [item("between")])
    await store.jobs.finish(turn("j", conversation="c").response, "A", [item("j-out")], ())
    found = await other.conversations.list_items("me", "c", Page())
    assert found is not None
    assert names(found.data) == ["between", "j-in", "j-out"]
