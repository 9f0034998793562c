"""A program closes files that it has not opened, or may open few."""

import unittest

import quorlock
from support import Case, Child

DESCRIPTORS = """
import os, tempfile, threading, time, quorlock

def soon(work):
    # Within the time that a test has, on another thread.
    said = []
    def run():
        try:
            said.append(work())
        except BaseException as error:
            said.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert said, "it does not end"
    return said[0]

def close_all():
    # As a daemon does that does not fork; and its own files are under the numbers.
    os.closerange(3, 256)
    file = tempfile.TemporaryFile()
    return file, [os.dup(file.fileno()) for _ in range(40)]

def is_closed(said):
    return isinstance(said, (quorlock.ClientClosedError, quorlock.QuorumUnavailableError))

def assert_untouched(file, numbers):
    assert [os.write(number, b"x") for number in numbers] == [1] * 40
    assert os.pread(file.fileno(), 100, 0) == b"x" * 40

client = quorlock.Client(node_timeout=2.5)
other = client.lock("other", wait=1)
"""


class Descriptors(Case):
    """A program closes every descriptor that it finds: its clients end, and the next one works."""

    def run_script(self, script):
        with Child(DESCRIPTORS + script + """
assert is_closed(said := soon(other.acquire)), said
soon(client.close)
new = quorlock.Client(node_timeout=2.5)
assert soon(lambda: new.lock("new").acquire().release()) is True
soon(new.close)
assert_untouched(*files)
os._exit(0)
""", self.nodes) as child:
            status, said = child.end()
            self.assertEqual(status, 0, said)
            # What tokio finds between a look at its descriptors and its wait for them it says by a panic, which is caught.
            told = said.replace("unexpected error when polling the I/O driver", "")
            self.assertEqual(told.count("panicked"), said.count("unexpected error when polling the I/O driver"), said)

    def test_while_the_client_is_idle(self):
        self.run_script("""
other.acquire().release()
files = close_all()
""")

    def test_while_a_lease_is_held(self):
        self.run_script("""
lease = client.lock("mine").acquire()
files = close_all()
deadline = time.monotonic() + 30
while lease.is_held() and time.monotonic() < deadline:
    time.sleep(0.01)
assert lease.lost.reason == "closed", lease.lost.reason
""")

    def test_while_a_thread_waits(self):
        with quorlock.Client(self.nodes, node_timeout=2.5) as holder, holder.lock("theirs").acquire():
            self.run_script("""
said = []
def waits():
    try:
        client.lock("theirs", wait=2).acquire()
    except quorlock.QuorlockError as error:
        said.append(error)
thread = threading.Thread(target=waits)
thread.start()
while not client.stats()["queued"]:
    time.sleep(0.002)
files = close_all()
thread.join(30)
assert said and is_closed(said[0]), said
""")


class FewDescriptors(Case):
    def test_where_a_process_may_open_few_files(self):
        # Fewer than the numbers that the I/O thread's own descriptors would have.
        script = """
import quorlock, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
assert quorlock.Client(wait=5).lock("few").acquire().release() is True
"""
        with Child(script, self.nodes) as child:
            self.assertEqual(child.end(), (0, ""))


if __name__ == "__main__":
    unittest.main()
