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

import fastapi
import httpx
import quorlock
import quorlock.aio
from inside import Inside
from quorlock import redlock
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
            import contextlib, threading, time
            from quorlock import semaphore
            slots, lock, inside, most = semaphore("gunicorn-slots", 3, wait=20), threading.Lock(), 0, 0

            class Reply(list):
                def close(self):
                    global inside
                    with lock:
                        inside -= 1
                    self.stack.close()

            def app(environ, start_response):
                global inside, most
                stack = contextlib.ExitStack()
                lease = stack.enter_context(slots)
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.002)
                start_response("200 OK", [("Content-Type", "text/plain")])
                reply = Reply([b"%s" % (b"held" if lease.is_held() and most <= 3 else b"too many: %d" % most)])
                reply.stack = stack
                return reply
        """
        for worker in (("-k", "gevent"), ("-k", "gthread", "--threads", "12")):
            with self.subTest(worker):
                self.assertEqual(self.served(app, *worker, times=60), {b"held"})
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
            environment = {**os.environ, "QUORLOCK_NODES": ",".join(self.nodes)}
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


class Celery(Case):
    APP = """
        import os
        import celery, redis
        from quorlock import redlock
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
    """
    RUN = """
        import locked_tasks
        jobs = [locked_tasks.work.delay() for _ in range(12)]
        print(max(job.get(timeout=40) for job in jobs), len(jobs))
        locked_tasks.app.control.shutdown()
    """

    def run_pool(self, pool):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "locked_tasks.py"), "w") as file:
                file.write(textwrap.dedent(self.APP))
            environment = {**os.environ, "QUORLOCK_NODES": ",".join(self.nodes), "BROKER": f"{self.nodes[0]}/1"}
            command = [sys.executable, "-m", "celery", "-A", "locked_tasks", "worker", "-P", pool, "-c", "4", "--without-mingle",
                       "--without-gossip", "--without-heartbeat"]
            worker = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                done = subprocess.run([sys.executable, "-c", textwrap.dedent(self.RUN)], cwd=folder, env=environment, text=True,
                                      stdout=subprocess.PIPE, timeout=3 * LONG)
                said = worker.communicate(timeout=LONG)[0] if done.returncode == 0 else b""
            finally:
                worker.kill()
                worker.communicate()
            self.assertEqual(done.stdout, "1 12\n", said)

    def test_prefork(self):
        self.run_pool("prefork")

    def test_threads(self):
        self.run_pool("threads")

    def test_gevent(self):
        self.run_pool("gevent")

    def test_eventlet(self):
        self.run_pool("eventlet")


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
