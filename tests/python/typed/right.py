"""What is right: no checker of types says a word."""

from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from typing import assert_type

import quorlock
from quorlock import Client, once, redlock, semaphore


def scopes(client: Client) -> None:
    with redlock("a", ttl=3, wait=None, max_hold=60, layout="plain", restart_guard=True) as lease:
        assert_type(lease, quorlock.Lease)
    with redlock(["a", "b"], client=client, shared=True) as leases:
        print(len(leases))
    with semaphore("a", 5, wait=0.5, owner="me") as slot:
        print(slot.slot)
    with ExitStack() as stack:
        assert_type(stack.enter_context(redlock("a")), quorlock.Lease)
    with redlock("a").attempt() as maybe:
        assert_type(maybe, quorlock.Lease | None)


def times(client: Client) -> None:
    second = timedelta(seconds=1)
    lease = Client(ttl=second, wait=second, max_hold=None, max_ttl=second).lock("a", ttl=second, keep=second).acquire(timeout=second)
    lease.extend(second)
    lease.ensure(second)
    assert_type(lease.remaining(), float)
    lease.lost.wait(second)
    client.lock("a").acquire(wait=second)
    client.lock("a").attempt(second)
    client.lock("a").wait_until_free(second)
    client.election("a", ttl=second).observe(second)
    client.lock_all(["a"], wait=second).acquire(wait=second).extend(second)
    client.semaphore("a", 2, wait=second)
    client.rwlock("a", ttl=second)
    redlock("a", ttl=second, node_timeout=second).attempt(second)
    semaphore("a", 2, wait=second)
    once("a", every=second, keep=second)


async def tasks(client: quorlock.aio.Client) -> None:
    async with redlock("a", client=client, fair=True) as lease:
        assert_type(lease, quorlock.aio.Lease)
    async with AsyncExitStack() as stack:
        assert_type(await stack.enter_async_context(redlock("a")), quorlock.aio.Lease)
        assert_type(await stack.enter_async_context(client.lock("a")), quorlock.aio.Lease)
        assert_type(await stack.enter_async_context(client.lock("a").attempt()), quorlock.aio.Lease | None)
        await stack.enter_async_context(redlock(["a", "b"]))
        await stack.enter_async_context(client.lock_all(["a", "b"]))
    client.semaphore("a", 3, ttl=1.5)
    client.lock_all(["a", "b"], renew=False)
    client.rwlock("a", owner=b"me")


@once("nightly", every=86_400, keep=60, nodes="redis://a")
def job(number: int) -> str:
    return str(number)


@once("nightly", every=86_400)
async def work() -> int:
    return 1


def of(number: int) -> str:
    return f"a:{number}"


@redlock(key="a:{number}")
def filled(number: int) -> str:
    return str(number)


@redlock(key=of, ca="/etc/ca.pem", cert="/c", cert_key="/k")
def plain(number: int) -> str:
    return str(number)


assert_type(job(1), str | None)
assert_type(plain(1), str)
check: Callable[[int], str] = plain


async def answers() -> None:
    assert_type(await work(), int | None)
