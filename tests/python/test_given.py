"""What is given: options in every place, times as `timedelta`, and a decorator's `key` that is filled from the arguments of a call."""

import asyncio
import contextlib
import functools
import inspect
import pathlib
import subprocess
import sys
import unittest
import uuid
from datetime import timedelta

import quorlock
import quorlock.aio
from quorlock import once, redlock, semaphore
from quorlock.testing import held
from support import LONG, memory

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "options"))
from definition import read, spelled, wanted_names  # noqa: E402

NODES = memory("given")
OPTIONS = read()
HOUR, SECOND, NOTHING, BEFORE = timedelta(hours=1), timedelta(seconds=1), timedelta(), timedelta(seconds=-1)


def by_name(place):
    return {spelled(name, OPTIONS[name], "python", place) for name in wanted_names(OPTIONS, "python", place)
            if place not in OPTIONS[name].get("by_position", ())}


class Options(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES)
        self.addCleanup(self.client.close)
        aio = quorlock.aio.Client(NODES)
        lock, tasks = self.client.lock, aio.lock
        # What is called, the place that it is of, and what it is called with.
        self.places = [
            (quorlock.Client, "client", {"nodes": NODES}), (quorlock.aio.Client, "client", {"nodes": NODES}), (lock, "lock", {"name": "a"}),
            (tasks, "lock", {"name": "a"}), (self.client.election, "election", {"name": "a"}), (aio.election, "election", {"name": "a"}),
            (self.client.rwlock, "rwlock", {"name": "a"}), (aio.rwlock, "rwlock", {"name": "a"}),
            (self.client.semaphore, "semaphore", {"name": "a", "slots": 2}), (aio.semaphore, "semaphore", {"name": "a", "slots": 2}),
            (self.client.lock_all, "several", {"names": ["a"]}), (aio.lock_all, "several", {"names": ["a"]}),
            (redlock, "scope", {"name": "a"}), (once, "once", {"name": "a", "every": 3}), (semaphore, "semaphore", {"name": "a", "slots": 2}),
        ]

    def test_each_is_shown(self):
        for called, place, _ in self.places:
            with self.subTest(called=called):
                shown = inspect.signature(called).parameters
                self.assertEqual(by_name(place) - set(shown), set())
                self.assertFalse([one for one in shown.values() if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)])
        self.assertEqual(by_name("lock") - set(inspect.signature(held).parameters), set())

    def test_an_unknown_one_is_an_error_of_python_with_the_name_that_is_meant(self):
        for called, place, given in self.places:
            with self.subTest(called=called), self.assertRaises(TypeError) as raised:
                called(**given, tll=3)
            self.assertRegex(str(raised.exception), r"^\w+(\.\w+)?\(\) got an unexpected keyword argument 'tll'\. Did you mean 'ttl'\?$")
            # Where an option may not stand it is refused by its name.
            for name in set(OPTIONS) - by_name(place) - set(inspect.signature(called).parameters):
                with self.subTest(called=called, name=name), self.assertRaisesRegex(TypeError, f"unexpected keyword argument '{name}'"):
                    called(**given, **{name: 1})

    def test_no_name_is_shown_that_may_be_a_secret(self):
        for name in ("s3cret_of_mine", "monkey", "correcthorse", "redis://u:s3cret@h"):
            for called, _, given in self.places:
                with self.subTest(called=called, name=name), self.assertRaises(TypeError) as raised:
                    called(**given, **{name: 1})
                self.assertNotIn(name, str(raised.exception))
        for name in ("lease_time", "auto_renewal", "blocking_timeout", "expire", "max_waiter", "sleep"):
            with self.subTest(name=name), self.assertRaisesRegex(TypeError, f"unexpected keyword argument '{name}'"):
                self.client.lock("a", **{name: 1})

    def test_bounds_are_the_real_ones(self):
        def refused(call, told):
            with self.assertRaises(quorlock.InvalidArgumentError) as raised:
                call()
            self.assertTrue(str(raised.exception).split(": ", 1)[1].startswith(told), raised.exception)

        for value in (-(10**40), -(2**33), -1, 0, 129, 2**31, 2**40, 10**30):
            shown = value if abs(value) < 10**20 else "a int" if len(str(value)) > 24 else value
            for call in (lambda: self.client.semaphore("a", value), lambda: self.client.lock("a", slots=value),  # noqa: B023
                         lambda: semaphore("a", value, client=self.client)(print)):  # noqa: B023
                refused(call, f"slots is {shown}: give 1 to 128")
        for value in (-(2**33), -1, 17, 2**31, 2**40):
            refused(lambda: quorlock.Client(NODES, wait_replicas=value), f"wait_replicas is {value}: give 0 to 16")  # noqa: B023
            refused(lambda: redlock("a", wait_replicas=value)(print), f"wait_replicas is {value}: give 0 to 16")  # noqa: B023
        for value, shown in ((-1, "-1"), (-0.5, "-0.5"), (1e300, "1e300"), (float("nan"), "NaN"), (10**400, "a int"), (BEFORE, "-1.0")):
            for call in (lambda: self.client.lock("a", ttl=value), lambda: self.client.election("a", ttl=value),  # noqa: B023
                         lambda: redlock("a", client=self.client, ttl=value)(print)):  # noqa: B023
                refused(call, f"ttl is {shown}: give a time in seconds, 0.01 to max_ttl")
            refused(lambda: quorlock.Client(NODES, max_ttl=value), f"max_ttl is {shown}: give a time in seconds, 0.01 to 86400")  # noqa: B023
            refused(lambda: once("a", every=value, client=self.client)(print), f"every is {shown}: give a time in seconds, 0.02 or more")  # noqa: B023

    def test_the_key_of_a_certificate_is_called_as_it_was_given(self):
        with self.assertRaisesRegex(TypeError, "^cert_key is"):
            redlock("a", cert="/c", cert_key=5)
        for made, name in ((lambda: redlock("a", nodes="rediss://h", cert="/none", cert_key="/none")(print), "cert_key"),
                           (lambda: quorlock.Client("rediss://h", cert="/none", key="/none"), "key")):
            with self.assertRaisesRegex(quorlock.InvalidArgumentError, f": {name}: no file of that name"):
                made()


class Times(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES, ttl=timedelta(seconds=20), wait=NOTHING, max_ttl=timedelta(minutes=1), max_hold=HOUR)
        self.addCleanup(self.client.close)

    def test_options(self):
        with self.client.lock(self.id()) as lease:
            self.assertGreater(lease.remaining(), 15)
        for option in sorted(name for name, one in OPTIONS.items() if one["takes"] in ("time", "limit")):
            for place, called in (("client", lambda **given: quorlock.Client(NODES, **given)), ("lock", lambda **given: self.client.lock("a", **given)),
                                  ("election", lambda **given: self.client.election("a", **given)),
                                  ("several", lambda **given: self.client.lock_all(["a"], **given)),
                                  ("semaphore", lambda **given: self.client.semaphore("a", 3, **given)),
                                  ("scope", lambda **given: redlock("a", nodes=NODES, **given)(print))):
                if place not in OPTIONS[option]["in"]:
                    continue
                with self.subTest(option=option, place=place):
                    given = timedelta(hours=1) if option in ("max_hold", "fence_ttl") else timedelta(seconds=15)
                    called(**{option: given})
                    with self.assertRaisesRegex(quorlock.InvalidArgumentError, f"{option} is -1.0: give a time in seconds"):
                        called(**{option: BEFORE})

    def test_calls(self):
        lock = self.client.lock(self.id())
        lease = lock.acquire(timeout=SECOND)
        lease.extend(timedelta(seconds=30))
        self.assertGreater(lease.remaining(), 25)
        lease.ensure(timedelta(seconds=10))
        other = self.client.lock(self.id())
        self.assertRaises(quorlock.LockContendedError, other.acquire, wait=NOTHING)
        with other.attempt(NOTHING) as none:
            self.assertIsNone(none)
        with other.attempt(timedelta(milliseconds=10)) as none:
            self.assertIsNone(none)
        for word in ("wait", "timeout"):
            self.assertRaisesRegex(quorlock.InvalidArgumentError, f"{word} is -5: give a time in seconds", other.acquire, **{word: -5})
            self.assertRaisesRegex(TypeError, f"{word} is text of 7 characters: give a time in seconds", other.acquire, **{word: "forever"})
        self.assertFalse(other.wait_until_free(timedelta(milliseconds=10)))
        self.assertFalse(lease.lost.wait(timedelta(milliseconds=10)))
        for call in (lease.extend, lease.ensure, lease.lost.wait, other.wait_until_free, lambda time: other.acquire(wait=time),
                     lambda time: other.acquire(timeout=time), lambda time: other.attempt(time).__enter__()):
            self.assertRaisesRegex(quorlock.InvalidArgumentError, "is -1.0: give a time in seconds", call, BEFORE)
        lease.release()
        with self.client.lock_all([f"{self.id()}-{number}" for number in range(2)]) as leases:
            leases.extend(timedelta(seconds=30))
            leases.ensure(SECOND)
            self.assertFalse(leases.lost.wait(timedelta(milliseconds=10)))
        now = next(self.client.election(self.id()).observe(timedelta(milliseconds=50)))
        self.assertTrue(now.known)

    def test_no_time_at_all_waits_for_nothing_that_is_around_it(self):
        # What would wait for itself is refused, but for what does not wait.
        with self.client.lock(self.id(), reentrant=False):
            inner = self.client.lock(self.id(), reentrant=False)
            for time in (0, NOTHING):
                self.assertRaises(quorlock.LockContendedError, inner.acquire, wait=time)
                with inner.attempt(time) as none:
                    self.assertIsNone(none)
            self.assertRaises(quorlock.WouldDeadlockError, inner.acquire, wait=SECOND)

    def test_tasks(self):
        async def main():
            async with quorlock.aio.Client(NODES, wait=NOTHING) as client:
                lease = await client.lock(self.id()).acquire(timeout=SECOND)
                await lease.extend(timedelta(seconds=30))
                await lease.ensure(SECOND)
                self.assertFalse(await client.lock(self.id()).wait_until_free(timedelta(milliseconds=10)))
                self.assertFalse(await lease.lost.wait(timedelta(milliseconds=10)))
                self.assertFalse(lease.lost.wait(NOTHING))
                with self.assertRaises(quorlock.LockContendedError):
                    await client.lock(self.id()).acquire()
                with self.assertRaisesRegex(quorlock.InvalidArgumentError, "timeout is -1.0: give a time in seconds"):
                    await lease.lost.wait(BEFORE)
                await lease.release()

        asyncio.run(main())

    def test_scopes_and_jobs(self):
        ran = []

        @once(self.id(), every=timedelta(minutes=1), keep=timedelta(seconds=20), client=self.client)
        def job():
            ran.append(1)

        job(), job()
        self.assertEqual(ran, [1])
        with redlock(f"{self.id()}-scope", client=self.client, ttl=timedelta(seconds=5)) as lease:
            self.assertLess(lease.remaining(), 6)

    def test_one_client_for_a_time_however_it_is_given(self):
        from quorlock import _default

        known = set(_default._clients)
        for time in (7, timedelta(seconds=7)):
            with redlock(self.id(), nodes=NODES, max_ttl=time, ttl=1):
                pass
        self.assertEqual(len(set(_default._clients) - known), 1)

    def test_nobody_imports_datetime_who_gives_none(self):
        script = ("import sys; import quorlock; client = quorlock.Client('memory://d'); lease = client.lock('a', ttl=1).acquire(); lease.extend(1)\n"
                  "quorlock.redlock('b', client=client).__enter__(); assert 'datetime' not in sys.modules, 'imported'")
        subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=LONG)


class Keys(unittest.TestCase):
    def setUp(self):
        self.client = quorlock.Client(NODES)
        self.addCleanup(self.client.close)

    def held(self, *names):
        """Of these names those that are held now."""
        return [name for name in names if self.client.lock(name).locked()]

    def filled(self, key, function, *arguments, **keywords):
        """The name of the lock that is held while the function runs with this key."""
        names = []

        @functools.wraps(function)
        def work(*given, **named):
            function(*given, **named)
            names.extend(one for one in self.tried if self.held(one))

        redlock(key=key, client=self.client)(work)(*arguments, **keywords)
        return names

    def assert_filled(self, key, function, wanted, *arguments, **keywords):
        self.tried = [wanted] if key == wanted else [key, wanted]
        self.assertEqual(self.filled(key, function, *arguments, **keywords), [wanted])

    def test_a_field_is_an_argument_of_the_call(self):
        def charge(order, customer="anybody", *others, currency="EUR", **more):
            pass

        for wanted, arguments, keywords in (
                ("k1:7", [7], {}), ("k1:7", [], {"order": 7}), ("k1:seven", ["seven"], {}), ("k1:b", [b"b"], {}), ("k1:0.5", [0.5], {}),
                ("k1:00000000-0000-0000-0000-000000000007", [uuid.UUID(int=7)], {})):
            self.assert_filled("k1:{order}", charge, wanted, *arguments, **keywords)
        self.assert_filled("k2:{order}:{customer}:{currency}", charge, "k2:1:anybody:EUR", 1)
        self.assert_filled("k2:{order}:{customer}:{currency}", charge, "k2:1:me:CHF", 1, "me", "other", currency="CHF", x=3)
        self.assert_filled("k3:{order}{order}", charge, "k3:11", 1)

    def test_braces_that_name_no_parameter_stay(self):
        def job(order):
            pass

        for key in ("{orders}:nightly", "{0}", "{order.id}", "{order!r}", "{order:>3}", "{{order}}", "{ order }", "{a}}b"):
            self.assert_filled(key, job, key, 7)
        # The tag of a cluster beside what is filled.
        self.assert_filled("{orders}:{order}", job, "{orders}:7", 7)

    def test_two_braces_are_one_where_the_key_is_filled(self):
        def job(order):
            pass

        self.assert_filled("{{orders}}:{order}", job, "{orders}:7", 7)
        self.assert_filled("{{{order}}}", job, "{7}", 7)
        self.assert_filled("{{a{order}}}", job, "{a7}", 7)
        self.assert_filled("{{order}}:{order}", job, "{order}:7", 7)

    def test_what_is_filled_in_has_no_braces(self):
        ran = []

        @redlock(key="b:{order}", client=self.client)
        def job(order):
            ran.append(order)

        for value in ("{x}", "a{", "}", b"{"):
            self.assertRaisesRegex(quorlock.InvalidArgumentError, "order has a brace in it", job, value)
        self.assertEqual(ran, [])

    def test_what_has_no_text_of_its_own_is_refused(self):
        class Plain:
            pass

        @redlock(key="t:{order}", client=self.client)
        def job(order):
            self.fail("it ran")

        for value in (None, object(), Plain(), [1], (1,), {"a": 1}):
            self.assertRaisesRegex(TypeError, "order is .*, and the key is filled with it", job, value)
        for call in (job, lambda: job(1, 2), lambda: job(1, x=2), lambda: job(order=1, other=2)):
            self.assertRaisesRegex(TypeError, r"job\(\) ", call)

    def test_a_secret_is_no_part_of_a_name(self):
        @redlock(key="s:{order}", client=self.client)
        def job(order):
            self.fail("it ran")

        with self.assertRaises(quorlock.InvalidArgumentError) as raised:
            job("redis://u:s3cret@h")
        self.assertNotIn("s3cret", str(raised.exception))

    def test_a_name_and_a_scope_fill_nothing(self):
        name = "n:{order}"
        for made in (redlock(name, client=self.client), redlock(name=name, client=self.client)):
            self.assertEqual(made(lambda order: self.held(name, "n:7"))(7), [name])
        with redlock(key=name, client=self.client):
            self.assertEqual(self.held(name, "n:7"), [name])
        # Nor is filled what a function gives, nor bytes.
        self.assertEqual(redlock(key=lambda order: name, client=self.client)(lambda order: self.held(name, "n:7"))(7), [name])
        self.assertEqual(redlock(key=name.encode(), client=self.client)(lambda order: self.held(name, "n:7"))(7), [name])

    def test_several(self):
        @redlock(key=["m:{one}", "m:{two}", b"m:{one}", "{m}"], client=self.client)
        def move(one, two):
            return self.held("m:1", "m:2", "m:{one}", "m:{two}", "{m}")

        self.assertEqual(move(1, 2), ["m:1", "m:2", "m:{one}", "{m}"])

    def test_of_all_that_may_be_decorated(self):
        case = self

        class Shop:
            def __init__(self, number):
                self.number = number

            def __str__(self):
                return f"shop-{self.number}"

            @redlock(key="d:{self}:{order}", client=self.client)
            def method(self, order):
                return case.held("d:shop-3:7")

            @redlock(key="d:{order}", client=self.client)
            @staticmethod
            def static(order):
                return case.held("d:7")

            @redlock(key="d:{order}", client=self.client)
            @classmethod
            def of_class(cls, order):
                return case.held("d:7")

        class Called:
            def __call__(self, order):
                return case.held("d:7")

        def plain(kind, order):
            return self.held("d:7")

        shop = Shop(3)
        self.assertEqual(shop.method(7), ["d:shop-3:7"])
        decorate = redlock(key="d:{order}", client=self.client)
        for call in (shop.static, shop.of_class, decorate(Called()), decorate(functools.partial(plain, "kind")), decorate.attempt()(lambda order: self.held("d:7"))):
            self.assertEqual(call(7), ["d:7"])

        @decorate
        @contextlib.contextmanager
        def opened(order):
            yield self.held("d:7")

        with opened(7) as names:
            self.assertEqual(names, ["d:7"])

        @once(key="o:{order}", every=60, client=self.client)
        def job(order):
            return order

        self.assertEqual([job(1), job(1), job(2)], [1, None, 2])
        # Its parameters are told by nothing.
        self.assertIsNone(redlock(key="{sep}", client=self.client)(print)())

    def test_of_tasks(self):
        @redlock(key="a:{order}", client=self.client)
        async def work(order):
            return self.held("a:7")

        @redlock(key="a:{order}", client=self.client)
        @contextlib.asynccontextmanager
        async def opened(order):
            yield self.held("a:7")

        async def main():
            self.assertEqual(await work(7), ["a:7"])
            async with opened(7) as names:
                self.assertEqual(names, ["a:7"])

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
