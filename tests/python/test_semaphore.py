"""Slots of a semaphore: as many holders as there are slots, and no more."""

import asyncio
import threading
import unittest

import quorlock
import quorlock.aio
from quorlock import redlock, semaphore

from support import LONG, Case, memory


class Slots(Case):
    def setUp(self):
        super().setUp()
        self.client, self.other = (quorlock.Client(self.nodes, wait=LONG) for _ in range(2))
        for client in (self.client, self.other):
            self.addCleanup(client.close)

    def test_as_many_hold_it_as_there_are_slots(self):
        api = self.client.semaphore("api", 2)
        # One thread may have several.
        with api as one, self.other.semaphore("api", 2) as two:
            self.assertEqual({one.slot, two.slot}, {0, 1})
            self.assertNotEqual(one.token, two.token)
            self.assertIsNone(api.try_acquire())
            with self.assertRaises(quorlock.LockContendedError):
                api.acquire(timeout=0)
            with self.assertRaises(quorlock.LockTimeoutError) as raised:
                api.acquire(timeout=0.1)
            self.assertNotIn("owner=", str(raised.exception))
            # A lock of that name is another matter, and so is one slot more.
            with self.client.lock("api") as lock, self.client.semaphore("api", 3) as third:
                self.assertEqual((lock.slot, third.slot), (None, 2))
            freed = two.slot
        with api as again, api as both:
            self.assertEqual({again.slot, both.slot}, {0, 1})
            fences = {lease.slot: lease.fence for lease in (again, both)}
        self.assertGreater(fences[freed], two.fence)
        self.assert_nothing_left()

    def test_it_is_looked_at_and_freed_by_its_slots(self):
        api, theirs = self.client.semaphore("api", 2), self.other.semaphore("api", 2)
        # From here on it knows the nodes' clocks.
        with self.other.lock("warm"):
            pass
        self.assertTrue(api.wait_until_free(timeout=0))
        one, two = theirs.acquire(), theirs.acquire()
        # A lease that was asked for again is known by its own fence from a renewal on.
        one.extend()
        two.extend()
        found = api.inspect()
        self.assertEqual((found.verdict, found.slots_held, found.holder), ("held", 2, None))
        self.assertEqual([slot.slot for slot in found.slots], [0, 1])
        for lease in (one, two):
            holder = found.slots[lease.slot].holder
            self.assertEqual(holder.fence, lease.fence)
            self.assertIsNotNone(holder.since)
        self.assertTrue(api.locked())
        self.assertIn(api.holder().fence, (one.fence, two.fence))
        lock = self.client.inspect("api")
        self.assertEqual((lock.verdict, lock.slots_held, lock.slots), ("free", 2, ()))
        self.assertFalse(api.wait_until_free(timeout=0.1))
        with self.assertRaises(quorlock.LockContendedError):
            api.force_release(fence=two.fence, slot=one.slot)
        for wrong in ({"fence": one.fence}, {"slot": 2}, {"slot": -1}):
            with self.assertRaises(quorlock.InvalidArgumentError):
                api.force_release(**wrong)
        with self.assertRaises(quorlock.InvalidArgumentError):
            self.client.lock("api").force_release(slot=0)
        forced = api.force_release(fence=one.fence, slot=one.slot)
        self.assertEqual(forced.found.slot, one.slot)
        self.assertGreaterEqual(forced.freed, 2)
        self.assertTrue(api.wait_until_free())
        self.assertTrue(two.is_held())
        self.assertGreaterEqual(api.force_release().freed, 2)
        self.assertEqual(api.inspect().slots_held, 0)

    def test_its_slots_are_looked_at_and_freed_in_asyncio(self):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                api = client.semaphore("api", 2)
                lease = await self_held(api)
                found = await api.inspect()
                self.assertEqual((found.verdict, found.slots_held), ("free", 1))
                self.assertEqual(found.slots[lease.slot].holder.fence, lease.fence)
                self.assertTrue(await api.wait_until_free())
                lock = client.lock("alone")
                other = await self_held(lock)
                self.assertFalse(await lock.wait_until_free(timeout=0.1))
                waits = asyncio.ensure_future(lock.wait_until_free())
                await other.release()
                self.assertTrue(await asyncio.wait_for(waits, LONG))
                forced = await api.force_release(slot=lease.slot)
                self.assertGreaterEqual(forced.freed, 2)
                self.assertEqual((await api.inspect()).slots_held, 0)

        async def self_held(lock):
            async with quorlock.aio.Client(self.nodes) as warm:
                async with warm.lock("warm"):
                    pass
            return await lock.acquire()

        asyncio.run(main())

    def test_acquire_and_release_by_hand(self):
        api = self.client.semaphore("api", 2)
        first = api.acquire()
        second = api.acquire()
        self.assertTrue(api.release())
        self.assertEqual((first.is_held(), second.is_held()), (True, False))
        self.assertTrue(api.release())
        with self.assertRaises(quorlock.NotOwnerError):
            api.release()
        self.assert_nothing_left()

    def test_threads_are_never_more_than_the_limit(self):
        inside, most, lock = 0, 0, threading.Lock()

        @semaphore("report", 3, client=self.client, wait=None)
        def work():
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            barrier.wait(LONG)
            with lock:
                inside -= 1

        # Three at a time, all of them at once.
        barrier = threading.Barrier(3)
        threads = [threading.Thread(target=work) for _ in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual((inside, most), (0, 3))
        self.assert_nothing_left()

    def test_a_named_owner_enters_its_slot_again(self):
        with self.client.semaphore("a", 2, owner="me") as one, self.client.semaphore("a", 2, owner="me") as again:
            self.assertEqual((one.slot, one.token), (again.slot, again.token))
        self.assert_nothing_left()

    def test_tasks_have_a_slot_each(self):
        async def main():
            async with quorlock.aio.Client(self.nodes, wait=LONG) as client:
                api = client.semaphore("api", 2)
                async with api as one, api as two:
                    self.assertEqual({one.slot, two.slot}, {0, 1})
                    self.assertIsNone(await api.try_acquire())
                    third = asyncio.create_task(api.acquire())
                    await asyncio.sleep(0)
                    self.assertFalse(third.done())
                    await two.release()
                    lease = await third
                    self.assertEqual(lease.slot, two.slot)
                    await lease.release()

        asyncio.run(main())
        self.assert_nothing_left()

    def test_a_task_gives_back_its_newest_slot(self):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                for _ in range(10):
                    api = client.semaphore("api", 8)
                    held = [await api.acquire() for _ in range(7)]
                    while held:
                        self.assertTrue(await api.release())
                        self.assertFalse(held.pop().is_held())
                        self.assertTrue(all(lease.is_held() for lease in held))
                # One that is lost takes no place of one that is held.
                first = await api.acquire()
                doomed = client.semaphore("api", 8, ttl=0.1, renew=False)
                kept, lost = await doomed.acquire(), await doomed.acquire()
                await kept.extend(30)
                await lost.lost
                self.assertTrue(await doomed.release())
                self.assertEqual((kept.is_held(), first.is_held()), (False, True))
                self.assertFalse(await doomed.release())
                with self.assertRaises(quorlock.NotOwnerError):
                    await doomed.release()
                self.assertTrue(first.is_held())
                await first.release()

        asyncio.run(main())
        self.assert_nothing_left()

    def test_what_makes_no_semaphore_is_refused(self):
        for slots, given in ((0, "slots is 0: give 1 to 128"), (129, "slots is 129"), (-1, "slots is -1")):
            with self.assertRaisesRegex(quorlock.InvalidArgumentError, given):
                self.client.semaphore("a", slots)
        for option in ("raw", "shared"):
            with self.assertRaisesRegex(quorlock.InvalidArgumentError, option):
                self.client.lock("a", slots=2, **{option: True})
            with self.assertRaisesRegex(TypeError, f"unexpected keyword argument '{option}'"):
                self.client.semaphore("a", 2, **{option: True})
        with self.assertRaisesRegex(TypeError, "slots"):
            self.client.semaphore("a", "many")
        with self.client.semaphore("a", 1) as lease, self.assertRaisesRegex(quorlock.InvalidArgumentError, "slot"):
            lease.downgrade()


class InMemory(unittest.TestCase):
    def test_memory_nodes_have_slots(self):
        nodes = memory("slots")
        with semaphore("a", 2, nodes=nodes), redlock("a", slots=2, nodes=nodes) as second:
            self.assertIn(second.slot, (0, 1))
            with semaphore("a", 2, nodes=nodes).attempt() as third:
                self.assertIsNone(third)


if __name__ == "__main__":
    unittest.main()
