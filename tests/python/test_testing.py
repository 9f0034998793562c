"""`quorlock.testing`: what docs/how-to/test-your-code.md does not show of it."""

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import quorlock
import quorlock.aio
from quorlock import _default, redlock, testing


class Testing(unittest.TestCase):
    def test_nodes_are_no_other_tests(self):
        first, second = testing.nodes(3), testing.nodes()
        self.assertEqual((len(first), len(second), len({*first, *second})), (3, 1, 4))
        with redlock("own", nodes=first), redlock("own", nodes=second):
            pass

    def test_a_lock_is_lost_at_once_with_that_reason(self):
        with quorlock.Client(testing.nodes(3)) as client:
            lease = client.lock("lost").acquire()
            self.assertEqual(testing.lose("lost", "refused"), 1)
            self.assertFalse(lease.is_held())
            self.assertEqual((lease.lost.wait(20), lease.lost.reason), (True, "refused"))
            self.assertEqual(testing.lose("lost"), 0)
            self.assertFalse(lease.release())
            # It is free.
            self.assertTrue(client.lock("lost", wait=20).acquire().release())

    def test_in_asyncio_the_body_is_cancelled(self):
        async def body():
            async with redlock("lost-in-asyncio", nodes=testing.nodes()):
                testing.lose(b"lost-in-asyncio")
                await asyncio.sleep(60)

        self.assertRaises(quorlock.LockLostError, asyncio.run, body())

    def test_somebody_else_holds_it(self):
        nodes = testing.nodes()
        with testing.held("taken", nodes=nodes, fencing=False) as lease:
            with self.assertRaises(quorlock.LockContendedError) as refused, redlock("taken", nodes=nodes, wait=0):
                self.fail("it is held")
            self.assertEqual((refused.exception.holder, lease.fence), ("somebody-else", None))
        with redlock("taken", nodes=nodes, wait=0):
            pass

    def test_what_is_no_reason_is_refused(self):
        with self.assertRaisesRegex(quorlock.InvalidArgumentError, "give expired, refused"):
            testing.lose("a", "bored")
        self.assertRaises(TypeError, testing.lose, 7)

    def test_nobody_else_needs_pytest(self):
        script = "import sys, quorlock.testing; assert 'pytest' not in sys.modules; assert not hasattr(quorlock.testing, 'quorlock_nodes')"
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

    def test_the_fixture_leaves_nothing(self):
        tests = """
            import os, pytest
            import quorlock._default
            from quorlock import redlock

            @pytest.mark.parametrize("quorlock_nodes", [3], indirect=True)
            def test_three(quorlock_nodes):
                assert os.environ["QUORLOCK_NODES"].split(",") == quorlock_nodes and len(quorlock_nodes) == 3
                redlock("kept").__enter__()

            def test_behind_it():
                assert os.environ["QUORLOCK_NODES"] == "memory://before"
                assert not quorlock._default._clients
        """
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_it.py"), "w") as file:
                file.write(textwrap.dedent(tests))
            words = [sys.executable, "-m", "pytest", "-q", "-p", "quorlock.testing", "-p", "no:cacheprovider", "test_it.py"]
            done = subprocess.run(words, cwd=folder, env={**os.environ, "QUORLOCK_NODES": "memory://before"}, capture_output=True,
                                  text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 passed", done.stdout)

    def test_forgetting_is_of_these_nodes_alone(self):
        mine, others = testing.nodes(), testing.nodes()
        for nodes in (mine, others):
            with redlock("forgotten", nodes=nodes):
                pass
        testing._forget(",".join(mine))
        known = {place[1] for place in _default._clients}
        self.assertTrue(tuple(others) in known and tuple(mine) not in known)


if __name__ == "__main__":
    unittest.main()
