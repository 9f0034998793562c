"""A lease that goes on in another client: in this process, in another API, in another process."""

import asyncio
import contextlib
import subprocess
import sys
import unittest

import quorlock
import quorlock.aio
import quorlock.testing

from support import LONG, Case

GOES_ON = """
import sys, quorlock
with quorlock.Client(sys.argv[1]) as client, client.adopt(sys.stdin.read()) as lease:
    print(lease.name, lease.fence, lease.is_held())
"""


class Adopt(Case):
    def setUp(self):
        super().setUp()
        self.client, self.other = (quorlock.Client(self.nodes, wait=LONG) for _ in range(2))
        for client in (self.client, self.other):
            self.addCleanup(client.close)

    def test_a_lease_goes_on_with_a_larger_fence(self):
        lease = self.client.lock("orders").acquire()
        text = lease.export()
        self.assertFalse(lease.is_held())
        self.assertFalse(lease.lost.is_set())
        self.assertFalse(lease.release())
        self.assertIsNone(self.client.lock("orders").try_acquire())
        with self.other.adopt(text) as second:
            self.assertTrue(second.is_held())
            self.assertEqual(second.name, "orders")
            self.assertGreater(second.fence, lease.fence)
            with self.assertRaises(quorlock.LockLostError):
                self.client.adopt(text)
        self.assert_nothing_left()

    def test_within_with(self):
        """A scope whose lease was exported ends without a word: nothing was lost."""
        with self.client.lock("orders") as lease:
            text = lease.export()
        self.other.adopt(text).release()
        self.assert_nothing_left()

    def test_asyncio(self):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                lease = await client.lock("orders").acquire()
                text = await lease.export()
                self.assertFalse(lease.is_held())
                second = self.other.adopt(text)
                async with await client.adopt(second.export()) as third:
                    self.assertGreater(third.fence, lease.fence)
                    self.assertTrue(third.is_held())

        asyncio.run(main())
        self.assert_nothing_left()

    def test_an_export_that_is_cancelled_leaves_the_lease_and_one_that_is_not_has_its_text(self):
        async def exported(client, turns):
            """Cancelled after so many turns of the loop; the text, if it was there by then."""
            async with client.lock("orders", wait=LONG) as lease:
                export = asyncio.create_task(lease.export())
                for _ in range(turns):
                    await asyncio.sleep(0)
                export.cancel()
                await asyncio.wait([export])
                if not export.cancelled():
                    self.assertFalse(lease.is_held())
                    return export.result()
                self.assertTrue(lease.is_held())
                self.assertIsNone(lease.lost.reason)
                await lease.extend()
                return None

        async def main():
            for nodes in (self.nodes, quorlock.testing.nodes(3)):
                async with quorlock.aio.Client(nodes) as client, quorlock.aio.Client(nodes) as other:
                    for turns in range(40):
                        if (text := await exported(client, turns)) is not None:
                            await (await other.adopt(text)).release()

        asyncio.run(main())
        self.assert_nothing_left()

    def test_an_adoption_that_is_cancelled_gives_the_lock_back(self):
        async def main():
            async with quorlock.aio.Client(self.nodes) as client, quorlock.aio.Client(self.nodes) as other:
                for turns in range(40):
                    lease = await client.lock("orders", wait=LONG).acquire()
                    # Else the exporter's request may reach the third node behind all that follows, and stays there.
                    self.stage.await_holders("lock:{orders}", 3, LONG)
                    text = await lease.export()
                    adoption = asyncio.create_task(other.adopt(text))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    adoption.cancel()
                    await asyncio.wait([adoption])
                    if not adoption.cancelled():
                        await adoption.result().release()
                        continue
                    # One that had not begun has changed nothing: the lease goes on yet.
                    with contextlib.suppress(quorlock.LockLostError):
                        await (await other.adopt(text)).release()

        asyncio.run(main())
        self.assert_nothing_left()

    def test_another_process(self):
        text = self.client.lock("orders").acquire().export()
        done = subprocess.run([sys.executable, "-c", GOES_ON, ",".join(self.nodes)], input=text, capture_output=True, text=True,
                              timeout=LONG, check=True)
        name, fence, held = done.stdout.split()
        self.assertEqual((name, held), ("orders", "True"))
        self.assertGreater(int(fence), 0)
        self.assert_nothing_left()

    def test_what_cannot_go_on_is_refused(self):
        with self.client.lock("orders", owner="me") as outer:
            with self.client.lock("orders", owner="me"), self.assertRaisesRegex(quorlock.InvalidArgumentError, "inner handles"):
                outer.export()
            self.assertTrue(outer.is_held())
        with self.client.lock("orders", shared=True) as shared, self.assertRaisesRegex(quorlock.InvalidArgumentError, "shared"):
            shared.export()
        text = self.client.lock("orders").acquire().export()
        for wrong in (text[:-1], "quorlock9.abc", ""):
            with self.assertRaises(quorlock.InvalidArgumentError) as refused:
                self.other.adopt(wrong)
            self.assertNotIn(text[20:40], str(refused.exception))
        with self.assertRaises(TypeError):
            self.other.adopt(b"text")
        self.other.adopt(text).release()
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
