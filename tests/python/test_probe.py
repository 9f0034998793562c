"""The state of a set: `probe()`."""

import asyncio

import quorlock
import quorlock.aio
from quorlock import Finding, Probe
from support import Case, memory


class Probing(Case):
    def test_a_set_that_works(self):
        with quorlock.Client(self.nodes) as client:
            found = client.probe()
        self.assertIsInstance(found, Probe)
        self.assertEqual((found.health, found.votes, found.quorum, found.set_name), ("works", 3, 2, "default"))
        self.assertEqual((found.max_ttl, found.guard, found.findings), (60, True, ()))
        for node in found.nodes:
            self.assertTrue(node.answers and node.votes)
            self.assertEqual((node.record, node.role, node.findings, node.differences), ("expected", "master", (), ()))
            self.assertIn(node.server, ("redis", "valkey"))
            self.assertTrue(0 < node.round_trip[0] <= node.round_trip[1])
            self.assertLess(abs(node.clock), 1)
            self.assertGreater(node.memory_used, 0)
            self.assertEqual((node.memory_limit, node.quarantine), (None, 0))

    def test_one_is_dead_and_one_of_another_set(self):
        self.stage.kill(1)
        self.stage.redis(2, "SET", "lock:#node", "1 other 1 3 60000 n r on")

        async def main():
            async with quorlock.aio.Client(self.nodes) as client:
                return await client.probe()

        found = asyncio.run(main())
        self.assertEqual((found.health, found.votes), ("cannot", 1))
        (dead,) = found.nodes[0].findings
        self.assertIsInstance(dead, Finding)
        self.assertEqual((dead.id, dead.severity, found.nodes[0].answers), ("QD01", "error", False))
        self.assertEqual(([f.id for f in found.nodes[1].findings], found.nodes[1].record), (["QD08"], "other"))
        self.assertEqual(len(found.nodes[1].differences), 1)

    def test_nodes_of_the_process(self):
        client = quorlock.Client(memory("probe")[:2])
        found = client.probe()
        self.assertEqual((found.health, [f.id for f in found.findings]), ("works", ["QD15"]))
        self.assertEqual(found.nodes[0].server, "memory")
        client.close()
        with self.assertRaises(quorlock.ClientClosedError):
            client.probe()
