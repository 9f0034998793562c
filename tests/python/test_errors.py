"""Errors, panics, and what must never be shown or copied."""

import asyncio
import contextlib
import copy
import functools
import gc
import inspect
import itertools
import logging
import os
import pickle
import queue
import threading
import traceback
import unittest
import urllib.parse

import quorlock
import quorlock.aio
from quorlock import _aio_several, _leases, _native, _redlock, _several, _unseen, errors
from support import LONG, Case, memory

NODES = memory("errors")
NOWHERE = ["rediss://127.0.0.1:1"]


class Named:
    """A path, as `os.PathLike` says."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


class Kinds(unittest.TestCase):
    def test_every_kind_of_the_core_has_its_class(self):
        kinds = _native._kinds()
        self.assertEqual(len(kinds), 13)
        seen = set()
        for number, name, summary, error in kinds:
            with self.subTest(name):
                seen.add(type(error))
                if name == "Cancelled":
                    self.assertIs(type(error), KeyboardInterrupt)
                    continue
                self.assertIsInstance(error, quorlock.QuorlockError)
                self.assertEqual((error.number, error.kind, error.summary, error.nodes), (number, name, summary, []))
                self.assertTrue(hasattr(quorlock, type(error).__name__))
        self.assertEqual(len(seen), 13)

    def test_bases(self):
        self.assertTrue(issubclass(quorlock.InvalidArgumentError, ValueError))
        self.assertTrue(issubclass(quorlock.LockTimeoutError, TimeoutError))
        for each in errors.__all__:
            self.assertTrue(issubclass(getattr(errors, each), quorlock.QuorlockError))

    def test_a_time_that_is_none_says_what_to_give(self):
        for option, value, words in (
            ("ttl", True, "ttl is True: give a time in seconds"),
            ("wait", float("inf"), "wait is inf: give None for no limit"),
            ("max_hold", float("inf"), "give None for no limit"),
            ("wait", 1e300, "wait is 1e300: give a time"),
            ("ttl", 1e-9, "ttl is 1ns: give 10ms to"),
        ):
            with self.subTest(option), self.assertRaisesRegex((TypeError, quorlock.InvalidArgumentError), words):
                quorlock.Client(memory("no-time"), **{option: value})

    def test_an_error_begins_with_the_sentence_of_its_kind_once(self):
        for each in errors.__all__:
            made = getattr(errors, each)
            with self.subTest(each):
                self.assertEqual(str(made("a reason")), f"{made.summary}: a reason")
                self.assertEqual(str(pickle.loads(pickle.dumps(made("a reason")))), f"{made.summary}: a reason")
                self.assertEqual(str(made()), made.summary)
                self.assertEqual(str(made(made.summary.lower() + " indeed")), made.summary + " indeed")
        with quorlock.Client(memory("begins")) as client, client.lock("a"):
            for summary, call in (("The lock is held by another", lambda: client.lock("a", reentrant=False, owner=None).acquire(wait=0)),
                                  ("An argument or option is not valid", lambda: client.lock("a", ttl=-1))):
                with self.assertRaises(quorlock.QuorlockError) as raised:
                    call()
                self.assertEqual(raised.exception.summary, summary)
                self.assertTrue(str(raised.exception).startswith(f"{summary}: "), raised.exception)
                self.assertEqual(str(raised.exception).count(summary), 1)

    def test_errors_can_be_pickled(self):
        error = quorlock.LockTimeoutError("text", [("a:1", "held by another")])
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.nodes), (type(error), str(error), error.nodes))

    def test_the_message_names_the_nodes(self):
        with quorlock.Client(["redis://user:geheim@127.0.0.1:1"]) as client:
            with self.assertRaises(quorlock.QuorumUnavailableError) as raised:
                client.lock("a").acquire(wait=0)
        self.assertEqual(raised.exception.nodes[0][0], "127.0.0.1:1")
        self.assertIn("127.0.0.1:1", str(raised.exception))
        self.assertNotIn("geheim", str(raised.exception) + repr(client))

    def test_wrong_types_and_unknown_options(self):
        for make in (lambda: quorlock.Client(NODES, ttl="10"), lambda: quorlock.Client(NODES, nope=1),
                     lambda: quorlock.Client([1]), lambda: quorlock.Client(NODES).lock("a", drift=1),
                     lambda: quorlock.Client(NODES).lock(7)):
            self.assertRaises((TypeError, AttributeError), make)
        for options in ({"ttl": -1}, {"ttl": float("inf")}, {"ttl": 0}, {"ttl": 61}, {"wait": -1}, {"drift": 2.0},
                        {"namespace": ""}, {"node_timeout": 0}, {"ttl": 10, "max_hold": 1}, {"cert": "x"}):
            with self.subTest(options), self.assertRaises(quorlock.InvalidArgumentError):
                quorlock.Client(NODES, **options)


    def test_a_wrong_type_is_told_with_the_name_of_the_option(self):
        for options in ({"ttl": "10"}, {"wait": "1"}, {"renew": "no"}, {"raw": 1}, {"fencing": 0}, {"fair": "x"},
                        {"max_waiters": 1.5}, {"drift": "x"}, {"min_validity": []}, {"namespace": 5}, {"label": b"x"}, {"group": 5},
                        {"set_name": 1}, {"accept_eviction": "no"}, {"ca": 5}, {"cert": 5, "key": 5}, {"restart_guard": 5},
                        {"nodes": 5}, {"nodes": [5]}):
            with self.subTest(options):
                self.assertRaisesRegex(TypeError, f"{next(iter(options))}.*: give", quorlock.Client, **{"nodes": NODES, **options})
        with self.assertRaises(TypeError) as raised:
            quorlock.Client(["redis://:hunter" "2@x", 5])
        self.assertNotIn("hunter" "2", str(raised.exception))

    def test_an_owner_of_nothing_is_a_runtime_error(self):
        self.assertTrue(issubclass(quorlock.NotOwnerError, RuntimeError))


class Panics(unittest.TestCase):
    def assert_internal(self, error):
        self.assertIs(type(error), quorlock.InternalError)
        self.assertIn("a test", str(error))

    def test_in_an_entry(self):
        with self.assertRaises(Exception) as raised:
            _native._panic(True)
        self.assert_internal(raised.exception)

    def test_while_waited_for(self):
        with self.assertRaises(Exception) as raised:
            _native._panic(False).wait()
        self.assert_internal(raised.exception)

    def test_while_awaited(self):
        from quorlock._channel import completed

        async def main():
            await completed(_native._panic(False).start)

        with self.assertRaises(Exception) as raised:
            asyncio.run(main())
        self.assert_internal(raised.exception)
        # Nothing is out of order afterwards.
        with quorlock.Client(NODES) as client, client.lock("panics") as lease:
            self.assertTrue(lease.is_held())

    def test_a_call_is_made_once(self):
        with quorlock.Client(NODES) as client:
            call = client._core.close()
            call.wait()
            self.assertRaises(quorlock.InternalError, call.wait)


class Secrets(unittest.TestCase):
    def test_what_is_refused_shows_no_password_wherever_it_stood(self):
        url = "redis://user:secret@host"

        class Config:
            def __repr__(self):
                return url

        class Whole(int):
            __repr__ = Config.__repr__

        holding = [{"url": url}, [url], (url,), {url}, Config(), url.encode(), lambda: url, urllib.parse.urlsplit(url)]
        options = {name: [*holding, url, "user:secret@host"] for name in (
            "ttl", "wait", "renew", "max_hold", "raw", "max_waiters", "fair", "drift", "restart_guard", "layout", "wait_replicas")}
        options |= {name: holding for name in ("namespace", "label", "group", "set_name", "ca", "cert", "key")}
        for name, values in options.items():
            for value in values:
                with self.subTest(name, value=type(value).__name__), self.assertRaises((TypeError, ValueError)) as raised:
                    quorlock.Client(NODES, **{name: value})
                self.assertNotIn("secret", str(raised.exception))
        client = quorlock.Client(NODES)
        calls = [
            *(lambda node=node: quorlock.Client([node]) for node in holding),
            lambda: quorlock.Client(Config()),
            lambda: client.lock(Config()),
            lambda: client.lock("a", owner=Config()),
            lambda: client.lock("a", reentrant=Config()),
            lambda: client.lock("a", slots=Config()),
            lambda: client.locks(url),
            lambda: client.force_release("a", fence=Config()),
            lambda: client.force_release("a", fence=Whole(-1)),
            lambda: quorlock.redlock("a", nodes=NODES)(Config()),
            lambda: quorlock.redlock(Config()),
            lambda: quorlock.redlock("a", nodes=NODES, client=Config()),
        ]
        for number, call in enumerate(calls):
            with self.subTest(number), self.assertRaises((TypeError, ValueError, AttributeError)) as raised:
                call()
            self.assertNotIn("secret", str(raised.exception))
        # What is no secret is shown.
        for name, value in (("ttl", "10s"), ("renew", 1), ("drift", None), ("restart_guard", "maybe")):
            with self.assertRaisesRegex((TypeError, ValueError), f"{name} is .*{value}"):
                quorlock.Client(NODES, **{name: value})

    def test_what_is_shown_of_a_text_is_no_secret(self):
        for name, value, shown in (("ttl", "s3cret", "text of 6 characters"), ("layout", "s3cret", "text of 6 characters"), ("wait_replicas", 10**40, "a int"),
                                   ("restart_guard", "on?", "`on\\?`"), ("cert", 5, "5"), ("nodes", 123456, "a int")):
            with self.assertRaisesRegex((TypeError, ValueError), f"{name} is {shown}: "):
                quorlock.Client(**{"nodes": NODES, name: value})
        for name in ("label", "group", "namespace", "set_name"):
            with self.assertRaisesRegex(quorlock.InvalidArgumentError, f"{name} is a URL with a password"):
                quorlock.Client(NODES, **{name: "redis://:s3cret@h"})
        client = quorlock.Client(NODES)
        for name in ("redis://:s3cret@h", "-----BEGIN PRIVATE KEY-----\ns3cret"):
            for call in (client.lock, client.election, lambda name: quorlock.redlock(name, client=client).__enter__()):
                with self.assertRaisesRegex(quorlock.InvalidArgumentError, "the lock name is (a URL with a password|the text of a key)"):
                    call(name)

    def test_a_traceback_has_no_variable_of_what_was_given(self):
        client = quorlock.Client(NODES)
        url = "redis://u:s3cret@h:99999"

        def entered():
            with quorlock.redlock("a", nodes=url):
                self.fail("entered")

        calls = [lambda: quorlock.Client(url), lambda: quorlock.aio.Client([url]), lambda: quorlock.Client(NODES, ttl=url), lambda: quorlock.Client(NODES, cert="x", key=url),
                 lambda: client.lock("a", label=url), lambda: client.adopt(url), lambda: client.lock("a").acquire(label=url), entered,
                 lambda: quorlock.redlock("a", nodes=[url])(print)(), lambda: quorlock.once("a", every=url, nodes=NODES)(print),
                 lambda: quorlock.semaphore("a", 2, nodes=NODES, ttl=url)(print), lambda: asyncio.run(quorlock.aio.Client(NODES).adopt(url))]
        for number, call in enumerate(calls):
            with self.subTest(number):
                # `assertRaises` would take the traceback away.
                try:
                    call()
                    self.fail("not refused")
                except (quorlock.QuorlockError, TypeError) as error:
                    told = traceback.TracebackException.from_exception(error, capture_locals=True)
                    self.assertIsNone(error.__context__)
                ours = [frame for frame in told.stack if frame.filename != __file__ and "asyncio" not in frame.filename]
                self.assertNotIn("s3cret", f"{told} {[frame.locals for frame in ours]}")
                # But the frames of the program.
                self.assertTrue(any(frame.filename == __file__ for frame in told.stack))

    def test_each_public_call_with_arguments_is_guarded(self):
        # What is given to these is made by the package, or by Python.
        made_here = {"__exit__", "__aexit__", "__getattr__", "__eq__", "__setattr__", "__delattr__", "__setstate__", "__init_subclass__", "__class_getitem__", "__replace__"}
        # Made by the package alone, of what was checked before.
        constructors = {"Lease", "Leases", "Lock", "Attempt", "AttemptAll", "Election", "Observer", "RWLock", "Lost", "LostOne", "Holder",
                        "NodeView", "Inspection", "Forced", "Finding", "NodeReport", "Probe", "Leadership"}
        modules = [quorlock, quorlock.sync, quorlock.aio, _several, _aio_several, _redlock]
        exported = {getattr(module, name) for module in modules for name in module.__all__ if name != "__version__"}
        exported |= {_several.AttemptAll, _aio_several.AttemptAll, _redlock.Attempt, _leases.LostOne}
        checked = 0
        for each in exported:
            if not isinstance(each, type):
                calls = [(each.__name__, each)] if inspect.isfunction(each) and each.__module__.endswith("_redlock") else []
            elif issubclass(each, BaseException):
                continue
            else:
                calls = [(f"{each.__module__}.{each.__name__}.{name}", call) for kind in each.__mro__ if kind.__module__.startswith("quorlock.")
                         for name, call in vars(kind).items() if inspect.isfunction(call) and (not name.startswith("_") or name.endswith("__"))]
            for path, call in calls:
                name = path.rpartition(".")[2]
                if name in made_here or name == "__init__" and path.split(".")[-2] in constructors:
                    continue
                if len(inspect.signature(call).parameters) > isinstance(each, type):
                    checked += 1
                    with self.subTest(path):
                        guards = (_unseen.guarded(print).__code__, _unseen.guarded_coroutine(print).__code__)
                        self.assertIn(call.__code__, guards)
        self.assertGreater(checked, 50)

    def test_calls_of_what_is_held_leave_no_frame_with_what_was_given(self):
        url = "redis://u:s3cret@h"

        def refused(number, call):
            try:
                made = call()
                if inspect.iscoroutine(made):
                    made.close()
                self.fail("not refused")
            except (quorlock.QuorlockError, TypeError) as error:
                told = traceback.TracebackException.from_exception(error, capture_locals=True)
                ours = [frame for frame in told.stack if frame.filename != __file__ and "asyncio" not in frame.filename]
                self.assertNotIn("s3cret", f"{told} {[frame.locals for frame in ours]}", number)

        with quorlock.Client(memory("of-held")) as client:
            lease, leases, several, election = client.lock("a").acquire(), client.lock_all(["b", "c"]).acquire(), client.lock_all(["d", "e"]), client.election("f")
            calls = [lambda: lease.extend(url), lambda: lease.ensure(url), lambda: lease.on_lost(url), lambda: lease.lost.wait(url),
                     lambda: leases.extend(url), lambda: leases.ensure(url), lambda: leases.on_lost(url), lambda: leases[url],
                     lambda: several.acquire(timeout=url), lambda: several.try_acquire(label=url), lambda: quorlock.Locks([url]),
                     lambda: quorlock.Locks(url), lambda: election.campaign(label=url), lambda: election.observe(url), lambda: election.run(url),
                     lambda: election.run(print, on_lost=url), lambda: election.run(print, on_stopped=url), lambda: election.run(print, again=url),
                     lambda: client.init_set(force=url), lambda: client.lock("a", **{url: 1}), lambda: client.rwlock("a", **{url: 1}),
                     lambda: quorlock.redlock("a", **{url: 1}), lambda: quorlock.Client(NODES, **{f"a'{url}": 1})]
            for number, call in enumerate(calls):
                with self.subTest(number):
                    refused(number, call)
            with self.assertRaisesRegex(TypeError, "force is text of 18 characters: give True or False"):
                client.init_set(force=url)
            # The name that a program has in its text is told.
            with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'tll'"):
                client.lock("a", tll=1)

        async def main():
            async with quorlock.aio.Client(memory("of-held-aio")) as client:
                lease, leases = await client.lock("a").acquire(), await client.lock_all(["b", "c"]).acquire()
                several, election = client.lock_all(["d", "e"]), client.election("f")
                calls = [lambda: lease.extend(url), lambda: lease.ensure(url), lambda: leases.extend(url), lambda: leases.ensure(url),
                         lambda: several.acquire(timeout=url), lambda: several.try_acquire(label=url), lambda: election.campaign(label=url),
                         lambda: election.run(url), lambda: election.run(main, on_lost=url), lambda: election.run(main, on_stopped=url),
                         lambda: election.run(main, again=url), lambda: client.init_set(force=url), lambda: lease.lost.wait(url)]
                for number, call in enumerate(calls):
                    with self.subTest(number):
                        try:
                            await call()
                            self.fail("not refused")
                        except (quorlock.QuorlockError, TypeError) as error:
                            told = traceback.TracebackException.from_exception(error, capture_locals=True)
                            ours = [frame for frame in told.stack if frame.filename != __file__ and "asyncio" not in frame.filename]
                            self.assertNotIn("s3cret", f"{told} {[frame.locals for frame in ours]}")
                for number, call in enumerate([lambda: lease.on_lost(url), lambda: leases.on_lost(url), lambda: election.observe(url),
                                               lambda: _aio_several.Locks([url])]):
                    with self.subTest(number):
                        refused(number, call)

        asyncio.run(main())

    def test_a_decorated_function_leaves_no_frame_with_its_arguments(self):
        def job(order):
            raise AssertionError("called")

        async def task(order):
            raise AssertionError("called")

        @contextlib.contextmanager
        def opened(order):
            yield

        held = quorlock.redlock(key=lambda order: order, nodes=NODES)
        order = {"url": "redis://u:s3cret@h"}

        def enter():
            with held(opened)(order):
                self.fail("entered")

        for call in (lambda: held(job)(order), lambda: asyncio.run(held(task)(order)), enter):
            try:
                call()
                self.fail("not refused")
            except (quorlock.QuorlockError, TypeError) as error:
                told = traceback.TracebackException.from_exception(error, capture_locals=True)
            ours = [frame for frame in told.stack if frame.filename.startswith(os.path.dirname(quorlock.__file__))]
            self.assertTrue(ours)
            self.assertNotIn("s3cret", f"{told} {[frame.locals for frame in ours]}")

    def test_what_is_no_client_is_not_kept(self):
        url = "redis://u:s3cret@h"
        for wrong in (url, {"url": url}, quorlock.Client, 5):
            with self.assertRaisesRegex(TypeError, "client is .*: give a quorlock.Client") as raised:
                quorlock.redlock("a", client=wrong)
            self.assertNotIn("s3cret", str(raised.exception))
            one = quorlock.redlock.__new__(quorlock.redlock)
            self.assertRaises(TypeError, one.__init__, "a", client=wrong)
            self.assertNotIn("s3cret", f"{vars(one)} {one!r}")

    def test_a_list_without_an_end_is_refused(self):
        client = quorlock.Client(NODES)
        endless = itertools.repeat
        for call in (lambda: quorlock.Client(endless("memory://a")), lambda: quorlock.aio.Client(endless("memory://a")),
                     lambda: quorlock.redlock("a", nodes=endless("memory://a")), lambda: quorlock.redlock(endless("a"), client=client),
                     lambda: quorlock.redlock(key=lambda: endless("a"), client=client)(print)(), lambda: client.lock_all(endless("a")),
                     lambda: quorlock.aio.Client(NODES).lock_all(endless("a")), lambda: quorlock.Locks(endless(client.lock("a")))):
            self.assertRaisesRegex(quorlock.InvalidArgumentError, "(nodes|name|the key|names|locks) has more than 1,000 entries: give fewer", call)

    def test_the_errors_of_what_was_given_keep_their_frames(self):
        def nodes():
            yield NOWHERE
            raise RuntimeError("of the caller's own")

        try:
            quorlock.Client(nodes())
            self.fail("not refused")
        except RuntimeError as error:
            self.assertIn("nodes", [frame.name for frame in traceback.extract_tb(error.__traceback__)])

    def test_what_was_not_made_can_be_shown(self):
        for kind in (quorlock.Client, quorlock.aio.Client):
            one = kind.__new__(kind)
            self.assertRaises(TypeError, one.__init__, [{"url": "redis://u:s3cret@h"}])
            self.assertRegex(repr(one), r"^<quorlock\.(aio\.)?Client that was not made>$")
        for module in (quorlock, quorlock.aio, _several, _aio_several, _redlock):
            for name in module.__all__:
                kind = getattr(module, name)
                if isinstance(kind, type):
                    with self.subTest(kind=kind):
                        # The native base of some makes none that has more than itself.
                        makes = object.__new__ if issubclass(kind, _native.Ends) else kind.__new__
                        self.assertIn(name, repr(makes(kind)))
        one = quorlock.Locks.__new__(quorlock.Locks)
        self.assertRaises(TypeError, one.__init__, ["redis://u:s3cret@h"])
        self.assertNotIn("s3cret", repr(one))
        one = quorlock.redlock("a", nodes="redis://u:s3cret@h", cert="s3cret", cert_key="s3cret")
        self.assertNotIn("s3cret", f"{vars(one)} {one!r}")
        self.assertNotIn("s3cret", repr(quorlock.redlock(key=functools.partial(print, "s3cret"), nodes=NODES)))

    def test_repr_shows_no_token_and_cuts_names(self):
        with quorlock.Client(NODES) as client:
            lock = client.lock("n" * 500)
            with lock as lease:
                self.assertNotIn(lease.token, repr(lease) + repr(lock) + repr(client) + repr(lease.lost))
                self.assertLess(len(repr(lease)), 150)
                self.assertIn("held", repr(lease))
            self.assertIn("released", repr(lease))
            self.assertIn("\\x1b", repr(client.lock("\x1b[31m")))

    def test_each_object_says_what_it_is(self):
        for module in (quorlock, quorlock.aio):
            client = module.Client(["memory://says"])
            lock, several, election = client.lock("a"), client.lock_all(["a", "b"]), client.election("a")
            made = [lock, lock.attempt(), several, several.attempt(), client.rwlock("a"), client.semaphore("a", 2), election]
            for one in [*made, election.observe()]:
                self.assertRegex(repr(one), r"^<quorlock\.[\w.]+ 'a'(, 'b')?>$")

    def test_a_key_is_not_shown_whatever_is_wrong_with_it(self):
        key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBMs0hUYjnWUE1BH\n-----END EC PRIVATE KEY-----\n"
        bare = "MHcCAQEEIBMs0hUYjnWUE1BHSO/yBdufupjL3oAGGEvFb4lZWh9QoAoGCCqGSM49"
        for given in (bare, bare[:10], key.replace("\n", "\\n"), key + "\udcff", bare + "\udcff", key.encode(), bytearray(key, "ascii"),
                      [key], Named(key.encode()), Named(bare.encode()), Named(bare)):
            for name, make in (("ca", lambda: quorlock.Client(NOWHERE, ca=given)), ("key", lambda: quorlock.Client(NOWHERE, cert="c", key=given)),
                               ("cert", lambda: quorlock.Client(NOWHERE, cert=given, key=key)),
                               ("key", lambda: quorlock.redlock("a", nodes=NOWHERE, cert="c", cert_key=given)(print))):
                with self.subTest(name, given=given), self.assertRaises((quorlock.InvalidArgumentError, TypeError)) as raised:
                    make()
                said = "".join(traceback.format_exception(raised.exception)) + repr(raised.exception)
                for part in ("MHcC", "77, 72"):
                    self.assertNotIn(part, said)

    def test_nothing_is_pickled_or_copied(self):
        with quorlock.Client(NODES) as client, client.lock("pickled") as lease:
            other = quorlock.aio.Client(NODES)
            for each in (client, client.lock("x"), lease, other, other.lock("x"), quorlock.redlock("x", nodes=NODES)):
                with self.subTest(each):
                    for way in (pickle.dumps, copy.copy, copy.deepcopy):
                        self.assertRaisesRegex(TypeError, "cannot be pickled", way, each)


class Logging(Case):
    # The warning has the last fifth of max_hold, also on a machine that stands still for a while.
    LIVES = {"ttl": 2, "max_hold": 4}

    def test_warnings_reach_logging(self):
        def lose():
            with quorlock.Client(self.nodes) as client:
                self.assertTrue(client.lock("logged", **self.LIVES).acquire().lost.wait(LONG))

        self.assert_warned(lose)

    def test_warnings_of_an_asyncio_client_reach_logging(self):
        async def lose():
            async with quorlock.aio.Client(self.nodes) as client:
                lease = await client.lock("logged", **self.LIVES).acquire()
                await asyncio.wait_for(lease.lost, LONG)

        self.assert_warned(lambda: asyncio.run(lose()))

    def test_lines_of_a_kind_have_one_template_and_what_differs_in_fields(self):
        records = queue.SimpleQueue()
        handler = logging.Handler()
        handler.emit = records.put
        logger = logging.getLogger("quorlock")
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)

        def of(event, **fields):
            while True:
                record = records.get(timeout=LONG)
                if record.event_name == event and all(getattr(record, name) == value for name, value in fields.items()):
                    return record

        with quorlock.Client(memory("templates")) as client:
            for name in ("one", "50 % {x}", "x" * 80):
                self.assertTrue(client.lock(name, ttl=0.2, renew=False).acquire().lost.wait(LONG))
                record = of("lease_lost", lock=name)
                self.assertEqual((record.levelno, record.reason), (logging.WARNING, "expired"))
                self.assertEqual(record.msg, "the lease of the lock `%(lock)s` is lost: %(reason)s")
                self.assertEqual(record.getMessage(), f"the lease of the lock `{name}` is lost: expired")
            lease = client.lock("two", ttl=2, max_hold=2.5).acquire()
            record = of("max_hold_near", lock="two")
            self.assertIn("has been held for 80 %% of max_hold", record.msg)
            self.assertIn("has been held for 80 % of max_hold (2.5s)", record.getMessage())
            lease.release()
            # What the binding itself says.
            with self.assertWarns(ResourceWarning):
                client.lock("three").acquire()
                gc.collect()
            self.assertEqual(of("lease_unkept").lock, "`three`")
        self.stage.kill(1)
        self.addCleanup(self.stage.start, 1)
        with quorlock.Client(self.nodes, wait=LONG) as client:
            client.lock("a").acquire().release()
            record = of("node_unreached")
            self.assertEqual((record.levelno, f"redis://{record.node}"), (logging.WARNING, self.nodes[0]))
            self.assertEqual(record.msg, "the node %(node)s is not reached: %(reason)s")

    def test_losses_and_connections_that_go_and_come_are_logged(self):
        with self.logged(logging.INFO) as lines, quorlock.Client(self.nodes, wait=LONG) as client:

            def heard(*words):
                while True:
                    level, line, _ = lines.get(timeout=LONG)
                    if all(word in line for word in words):
                        return level

            lease = client.lock("logged", ttl=1, max_hold=1.5).acquire()
            self.assertTrue(lease.lost.wait(LONG))
            self.assertEqual(heard("logged", "is lost: max_hold"), "WARNING")
            lease.release()
            self.stage.kill(1)
            self.assertEqual(heard(self.nodes[0].removeprefix("redis://"), "has lost its connection"), "INFO")
            self.stage.start(1)
            client.lock("logged").acquire().release()
            self.assertEqual(heard("is reached again"), "INFO")

    def test_options_of_a_reentry_that_differ_are_told(self):
        with self.logged(logging.WARNING) as lines, quorlock.Client(memory("overruled"), ttl=5) as client:
            with client.lock("a", ttl=4, renew=False):
                # What was not given differs from nothing.
                for options in ({}, {"ttl": 4}, {"ttl": 3, "max_hold": 9}, {"ttl": 2}):
                    with client.lock("a", **options):
                        pass
            with client.lock("b"), client.lock("b", renew=False, fair=True, fencing=False):
                pass
            first, second = lines.get(timeout=LONG)[1], lines.get(timeout=LONG)[1]
        self.assertIn("`a` is entered again with other options", first)
        self.assertIn("ttl (4s, not 3s), max_hold (3600s, not 9s)", first)
        self.assertIn("`b`", second)
        self.assertIn("renew (true, not false), fencing (true, not false), fair (false, not true)", second)
        self.assertTrue(lines.empty())

    @contextlib.contextmanager
    def logged(self, level):
        """The lines that the logger `quorlock` gets: (level, line, thread)."""
        lines = queue.SimpleQueue()
        handler = logging.Handler(level)
        handler.emit = lambda record: lines.put((record.levelname, record.getMessage(), threading.current_thread()))
        logger = logging.getLogger("quorlock")
        logger.addHandler(handler)
        before, logger.propagate = (logger.level, logger.propagate), False
        logger.setLevel(level)
        try:
            yield lines
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]

    def assert_warned(self, lose):
        with self.logged(logging.WARNING) as lines:
            lose()
            level, line, thread = lines.get(timeout=LONG)
        self.assertEqual(level, "WARNING")
        self.assertIn("logged", line)
        self.assertIn("max_hold", line)
        self.assertIsNot(thread, threading.current_thread())


if __name__ == "__main__":
    unittest.main()
