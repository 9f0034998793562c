"""Exclusion and re-entry where real frameworks run the callers: greenlets, pools of threads and processes, fixtures."""

import asyncio
import concurrent.futures
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import django.http
import django.test
import django.urls
import django_app
import fastapi
import httpx
import quorlock
import quorlock.aio
from inside import Inside
from quorlock import redlock
from stacks import Stacks
from support import LONG, TESTS, Case, Child

HERE = os.path.join(TESTS, "python")

GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent
from gevent import sleep, spawn
Limit = gevent.Timeout
join = gevent.joinall
from gevent.event import Event
"""
# Nothing is patched, and so a hub is all that tells.
GEVENT_UNPATCHED = GEVENT.replace("monkey.patch_all()", "")
EVENTLET = """
import warnings
warnings.simplefilter("ignore")
import eventlet
eventlet.monkey_patch()
from eventlet import sleep, spawn
Limit = eventlet.Timeout
join = lambda greenlets: [each.wait() for each in greenlets]

class Event:
    def __init__(self):
        self.event = eventlet.event.Event()
    def set(self):
        self.event.send(None)
    def wait(self):
        self.event.wait()
"""
GREEN = """
import threading, quorlock
from quorlock import redlock
client = quorlock.Client(wait=20)
now = most = entries = 0

def work():
    global now, most, entries
    with redlock("green", client=client) as lease:
        now += 1
        entries += 1
        most = max(most, now)
        for _ in range(5):
            sleep(0)
        with redlock("green", client=client) as again:
            assert again.token == lease.token
        now -= 1
"""


class Green(Case):
    """gevent and eventlet."""

    def run_script(self, script, said, kinds=(GEVENT, GEVENT_UNPATCHED, EVENTLET)):
        for kind in kinds:
            with self.subTest(kind), Child(kind + GREEN + textwrap.dedent(script), self.nodes) as child:
                self.assertEqual(child.end(), (0, said + "\n"))

    def test_one_inside(self):
        self.run_script("""
            join([spawn(work) for _ in range(20)])
            print(entries, most)
        """, "20 1")

    def test_a_wait_lets_others_run(self):
        self.run_script("""
            def hold():
                with redlock("green", client=client):
                    held.set()
                    go_on.wait()

            def waits():
                with redlock("green", client=client):
                    print("entered")

            held, go_on = Event(), Event()
            holder = spawn(hold)
            held.wait()
            waiter = spawn(waits)
            for turn in range(100):
                sleep(0)
            print("turned")
            go_on.set()
            join([holder, waiter])
        """, "turned\nentered")

    def test_one_that_is_killed_leaves_nothing(self):
        self.run_script("""
            other = quorlock.Client()
            holder = other.lock("green").acquire()
            waiters = [spawn(work) for _ in range(5)]
            while client.stats()["waiting"] + client.stats()["queued"] == 0:
                sleep(0)
            for each in waiters:
                each.kill()
            try:
                with Limit(0.05):
                    client.lock("green").acquire()
            except Limit:
                print("over")
            print(holder.release(), client.lock("green").acquire(wait=20).release(), entries)
        """, "over\nTrue True 0")

    def test_a_loss_is_waited_for(self):
        self.run_script("""
            # The loss is a warning, which would stand among what is printed.
            import logging
            logging.getLogger("quorlock").addHandler(logging.NullHandler())
            lease = client.lock("green", ttl=1, renew=False).acquire()
            print(lease.lost.wait(0.01))
            turns = [spawn(sleep, 0)]
            print(lease.lost.wait(20))
            join(turns)
        """, "False\nTrue")

    def test_beside_threads(self):
        self.run_script("""
            import gevent.threadpool
            pool = gevent.get_hub().threadpool
            jobs = [pool.spawn(work) for _ in range(5)] + [spawn(work) for _ in range(5)]
            join(jobs)
            print(entries, most)
        """, "10 1", kinds=(GEVENT, GEVENT_UNPATCHED))

    def test_gunicorn(self):
        self.assertEqual(self.served("""
            from gevent import sleep
            from quorlock import redlock
            held, inside, most = redlock("gunicorn", wait=20), 0, 0

            def app(environ, start_response):
                global inside, most
                with held:
                    inside += 1
                    most = max(most, inside)
                    for _ in range(5):
                        sleep(0)
                    inside -= 1
                start_response("200 OK", [("Content-Type", "text/plain")])
                return [b"most %d" % most]
        """, "-k", "gevent"), {b"most 1"})

    def test_slots_that_a_stack_leaves_when_the_reply_is_over(self):
        app = """
            import contextlib, itertools
            from inside import Inside
            from quorlock import semaphore
            from stacks import Failure, Stacks
            inside, numbers = Inside(), itertools.count()
            stacks = Stacks(semaphore("gunicorn-slots", 3, wait=20), inside)

            class Reply(list):
                def close(self):
                    stacks.work(self.lease)
                    self.stack.close()
                    stacks.left(self.lease)

            def app(environ, start_response):
                with contextlib.suppress(Failure):
                    stacks.do(next(numbers))
                stack = contextlib.ExitStack()
                lease = stacks.enter(stack)
                start_response("200 OK", [("Content-Type", "text/plain")])
                reply = Reply([b"%s" % str(stacks.wrong or inside.most <= 3).encode()])
                reply.stack, reply.lease = stack, lease
                return reply
        """
        for worker in (("-k", "gevent"), ("-k", "gthread", "--threads", "12")):
            with self.subTest(worker):
                self.assertEqual(self.served(app, *worker, times=60), {b"True"})
        self.assert_nothing_left()

    def served(self, app, *words, times=20):
        """What so many requests at once to such an app are answered."""

        def get(path):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(LONG)
                connection.connect(path)
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                with connection.makefile("rb") as reply:
                    return reply.read().rpartition(b"\r\n\r\n")[2]

        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "locked_app.py"), "w") as file:
                file.write(textwrap.dedent(app))
            path = os.path.join(folder, "socket")
            command = [sys.executable, "-m", "gunicorn", *words, "-b", f"unix:{path}", "--no-control-socket", "locked_app:app"]
            environment = {**os.environ, "QUORLOCK_NODES": ",".join(self.nodes), "PYTHONPATH": HERE}
            with subprocess.Popen(command, cwd=folder, env=environment, text=True, stderr=subprocess.PIPE) as server:
                try:
                    while "Booting worker" not in (line := server.stderr.readline()):
                        self.assertTrue(line, "gunicorn has not started")
                    with concurrent.futures.ThreadPoolExecutor(20) as pool:
                        return set(pool.map(get, [path] * times))
                finally:
                    server.terminate()
                    server.communicate()


class FastAPI(Case):
    """Dependencies and endpoints that block, which run in a pool of threads."""

    def serve(self, use, wait):
        """Requests to an app of a dependency that holds a lock while the endpoint runs."""
        client = quorlock.Client(self.nodes, wait=wait)
        self.addCleanup(client.close)
        app, inside = fastapi.FastAPI(), Inside()

        def held(user: str):
            with redlock(f"user:{user}", client=client):
                yield

        @app.get("/{user}")
        def endpoint(user: str, _held=fastapi.Depends(held)):
            with inside:
                inside.linger()
                try:
                    with redlock(f"user:{user}", client=client, wait=0.05):
                        return "in"
                except quorlock.LockTimeoutError as error:
                    return str(error)

        async def main():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app", timeout=LONG) as http:
                return await use(http)

        return asyncio.run(main()), inside

    def test_a_dependency_that_holds(self):
        async def use(http):
            return await asyncio.gather(*(http.get("/one") for _ in range(10)))

        replies, inside = self.serve(use, LONG)
        self.assertEqual([reply.status_code for reply in replies], [200] * 10)
        self.assertEqual((inside.most, inside.entries), (1, 10))
        self.assert_nothing_left()

    def test_slots_that_stacks_leave(self):
        """One object for all requests: entered in one task or thread, left in another."""
        client, aclient = quorlock.Client(self.nodes, wait=LONG), quorlock.aio.Client(self.nodes, wait=LONG)
        self.addCleanup(client.close)
        slots, aslots, lost = client.semaphore("slots", 2), aclient.semaphore("aslots", 2), []

        def held():
            stack = contextlib.ExitStack()
            lease = stack.enter_context(slots)
            yield lease
            stack.close()

        async def aheld():
            stack = contextlib.AsyncExitStack()
            lease = await asyncio.wait_for(stack.enter_async_context(aslots), LONG)
            yield lease
            await asyncio.create_task(stack.aclose())

        app, here, there = fastapi.FastAPI(), Inside(), Inside()

        @app.get("/blocking")
        def blocking(lease=fastapi.Depends(held)):
            with here:
                time.sleep(0.002)
                lost.extend([] if lease.is_held() else [lease])

        @app.get("/asyncio")
        async def tasks(lease=fastapi.Depends(aheld)):
            with there:
                await asyncio.sleep(0.002)
                lost.extend([] if lease.is_held() else [lease])

        async def main():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app", timeout=LONG) as http:
                # Those that block have a thread each while they wait, and the pool has 40.
                gets = [("/blocking", 30), ("/asyncio", 60)]
                replies = await asyncio.gather(*(http.get(path) for path, times in gets for _ in range(times)))
            await aclient.close()
            return {reply.status_code for reply in replies}

        self.assertEqual(asyncio.run(main()), {200})
        self.assertEqual((here.entries, here.most, there.entries, there.most, lost), (30, 2, 60, 2, []))
        self.assert_nothing_left()

    def test_an_endpoint_inside_of_its_dependency_waits(self):
        async def use(http):
            return (await http.get("/one")).json()

        said, _ = self.serve(use, LONG)
        self.assertIn("owner=", said)


class Django(Case):
    """One semaphore for all requests, whose views run in an event loop, in threads of it, and in threads of a WSGI server."""

    SLOTS = 3

    def setUp(self):
        super().setUp()
        self.inside = Inside()
        slots = quorlock.semaphore("django", self.SLOTS, nodes=self.nodes, wait=LONG)
        self.stacks = stacks = Stacks(slots, self.inside)

        def blocking(_request, number):
            stacks.do(number)
            return django.http.HttpResponse("done")

        async def tasks(_request, number):
            await stacks.ado(number)
            return django.http.HttpResponse("done")

        async def streamed(_request, number):
            async with contextlib.AsyncExitStack() as stack:
                lease = await stacks.aenter(stack)
                kept = stack.pop_all()

            async def body():
                async with kept:
                    await stacks.awork(lease)
                    yield "done"
                stacks.left(lease)

            return django.http.StreamingHttpResponse(body())

        views = [("blocking", blocking), ("tasks", tasks), ("streamed", streamed)]
        patterns = tuple(django.urls.path(f"{name}/<int:number>", view) for name, view in views)
        # What a view raises is answered.
        self.enterContext(django.test.override_settings(ROOT_URLCONF=patterns, DEBUG_PROPAGATE_EXCEPTIONS=False))

    def assert_answered(self, statuses, done, failed):
        """Every view has done its work, but for those that fail by themselves."""
        self.assertEqual(sorted(statuses), [200] * done + [500] * failed)
        self.assertEqual((self.stacks.wrong, self.inside.most, self.inside.now), ([], self.SLOTS, 0))
        self.assert_nothing_left()

    def test_slots_that_stacks_leave(self):
        gets = [("blocking", 30), ("tasks", 60), ("streamed", 10)]
        replies = asyncio.run(django_app.get(*(f"/{view}/{number}" for view, times in gets for number in range(times))))
        self.assert_answered([reply.status_code for reply in replies], 84, 16)

    def test_slots_that_stacks_leave_in_threads_of_wsgi(self):
        def get(number):
            return django.test.Client(raise_request_exception=False).get(f"/blocking/{number}").status_code

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            statuses = list(pool.map(get, range(60)))
        self.assert_answered(statuses, 48, 12)


class Celery(Case):
    APP = """
        import asyncio, contextlib, os
        import celery, redis
        from quorlock import redlock, semaphore
        from stacks import Failure, Stacks
        broker = os.environ["BROKER"]
        app = celery.Celery("locked_tasks", broker=broker, backend=broker)
        app.conf.update(broker_connection_retry_on_startup=True, worker_prefetch_multiplier=1)
        count = redis.Redis.from_url(broker)

        @app.task
        def work():
            with redlock("celery", wait=20) as lease:
                inside = count.incr("inside")
                for _ in range(5):
                    count.ping()
                with redlock("celery") as again:
                    assert again.token == lease.token
                count.decr("inside")
            return inside

        # More than there are tasks at once, each of which may wait for its second one.
        slots = semaphore("celery-slots", 5, wait=20)

        class Inside:
            def __enter__(self):
                if (inside := count.incr("in-slots")) > 5:
                    count.decr("in-slots")
                    raise AssertionError(f"{inside} are inside")

            def __exit__(self, *_):
                count.decr("in-slots")

        @contextlib.contextmanager
        def own_alone():
            stacks = Stacks(slots, Inside())
            try:
                yield stacks
            finally:
                assert not stacks.wrong, stacks.wrong

        @app.task(throws=Failure)
        def blocking(number):
            with own_alone() as stacks:
                stacks.do(number)

        @app.task(throws=Failure)
        def tasks(number):
            async def main():
                with own_alone() as stacks:
                    children = [asyncio.create_task(stacks.ado(number + at)) for at in range(4)]
                    await asyncio.wait(children)
                for child in children:
                    child.result()

            asyncio.run(main())
    """
    RUN = """
        import sys
        import locked_tasks
        from stacks import Failure
        jobs = [locked_tasks.work.delay() for _ in range(12)]
        stacks = [getattr(locked_tasks, kind).delay(number) for kind in sys.argv[1:] for number in range(20)]
        print(max(job.get(timeout=40) for job in jobs), len(jobs))
        ended = [job.get(timeout=40, propagate=False) for job in stacks]
        print(*[error for error in ended if error is not None and not isinstance(error, Failure)], ended.count(None))
        # One that has not subscribed yet would not hear it.
        while not locked_tasks.app.control.ping(limit=1):
            pass
        locked_tasks.app.control.shutdown()
    """

    def run_pool(self, pool, *kinds, done=16):
        """`kinds`: of the tasks that use slots; so many of these end well, and the others by their own failure."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "locked_tasks.py"), "w") as file:
                file.write(textwrap.dedent(self.APP))
            environment = {**os.environ, "QUORLOCK_NODES": ",".join(self.nodes), "BROKER": f"{self.nodes[0]}/1", "PYTHONPATH": HERE}
            command = [sys.executable, "-m", "celery", "-A", "locked_tasks", "worker", "-P", pool, "-c", "4", "--without-mingle",
                       "--without-gossip", "--without-heartbeat"]
            worker = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                run = subprocess.run([sys.executable, "-c", textwrap.dedent(self.RUN), *kinds], cwd=folder, env=environment,
                                     text=True, stdout=subprocess.PIPE, timeout=3 * LONG)
                said = worker.communicate(timeout=LONG)[0] if run.returncode == 0 else b""
            finally:
                worker.kill()
                worker.communicate()
            self.assertEqual(run.stdout, f"1 12\n{done}\n", said)
            self.assert_nothing_left()

    def test_prefork(self):
        self.run_pool("prefork", "blocking", "tasks", done=16 + 8)

    def test_threads(self):
        self.run_pool("threads", "blocking", "tasks", done=16 + 8)

    # Several greenlets of one thread have no event loop each.
    def test_gevent(self):
        self.run_pool("gevent", "blocking")

    def test_eventlet(self):
        self.run_pool("eventlet", "blocking")


class Pytest(Case):
    """Fixtures, which are entered in one place and left in another."""

    def run_file(self, *tests):
        text = textwrap.dedent("""
            import contextlib, pytest, pytest_asyncio, quorlock, quorlock.aio
            from quorlock import redlock
            client = quorlock.Client(wait=20)

            def others_are_refused(name):
                return client.lock(name, owner="other").try_acquire() is None
        """) + "".join(map(textwrap.dedent, tests))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_locked.py"), "w") as file:
                file.write(text)
            environment = {**os.environ, "QUORLOCK_NODES": ",".join(self.nodes)}
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error",
                       "-o", "asyncio_default_fixture_loop_scope=function", folder]
            done = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, timeout=3 * LONG)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assert_nothing_left()

    def test_a_fixture_and_a_test(self):
        self.run_file("""
            @pytest.fixture
            def held():
                with redlock("fixture", client=client) as lease:
                    yield lease
                assert not lease.is_held()

            def test_reenters(held):
                with redlock("fixture", client=client) as lease:
                    assert lease.token == held.token

            @pytest.mark.asyncio
            async def test_is_refused_at_once(held):
                with pytest.raises(quorlock.WouldDeadlockError, match="owner="):
                    redlock("fixture", client=client).__enter__()
        """)

    def test_a_fixture_of_asyncio(self):
        self.run_file("""
            shared = redlock("afixture", client=client)

            @pytest_asyncio.fixture
            async def held():
                async with shared as lease:
                    yield lease
                assert not lease.is_held()

            @pytest_asyncio.fixture
            async def stacked():
                async with contextlib.AsyncExitStack() as stack:
                    yield await stack.enter_async_context(quorlock.aio.Client().lock("stacked"))

            @pytest.mark.asyncio
            async def test_held(held, stacked):
                assert held.is_held() and stacked.is_held()
                assert others_are_refused("afixture")

            @pytest.mark.asyncio
            async def test_held_again(held, stacked):
                assert held.is_held() and stacked.is_held()
        """)


if __name__ == "__main__":
    unittest.main()
