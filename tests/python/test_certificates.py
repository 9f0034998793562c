"""Certificates that are renewed on disk while leases are held."""

import contextlib
import os
import shutil
import tempfile
import unittest

import quorlock
from support import eventually
from stage import Stage, certs

LEASES, ROTATIONS = 1000, 10
FILES = {"ca": "ca.crt", "cert": "client.crt", "key": "client.key"}


def paths(folder):
    return {option: os.path.join(folder, file) for option, file in FILES.items()}


def put(source, target):
    """As what renews certificates does it: each file is the old one or the new one, and no half of either."""
    for file in FILES.values():
        copy = shutil.copy(os.path.join(source, file), os.path.join(target, f"{file}.new"))
        os.replace(copy, os.path.join(target, file))


class Rotation(unittest.TestCase):
    def test_no_lease_is_lost_where_servers_trust_another_authority_each_time(self):
        with contextlib.ExitStack() as stack:
            stage = stack.enter_context(Stage(3, client_certs=True))
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            live = os.path.join(folder, "live")
            os.mkdir(live)
            put(stage.certs, live)
            nodes = stage.urls(via="tls")
            client = stack.enter_context(quorlock.Client(nodes, node_timeout=2, ttl=20, **paths(live)))
            leases = [client.lock(f"a{number}").acquire() for number in range(LEASES)]
            for rotation in range(ROTATIONS):
                fresh = certs.make(os.path.join(folder, str(rotation)))
                settings = [("cert", "server.crt"), ("key", "server.key"), ("ca-cert", "ca.crt")]
                words = [word for name, file in settings for word in (f"tls-{name}-file", os.path.join(fresh, file))]
                for number in (1, 2, 3):
                    stage.redis(number, "CONFIG", "SET", *words)
                put(fresh, live)
                before = client.stats()["connects"]
                for number in (1, 2, 3):
                    stage.redis(number, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                    stage.redis(number, "CLIENT", "KILL", "TYPE", "pubsub")
                self.assertTrue(eventually(lambda: client.stats()["connects"] >= before + 3), f"{client.stats()}")
                leases[rotation].extend()
            self.assertEqual([lease.is_held() for lease in leases], [True] * LEASES)
            self.assertEqual(client.stats()["lost"], 0)
            # What is trusted no more gets no vote.
            with quorlock.Client(nodes, node_timeout=2, **paths(stage.certs)) as late:
                self.assertRaises(quorlock.QuorlockError, late.lock("late").acquire, wait=0)


if __name__ == "__main__":
    unittest.main()
