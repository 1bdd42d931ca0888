"""The same for asyncio."""

import asyncio

import pytest

from cordwood import aio
from cordwood.client.client import Client
from cordwood.errors import NotFound, Refused

from .proxy import Proxy


def test_messages_go_in_and_come_out(endpoint: str, client: Client, topic: str) -> None:
    async def main() -> None:
        async with aio.Producer(endpoint, topic) as producer:
            assert await producer.send(b"one", key="k") == (0, 0)
            future = producer.send({"two": 2}, headers={"h": "1"})
            assert (await future, await future, future.done()) == ((0, 1), (0, 1), True)
            (run,) = await producer.send_table({"value": ["a", "b"]})
            assert (run.first_offset, run.count) == (2, 2)
            with pytest.raises(Refused):
                await producer.send(b"x", key=5)  # type: ignore[arg-type]
        async with aio.Consumer(endpoint, topic, "g", idle_timeout_ms=200) as consumer:
            found = []
            async for message in consumer:
                found.append(message.value)
                message.ack()
                if len(found) == 2:
                    break
            found += [message.value for message in await consumer.receive(1, 1000)]
            async for batch in consumer.batches():
                found += batch.record_batch.column("value").to_pylist()
                batch.ack()
            await consumer.flush()
            assert found == [b"one", b'{"two":2}', b"a", b"b"]
            assert await consumer.receive(1, 20) == []
            assert consumer.lost == 0

    asyncio.run(main())


def test_many_tasks_share_a_producer(endpoint: str, client: Client, topic: str) -> None:
    async def main() -> None:
        async with aio.Producer(endpoint, topic) as producer:

            async def work(name: int) -> list[int | None]:
                return [(await producer.send(f"{name} {n}")).offset for n in range(20)]

            found = await asyncio.gather(*(work(name) for name in range(32)))
        assert sorted(offset for offsets in found for offset in offsets if offset is not None) == list(range(640))

    asyncio.run(main())
    assert sum(1 for _ in client.read(topic)) == 640


def test_the_loop_is_not_blocked_when_there_is_no_room(endpoint: str, client: Client, topic: str) -> None:
    async def main() -> None:
        with Proxy(endpoint) as proxy:
            async with aio.Producer(proxy.endpoint, topic, buffer_bytes=200_000) as producer:
                await producer.send(b"first")
                proxy.deaf = True
                futures = [producer.send(b"x" * 2000) for _ in range(1_000)]
                ticks = 0
                while ticks < 20:
                    await asyncio.sleep(0)
                    ticks += 1
                proxy.deaf = False
                proxy.cut()
                offsets = [(await future).offset for future in futures]
                assert offsets == list(range(1, 1_001))

    asyncio.run(main())


def test_a_consumer_that_waits_is_woken_by_a_message(endpoint: str, client: Client, topic: str) -> None:
    async def main() -> None:
        async with aio.Consumer(endpoint, topic, "g") as consumer:
            waiting = asyncio.ensure_future(consumer.receive(1, 30_000))
            await asyncio.sleep(0.02)
            await asyncio.to_thread(client.produce, topic, "x")
            (message,) = await waiting
            message.ack()

    asyncio.run(main())


def test_errors_reach_whoever_awaits(endpoint: str) -> None:
    async def main() -> None:
        async with aio.Producer(endpoint, "nowhere") as producer:
            with pytest.raises(NotFound):
                await producer.send(b"x")
        async with aio.Consumer(endpoint, "nowhere", "g") as consumer:
            with pytest.raises(NotFound):
                await consumer.receive(1, 30_000)

    asyncio.run(main())


def test_the_client_is_awaited(endpoint: str, client: Client, topic: str) -> None:
    async def main() -> None:
        async with aio.Client(endpoint) as client:
            assert await client.produce(topic, "x") == (0, 0)
            assert (await client.topic(topic))["name"] == topic
            assert [message.value async for message in client.read(topic)] == [b"x"]
            assert [batch.num_rows async for batch in client.read_batches(topic)] == [1]
            with pytest.raises(NotFound):
                await client.topic("nowhere")

    asyncio.run(main())
