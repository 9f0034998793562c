"""What is wrong: each line that says so has an error, and no other has one."""

from contextlib import suppress
from datetime import datetime, timedelta

import quorlock.testing
from quorlock import Client, once, redlock, semaphore

client = Client()
with suppress(Exception):
    redlock("a", tll=3)  # wrong
    redlock("a", ttl="3")  # wrong
    redlock("a", wait="forever")  # wrong
    redlock("a", layout="redison")  # wrong
    redlock("a", restart_guard="maybe")  # wrong
    redlock("a", every=3)  # wrong
    redlock(["a", "b"], renew="yes")  # wrong
    redlock(["a", "b"], max_waiter=1)  # wrong
    redlock(5)  # wrong
    semaphore("a", "5")  # wrong
    semaphore("a", 5, raw=True)  # wrong
    semaphore("a", 5, shared=True)  # wrong
    once("a")  # wrong
    once("a", every=3, wait=1)  # wrong
    once("a", every=3, owner="me")  # wrong
    once("a", every="daily")  # wrong
    once("a", evry=3)  # wrong
    client.lock("a", tll=3)  # wrong
    client.lock("a", max_waiters=1.5)  # wrong
    client.lock("a", nodes="redis://a")  # wrong
    client.lock_all(["a"], tll=3)  # wrong
    client.rwlock("a", shared=True)  # wrong
    client.rwlock("a", keep=3)  # wrong
    client.semaphore("a", 3, slots=4)  # wrong
    client.semaphore("a", 3, layout="redisson")  # wrong
    client.election("a", slots=3)  # wrong
    client.election("a", owner="me")  # wrong
    quorlock.aio.Client(tll=3)  # wrong
    quorlock.aio.Client().lock_all(["a"], renew=3)  # wrong
    quorlock.aio.Client().semaphore("a", 3, kep=3)  # wrong
    client.lock("a", ttl=datetime.now())  # wrong
    client.lock("a").attempt("1 s")  # wrong
    client.lock("a", max_waiters=timedelta(1))  # wrong
    client.semaphore("a", 3, raw=True)  # wrong
    quorlock.aio.Client().rwlock("a", tll=3)  # wrong
    quorlock.aio.Client().election("a", slots=3)  # wrong
    quorlock.testing.held("a", tll=3)  # wrong
