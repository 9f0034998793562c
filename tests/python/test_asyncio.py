"""Cancellation, closed loops and the channel between the core and a loop."""

import asyncio
import gc
import random
import unittest
import warnings
import weakref

import quorlock
import quorlock.aio
from quorlock import _channel
from support import LONG, Case, eventually, hold_elsewhere, keys, memory


class Waits(Case):
    def assert_rests(self, client):
        """Nothing in the core goes on trying."""
        before = client.stats()["attempts_lost"]
        self.assertFalse(eventually(lambda: client.stats()["attempts_lost"] > before + 1, 1.0))


class Turns(Case):
    def test_the_calls_of_a_turn_leave_together(self):
        async def cycle(lock):
            async with lock:
                pass

        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                locks = [client.lock(f"turn-{number}") for number in range(16)]
                # By then the client knows that several calls come in a turn.
                await asyncio.gather(*map(cycle, locks))
                self.stage.reset_counters()
                for _ in range(10):
                    await asyncio.gather(*map(cycle, locks))
                # Each write has one trailer behind its votes; a write for each call has 160.
                self.assertLess(self.stage.counters(1)["time"], 80)

        asyncio.run(main())

    def test_releases_that_wait_for_the_end_of_a_turn_outlive_their_loop(self):
        loop = asyncio.new_event_loop()
        client = quorlock.aio.Client(self.nodes)

        async def acquired():
            return await asyncio.gather(*(client.lock(f"held-{number}").acquire() for number in range(3)))

        leases = loop.run_until_complete(acquired())
        for lease in leases:
            loop.create_task(lease.release())
        # The tasks run, and the turn does not come to its end.
        loop.call_soon(loop.stop)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loop.run_forever()
            loop.close()
            del loop
            gc.collect()
        self.assert_nothing_left()
        del leases


class Cancelled(Waits):
    def run_on(self, main, loop=None):
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(main)

    def test_at_random_instants(self):
        chance = random.Random(7)
        ends = {"won": 0, "cancelled": 0}

        async def one(lock):
            task = asyncio.create_task(lock.acquire())
            # Most before the votes are in, some after.
            await asyncio.sleep(chance.random() ** 3 * 0.1)
            task.cancel()
            try:
                lease = await task
            except asyncio.CancelledError:
                ends["cancelled"] += 1
            else:
                ends["won"] += 1
                if chance.random() < 0.5:
                    # Cancelled in the middle, a release is carried out all the same.
                    task = asyncio.create_task(lease.release())
                    await asyncio.sleep(chance.random() * 0.002)
                    task.cancel()
                    await asyncio.wait([task])
                else:
                    await lease.release()

        async def main():
            client = quorlock.aio.Client(self.nodes, wait=LONG)
            for _ in range(60):
                await asyncio.gather(*(one(client.lock(f"random-{i % 4}")) for i in range(10)))
            self.assert_nothing_left()
            self.assertEqual(client.stats()["lost"], 0)
            await client.close()

        self.run_on(main())
        self.assertGreater(ends["won"], 50, ends)
        self.assertGreater(ends["cancelled"], 50, ends)

    def test_in_the_turn_in_which_it_is_won(self):
        """The result is there, the task has not run, and then it is cancelled."""
        tasks = []

        class Loop(asyncio.SelectorEventLoop):
            def create_future(self):
                future = super().create_future()
                if tasks:
                    # Runs before the task is woken, which registers later.
                    future.add_done_callback(lambda _: tasks.pop().cancel())
                return future

        async def main():
            client = quorlock.aio.Client(self.nodes)
            for call in ("acquire", "try_acquire"):
                lock = client.lock("same-turn")
                task = asyncio.create_task(getattr(lock, call)())
                tasks.append(task)
                try:
                    await task
                except asyncio.CancelledError:
                    self.assertEqual(tasks, [])
                    self.assertEqual(client.stats()["acquired"], 1 + (call == "try_acquire"))
                    # The exception knows the frames, and these know the lease: its collection would come too late.
                    self.assert_nothing_left()
                else:
                    self.fail("not cancelled")
            await client.close()

        self.run_on(main(), Loop)

    def test_before_the_result_is_taken(self):
        """The core has won, the loop has not looked yet, and then the task is cancelled."""

        async def main():
            client = quorlock.aio.Client(self.nodes)
            task = asyncio.create_task(client.lock("blocked").acquire())
            await asyncio.sleep(0)
            # Blocks the loop.
            self.assertEqual(len(self.stage.await_holders("lock:{blocked}", 3, LONG)), 3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assert_nothing_left()
            await client.close()

        self.run_on(main())

    def test_a_wait_that_times_out(self):
        async def main():
            client = quorlock.aio.Client(self.nodes, wait=None)
            hold_elsewhere(self.stage, "timed", 60)
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.lock("timed").acquire()
            self.assertEqual(self.stage.redis(2, "GET", "lock:{timed}"), b"other")
            self.assert_rests(client)
            await client.close()

        self.run_on(main())

    def test_a_scope_that_is_cancelled_while_it_is_left(self):
        async def main():
            client = quorlock.aio.Client(self.nodes)
            left = asyncio.Event()

            async def work():
                async with client.lock("left"):
                    left.set()

            for _ in range(20):
                task = asyncio.create_task(work())
                await left.wait()
                task.cancel()
                await asyncio.wait([task])
                left.clear()
            self.assert_nothing_left()
            await client.close()

        self.run_on(main())


class Closed(Waits):
    def begin(self, name):
        """A loop with a task that acquires, and was left alone."""
        loop = asyncio.new_event_loop()
        client = quorlock.aio.Client(self.nodes, wait=None)
        task = loop.create_task(client.lock(name).acquire())
        task._log_destroy_pending = False
        loop.run_until_complete(asyncio.sleep(0))
        return loop, client, task

    def test_while_an_acquire_waits(self):
        hold_elsewhere(self.stage, "closed", 0.5, numbers=(1, 2))
        loop, client, task = self.begin("closed")
        loop.close()
        self.assertEqual(self.stage.await_holders("lock:{closed}", 0, LONG), [])
        self.assertFalse(task.done())
        self.assert_rests(client)
        self.assertEqual(client.stats()["acquired"], 0)

    def test_with_a_lease_that_nobody_took(self):
        loop, client, task = self.begin("closed")
        self.assertEqual(len(self.stage.await_holders("lock:{closed}", 3, LONG)), 3)
        loop.close()
        self.assert_nothing_left()
        self.assertFalse(task.done())

    def test_a_result_for_a_loop_that_is_closed(self):
        self.stage.stop(1, 2)
        loop, client, task = self.begin("closed")
        self.assertEqual(self.stage.await_holders("lock:{closed}", 1, LONG), [3])
        loop.close()
        self.stage.cont(1, 2)
        self.assert_nothing_left()
        self.assertFalse(task.done())

    def test_a_loop_that_is_forgotten(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            loop, client, task = self.begin("closed")
            self.assertEqual(len(self.stage.await_holders("lock:{closed}", 3, LONG)), 3)
            gone = weakref.ref(loop)
            del loop, task
            gc.collect()
        self.assertIsNone(gone())
        self.assert_nothing_left()

    def test_leases_outlive_their_loop(self):
        async def take():
            return await quorlock.aio.Client(self.nodes).lock("outlives").acquire()

        lease = asyncio.run(take())
        self.assertTrue(lease.is_held())
        asyncio.run(release(lease))
        self.assert_nothing_left()

    def test_no_loop_is_kept(self):
        async def use():
            async with quorlock.aio.Client(memory("kept")) as client, client.lock("kept") as lease:
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(forever(lease), 0.01)
            return weakref.ref(asyncio.get_running_loop())

        gone = asyncio.run(use())
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(len(_channel._ports), 0)


async def release(lease):
    return await lease.release()


async def forever(lease):
    await lease.lost


class Channel(unittest.IsolatedAsyncioTestCase):
    async def test_one_wake_up_for_many_results(self):
        client = quorlock.aio.Client(memory("many"))
        port = _channel.port_of(asyncio.get_running_loop())
        self.assertIs(port, _channel.port_of(asyncio.get_running_loop()))
        leases = await asyncio.gather(*(client.lock(f"many-{i}").acquire() for i in range(500)))
        self.assertTrue(all(lease.is_held() for lease in leases))
        await asyncio.gather(*(lease.release() for lease in leases))
        self.assertFalse(any(lease.is_held() for lease in leases))
        await client.close()


if __name__ == "__main__":
    unittest.main()
