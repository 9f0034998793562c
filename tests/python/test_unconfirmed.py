"""Releases that wait for no answer: by the call, by the lock, by the end of a scope."""

import asyncio
import logging
import unittest

import quorlock
import quorlock.aio
from quorlock import redlock, testing
from support import Case, Child, keys, memory

NODES = memory("unconfirmed")
# Losses are warnings, which are not what is tested here.
logging.getLogger("quorlock").addHandler(logging.NullHandler())


class Near(unittest.TestCase):
    """On nodes of this process."""

    def setUp(self):
        self.client, self.other = quorlock.Client(NODES), quorlock.Client(NODES)
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def assert_free(self, *names):
        for name in names or (self.id(),):
            lease = self.other.lock(name).try_acquire()
            self.assertTrue(lease is not None and lease.release(), name)

    def lock(self, **options):
        return self.client.lock(self.id(), wait=0, **options)


class Blocking(Near):
    def test_it_says_whether_the_lease_was_valid(self):
        lease = self.lock().acquire()
        told = []
        lease.on_lost(told.append)
        self.assertEqual((lease.release(confirm=False), lease.is_held(), lease.release(confirm=False)), (True, False, False))
        self.assert_free()
        lease = self.lock().acquire()
        testing.lose(self.id())
        self.assertEqual((lease.release(confirm=False), lease.lost.reason, told), (False, "expired", []))

    def test_a_scope_does_as_its_lock_says(self):
        with self.lock(confirm=False) as lease:
            self.assertTrue(lease.is_held())
            with self.lock(confirm=False):
                pass
            self.assertTrue(lease.is_held())
        self.assertFalse(lease.is_held())
        self.assert_free()

        @redlock(self.id(), client=self.client, confirm=False)
        def job():
            return 7

        self.assertEqual(job(), 7)
        self.assert_free()
        with self.assertRaises(quorlock.LockLostError), self.lock(confirm=False):
            testing.lose(self.id())

    def test_several(self):
        names = [f"{self.id()}:{i}" for i in range(3)]
        locks = self.client.lock_all(names, wait=0)
        leases = locks.acquire()
        self.assertEqual((leases.release(confirm=False), leases.is_held(), leases.release(confirm=False)), (True, False, False))
        self.assert_free(*names)
        with self.client.lock_all(names, wait=0, confirm=False) as leases:
            self.assertTrue(leases.is_held())
        self.assert_free(*names)
        with redlock(names, client=self.client, confirm=False):
            pass
        self.assert_free(*names)

    def test_what_is_to_stay_taken_is_refused_and_held_on(self):
        lease = self.lock(keep=0.02).acquire()
        told = []
        lease.on_lost(told.append)
        with self.assertRaisesRegex(quorlock.InvalidArgumentError, "keep is 20ms.*confirm"):
            lease.release(confirm=False)
        self.assertTrue(lease.is_held())
        # As it was: it is kept by its lock, and tells of a loss.
        testing.lose(self.id())
        self.assertEqual(lease.lost.wait(10), True)
        self.assertFalse(lease.release())

    def test_what_is_no_flag_is_refused_and_held_on(self):
        lease = self.lock().acquire()
        for wrong in ("no", 0, []):
            with self.assertRaises((TypeError, quorlock.InvalidArgumentError)):
                lease.release(confirm=wrong)
        self.assertTrue(lease.is_held() and lease.release(confirm=None))

    def test_in_a_forked_child_it_says_false_and_the_parent_holds_on(self):
        with Child("""
import os, quorlock, warnings
warnings.simplefilter("ignore", DeprecationWarning)
lease = quorlock.Client().lock("a").acquire()
process = os.fork()
if process == 0:
    os._exit(lease.release(confirm=False))
print(os.waitpid(process, 0)[1], lease.is_held(), lease.release(confirm=False))
""", NODES) as child:
            self.assertEqual(child.end(), (0, "0 True True\n"))


class Asyncio(Near):
    def run_async(self, main):
        async def run():
            async with quorlock.aio.Client(NODES) as client:
                await main(client)

        asyncio.run(run())

    def ended(self, coroutine):
        """What it gives, if it waits for nothing."""
        with self.assertRaises(StopIteration) as ended:
            coroutine.send(None)
        return ended.exception.value

    def test_it_waits_for_nothing(self):
        async def main(client):
            lease = await client.lock(self.id()).acquire()
            self.assertTrue(self.ended(lease.release(confirm=False)))
            self.assertFalse(self.ended(lease.release(confirm=False)))
            lease = await client.lock(self.id(), confirm=False).acquire()
            self.assertTrue(self.ended(lease.release()))
            names = [self.id(), f"{self.id()}:b"]
            leases = await client.lock_all(names).acquire()
            self.assertTrue(self.ended(leases.release(confirm=False)))

        self.run_async(main)
        self.assert_free()

    def test_a_scope_does_as_its_lock_says(self):
        async def main(client):
            async with client.lock(self.id(), confirm=False) as lease:
                self.assertTrue(lease.is_held())
            self.assertFalse(lease.is_held())
            async with redlock([self.id(), f"{self.id()}:b"], client=client, confirm=False) as leases:
                self.assertTrue(leases.is_held())
            self.assertFalse(leases.is_held())

        self.run_async(main)
        self.assert_free(self.id(), f"{self.id()}:b")

    def test_what_is_to_stay_taken_is_refused_and_held_on(self):
        async def main(client):
            lease = await client.lock(self.id(), keep=0.02).acquire()
            with self.assertRaisesRegex(quorlock.InvalidArgumentError, "keep is 20ms.*confirm"):
                await lease.release(confirm=False)
            self.assertTrue(lease.is_held() and await lease.release(confirm=True))

        self.run_async(main)


class Exit(Case):
    """What is released right before the process ends is free behind it."""

    def assert_free_behind(self, script):
        with Child("import asyncio, sys, quorlock, quorlock.aio\n" + script, self.nodes) as child:
            self.assert_ends_well(child)
        self.assertEqual(keys(self.stage), [])

    def test_of_blocking_code(self):
        for end in ("", "\nclient.close()", "\nsys.exit(0)"):
            self.assert_free_behind("client = quorlock.Client()\nassert client.lock('a').acquire().release(confirm=False)" + end)
        self.assert_free_behind("with quorlock.redlock('a', confirm=False) as lease:\n    assert lease.is_held()")
        self.assert_free_behind("with quorlock.redlock(['a', 'b'], confirm=False) as leases:\n    assert leases.is_held()")

    def test_of_asyncio(self):
        # Alone the loop sends it itself; beside a call that is never awaited the I/O thread does.
        for beside in ("None", "asyncio.ensure_future(client.lock('b').locked())"):
            self.assert_free_behind(f"""
async def main():
    client = quorlock.aio.Client()
    lease = await client.lock("a").acquire()
    other = {beside}
    await asyncio.sleep(0)
    assert await lease.release(confirm=False)

asyncio.run(main())
""")


if __name__ == "__main__":
    unittest.main()
