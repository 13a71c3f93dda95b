"""Background jobs on both databases, with two nodes, one of which may disappear."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from msgspec import Raw

from gateway.store import Conversation, Event, Item, JobUpdate, Response, Store, StoredTurn
from gateway.store.store import open_database
from tests.gateway.stores import (
    ids,
    item,
    load,
    load_items,
    opened_store,
    response,
    turn,
    two_stores,
    with_two_stores,
    with_url,
)

# A lease that outlasts any test, and one that has expired when it starts.
LONG, EXPIRED = 600.0, -1.0
REQUEST = Raw(b'{"model":"m"}')


def queued(response_id: str = "j", **fields: object) -> StoredTurn:
    return StoredTurn(
        response(response_id, status="queued", **fields), (item(f"{response_id}-in"),)
    )


def events(*numbers: int) -> list[Event]:
    return [Event(number, Raw(b'{"n":%d}' % number)) for number in numbers]


async def enqueue(store: Store, *response_ids: str) -> None:
    """Add jobs of node A."""
    for response_id in response_ids or ("j",):
        await store.jobs.enqueue(queued(response_id), REQUEST, "A", LONG)


async def update(store: Store, new: list[Event]) -> None:
    """Add events of the job of node A."""
    assert await store.jobs.update(JobUpdate("j", "A", new))


async def finish(store: Store, last: Sequence[Event] = (), *output: Item) -> None:
    """Complete the job of node A."""
    assert await store.jobs.update(finished("A", turn("j").response, [*last], *output))


def finished(node: str, final: Response, last: list[Event], *output: Item) -> JobUpdate:
    return JobUpdate(final.id, node, last, finished=final, output=output)


async def follow(store: Store, response_id: str = "j", after: int = -1) -> list[int]:
    return [event.number async for event in store.jobs.follow_events("me", response_id, after)]


@with_two_stores
async def test_job_lifecycle(store: Store, other: Store) -> None:
    await enqueue(store)
    loaded = await load(other, "j")
    assert loaded == StoredTurn(queued().response, loaded.input)
    assert ids(loaded.input) == ["j-in"]
    assert await store.jobs.update(JobUpdate("j", "A", body=Raw(b'"working"')))
    loaded = await load(other, "j")
    assert (loaded.response.status, loaded.response.body) == ("in_progress", Raw(b'"working"'))
    await update(store, events(0, 1))
    await finish(store, events(2), item("j-out"))
    final = await other.jobs.wait_until_finished("me", "j", LONG)
    assert final is not None
    assert final.response == turn("j").response
    assert ids(final.input + final.output) == ["j-in", "j-out"]
    assert await follow(other) == [0, 1, 2]
    assert await follow(other, after=1) == [2]
    # The job is gone.
    assert not await store.jobs.update(JobUpdate("j", "A", events(3)))
    assert not await store.jobs.request_cancel("me", "j")
    assert await other.jobs.claim_expired("B", EXPIRED) == ()


@with_two_stores
async def test_stream_is_followed_live_on_another_node(store: Store, other: Store) -> None:
    await enqueue(store)
    await update(store, events(0, 1))
    async with aclosing(other.jobs.follow_events("me", "j", 0)) as stream:
        assert (await anext(stream)).number == 1
        for number in range(2, 5):
            next_event = asyncio.ensure_future(anext(stream))
            await update(store, events(number))
            assert (await next_event).number == number
        await finish(store, events(5))
        assert [event.number async for event in stream] == [5]


@with_url
async def test_new_events_are_signaled(url: str) -> None:
    async with opened_store(url) as store:
        database = await open_database(url)
        # Without a signal the test would not end.
        database.poll_seconds = LONG
        follower = Store(database)
        # Processes that share a file cannot signal each other.
        node = follower if url.startswith("sqlite") else store
        await enqueue(node)
        stream = follower.jobs.follow_events("me", "j")
        for number in range(3):
            next_event = asyncio.ensure_future(anext(stream))
            await update(node, events(number))
            assert (await next_event).number == number
        end = asyncio.ensure_future(anext(stream, None))
        await finish(node)
        assert await end is None
        await follower.close()


@with_two_stores
async def test_long_stream_is_read_completely(store: Store, other: Store) -> None:
    await enqueue(store)
    streams = asyncio.gather(follow(store), follow(other, after=700))
    for first in range(0, 1200, 100):
        await update(store, events(*range(first, first + 100)))
    await finish(store)
    whole, rest = await streams
    assert whole == list(range(1200))
    assert rest == list(range(701, 1200))


@with_two_stores
async def test_jobs_of_other_owners_do_not_exist(store: Store, other: Store) -> None:
    await enqueue(store)
    await store.jobs.update(JobUpdate("j", "A", events(0)))
    assert [event async for event in other.jobs.follow_events("you", "j")] == []
    assert await other.jobs.wait_until_finished("you", "j", LONG) is None
    assert not await other.jobs.request_cancel("you", "j")
    assert await store.jobs.renew_leases("A", LONG) == {"j": False}


@with_two_stores
async def test_wait_ends_after_its_timeout(store: Store, other: Store) -> None:
    await enqueue(store)
    loaded = await other.jobs.wait_until_finished("me", "j", 0.01)
    assert loaded is not None
    assert loaded.response.status == "queued"


@with_two_stores
async def test_working_node_learns_that_its_job_is_cancelled(store: Store, other: Store) -> None:
    await enqueue(store, "j", "k")
    assert await store.jobs.renew_leases("A", LONG) == {"j": False, "k": False}
    assert await other.jobs.request_cancel("me", "j")
    assert await store.jobs.renew_leases("A", LONG) == {"j": True, "k": False}
    wait = asyncio.ensure_future(other.jobs.wait_until_finished("me", "j", LONG))
    await store.jobs.update(finished("A", response("j", status="cancelled"), []))
    loaded = await wait
    assert loaded is not None
    assert loaded.response.status == "cancelled"
    assert await store.jobs.renew_leases("A", LONG) == {"k": False}


@with_two_stores
async def test_jobs_of_a_dead_node_are_taken_over_once(store: Store, other: Store) -> None:
    await enqueue(store, "started", "queued")
    assert await store.jobs.update(JobUpdate("started", "A", body=Raw(b"1")))
    assert await store.jobs.update(JobUpdate("started", "A", events(0, 1, 2)))
    await store.jobs.enqueue(queued("alive"), REQUEST, "B", LONG)
    assert await other.jobs.request_cancel("me", "queued")
    assert await other.jobs.claim_expired("C", LONG) == ()
    await store.jobs.renew_leases("A", EXPIRED)
    nodes = (store, other) * 4
    claims = await asyncio.gather(
        *(node.jobs.claim_expired(f"C{number}", LONG) for number, node in enumerate(nodes))
    )
    jobs = {job.response.id: job for claim in claims for job in claim}
    assert sum(map(len, claims)) == 2
    assert {
        response_id: (job.response.status, job.cancelled, job.next_event, job.request)
        for response_id, job in jobs.items()
    } == {"started": ("in_progress", False, 3, REQUEST), "queued": ("queued", True, 0, REQUEST)}


@with_two_stores
async def test_queued_job_may_have_events(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", EXPIRED, events(0, 1))
    [job] = await other.jobs.claim_expired("B", LONG)
    assert (job.response.status, job.next_event) == ("queued", 2)
    assert await other.jobs.update(JobUpdate("j", "B", events(2), body=Raw(b"1")))
    assert await other.jobs.update(finished("B", turn("j").response, events(3)))
    assert await follow(store) == [0, 1, 2, 3]


@with_two_stores
async def test_released_jobs_are_taken_over(store: Store, other: Store) -> None:
    await enqueue(store, "j", "k", "l")
    # The jobs of another node are not released.
    await store.jobs.release("B", ["k"])
    await store.jobs.release("A", ["j", "l", "unknown"])
    claimed = await other.jobs.claim_expired("B", LONG)
    assert {job.response.id for job in claimed} == {"j", "l"}
    assert await store.jobs.renew_leases("A", LONG) == {"k": False}


@with_url
async def test_node_is_signaled_when_jobs_are_cancelled_or_released(url: str) -> None:
    async with two_stores(url) as (store, other):
        # Processes that share a file cannot signal each other.
        sender = store if url.startswith("sqlite") else other
        await enqueue(store, "j", "k")
        for send in (
            lambda: sender.jobs.request_cancel("me", "j"),
            lambda: sender.jobs.release("A", ["k"]),
        ):
            wait = asyncio.ensure_future(store.jobs.wait_for_signal("A", LONG))
            while not wait.done():
                # The node listens after some time.
                await send()
                await asyncio.wait([wait], timeout=0.05)
        await store.jobs.wait_for_signal("B", 0.01)


@with_two_stores
async def test_node_that_lost_its_lease_cannot_write(store: Store, other: Store) -> None:
    await store.jobs.enqueue(queued(), REQUEST, "A", EXPIRED)
    assert len(await other.jobs.claim_expired("B", LONG)) == 1
    late = [
        store.jobs.update(JobUpdate("j", "A", body=Raw(b"1"))),
        store.jobs.update(JobUpdate("j", "A", events(0))),
        store.jobs.update(finished("A", turn("j").response, events(1), item("j-out"))),
    ]
    current = other.jobs.update(finished("B", response("j", status="failed"), events(0)))
    assert await asyncio.gather(*late, current) == [False, False, False, True]
    assert await follow(store) == [0]
    loaded = await load(store, "j")
    assert (loaded.response.status, loaded.output) == ("failed", ())


@with_two_stores
async def test_stream_of_a_deleted_job_ends(store: Store, other: Store) -> None:
    await enqueue(store)
    stream = asyncio.ensure_future(follow(store))
    assert await other.responses.delete("me", "j")
    assert await stream == []
    assert not await store.jobs.update(JobUpdate("j", "A", events(0)))


@with_two_stores
async def test_finished_job_is_appended_to_its_conversation(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000))
    await store.jobs.enqueue(queued(conversation="c"), REQUEST, "A", LONG)
    await other.conversations.append_items("me", "c", [item("between")])
    await store.jobs.update(finished("A", turn("j", conversation="c").response, [], item("j-out")))
    assert ids((await load_items(other, "c")).data) == ["between", "j-in", "j-out"]
