"""What aioredlock promises, in our own words: its archive has no tests. The servers are those of the shim.

Each test is run with one server and with two. What it asks of `is_locked`, that is, whether anybody holds a lock, is a test
of its own, so that the rest shows what can be shown without it.
"""

import pytest
import redis.asyncio
from aioredlock import Aioredlock, LockError

from nodes import PORTS

pytestmark = pytest.mark.parametrize("servers", [1, 2])


@pytest.fixture
async def manager(servers):
    for place in range(servers):
        async with redis.asyncio.Redis(host="127.0.0.1", port=PORTS[place], db=place) as server:
            await server.flushdb()
    # As its users write it: several databases of one server.
    found = Aioredlock([{"host": "localhost", "port": 6379, "db": place} for place in range(servers)])
    yield found
    await found.destroy()


async def test_a_lock_is_valid_until_it_is_unlocked(manager):
    lock = await manager.lock("a")
    assert lock.valid
    await manager.extend(lock)
    assert lock.valid
    await manager.unlock(lock)
    assert not lock.valid


async def test_two_names_are_two_locks(manager):
    first, second = await manager.lock("a"), await manager.lock("b")
    assert first.valid and second.valid
    await manager.unlock(first)
    assert not first.valid and second.valid
    await manager.unlock(second)
    assert not second.valid


async def test_a_held_lock_is_refused(manager):
    lock = await manager.lock("a")
    with pytest.raises(LockError):
        await manager.lock("a")
    await manager.unlock(lock)
    assert (await manager.lock("a")).valid


async def test_a_scope_unlocks_at_its_end(manager):
    async with await manager.lock("a") as lock:
        assert lock.valid
    assert not lock.valid
    async with manager.lock("a") as lock:
        assert lock.valid
    assert not lock.valid


async def test_a_lock_with_a_timeout_ends_by_itself(manager):
    lock = await manager.lock("a", lock_timeout=0.2)
    # The next one waits for that, and no longer.
    assert (await manager.lock("a")).valid
    assert not lock.valid
    with pytest.raises(LockError):
        await lock.extend()


async def test_a_lock_without_a_timeout_is_extended(servers):
    manager = Aioredlock([{"db": place} for place in range(servers)], internal_lock_timeout=0.3)
    lock = await manager.lock("a")
    with pytest.raises(LockError):
        await manager.lock("a")
    assert lock.valid
    await manager.destroy()


async def test_a_foreign_key_is_waited_for(manager):
    async with redis.asyncio.Redis(host="127.0.0.1", port=PORTS[0]) as server:
        await server.set("a", "of somebody else", px=100)
    assert (await manager.lock("a")).valid


async def test_active_locks_are_listed_and_destroyed(manager):
    first, second = await manager.lock("a"), await manager.lock("b")
    assert await manager.get_active_locks() == [first, second]
    await manager.destroy()
    assert await manager.get_active_locks() == []
    assert not first.valid and not second.valid


async def test_unlocking_what_is_not_held_is_an_error(manager):
    lock = await manager.lock("a")
    await manager.unlock(lock)
    with pytest.raises(LockError):
        await manager.unlock(lock)


async def test_it_says_whether_anybody_holds_a_lock(manager):
    assert await manager.is_locked("a") is False
    lock = await manager.lock("a")
    assert await manager.is_locked("a") is True and await manager.is_locked(lock) is True
    await manager.unlock(lock)
    assert await manager.is_locked("a") is False
