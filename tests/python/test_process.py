"""The process: import, fork, exit."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import quorlock
from support import Case, Child, eventually, keys, memory, servers

FORK = """
import gc, os, sys, warnings, quorlock
from quorlock import redlock

# From 3.12 Python warns of every fork beside a thread, and so beside ours.
warnings.filterwarnings("ignore", "This process", DeprecationWarning)

def in_child(function):
    # What a forked child finds.
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            said = function()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, str(said).encode())
        EXIT
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    assert os.waitpid(process, 0)[1] == 0
    return said

"""
QUIET, NORMAL = "os._exit(0)", "sys.exit(0)"


class Import(unittest.TestCase):
    def test_starts_no_thread_and_opens_nothing(self):
        with Child("""
import os
before = len(os.listdir("/proc/self/fd"))
import quorlock, quorlock.aio
lock = quorlock.redlock("x")
locks = [client.lock("x") for client in (quorlock.Client(), quorlock.aio.Client())]
print(len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")) - before)
""", memory("import")) as child:
            self.assertEqual(child.line(), "1 0")

    def test_does_not_import_asyncio_for_those_who_do_not_use_it(self):
        with Child("import sys, quorlock; print('asyncio' in sys.modules)", memory("import")) as child:
            self.assertEqual(child.line(), "False")


    def test_the_api_for_asyncio_is_there_when_it_is_asked_for(self):
        with Child("""
import sys, quorlock
print("aio" in dir(quorlock), hasattr(quorlock, "nope"), "asyncio" in sys.modules)
print(quorlock.aio.Client.__module__, "asyncio" in sys.modules)
""", memory("import")) as child:
            self.assertEqual((child.line(), child.line()), ("True False False", "quorlock.aio True"))

    def test_a_subinterpreter_is_refused_and_holds_up_no_exit(self):
        with Child("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
another = interpreters.create()
script = '''
try:
    import quorlock
except ImportError as error:
    print("subinterpreters" in str(error), "WSGIApplicationGroup %{GLOBAL}" in str(error), "single-interpreter" in str(error))
else:
    kept = quorlock.Client("memory://another").lock("a").acquire()
    print("imported")
'''
interpreters.run_string(another, script)
# It is not destroyed.
""", memory("import")) as child:
            self.assertEqual(child.end(), (0, "True True True\n"))

    def test_without_its_compiled_part_it_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "quorlock")
            shutil.copytree(os.path.dirname(quorlock.__file__), package, ignore=shutil.ignore_patterns("_native*.so", "__pycache__"))
            script = "try:\n    import quorlock\nexcept ImportError as error:\n    print(error)"
            done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("quorlock has no compiled part here that fits this Python: install it by pip", done.stdout)

    def test_a_notebook_that_loads_it_again_keeps_what_it_has(self):
        with Child("""
import importlib, sys, quorlock, quorlock.aio
from quorlock import LockContendedError

client = quorlock.Client()
scope = client.lock("scope")
with scope as held:
    lease = client.lock("a").acquire()
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("quorlock.") or name.endswith("_native"):
            continue
        # As `%autoreload 2` does.
        before = dict(vars(module))
        vars(module).clear()
        vars(module).update(__name__=name, __loader__=before["__loader__"])
        try:
            importlib.reload(module)
        except ImportError as error:
            assert f"{name} is not loaded a second time" in str(error), error
            vars(module).update(before)
        else:
            print(name, "was loaded again")
    importlib.reload(quorlock)
    assert held.is_held() and lease.is_held()
    lease.extend()
assert not held.is_held()
for made in (client, quorlock.Client(restart_guard="off")):
    try:
        made.lock("a").acquire(wait=0)
    except LockContendedError as error:
        assert isinstance(error, quorlock.QuorlockError)
        print("meets")
print(lease.release(), client.lock("b").acquire(wait=0).release())
""", memory("again")) as child:
            self.assertEqual(child.end(), (0, "meets\nmeets\nTrue True\n"))


class Fork(Case):
    def run_script(self, script, end=QUIET):
        with Child(FORK.replace("EXIT", end) + script, self.nodes) as child:
            self.assert_ends_well(child)

    def test_what_is_inherited_is_inert(self):
        self.run_script("""
client = quorlock.Client(ttl=2)
lock = client.lock("forked")
lease = lock.acquire()
lease.on_lost(print)

def child():
    assert not lease.is_held() and lease.remaining() == 0
    assert lease.lost.reason is None
    for call in (lock.acquire, lock.try_acquire, lock.release, lease.extend, lease.release):
        try:
            call()
        except quorlock.ForkedProcessError as error:
            assert error.number == 11
        else:
            return f"{call} did not raise"
    client.close()
    return "inert"

assert in_child(child) == "inert"
assert lease.is_held()
lease.extend()
assert lease.release()
""")
        self.assert_nothing_left()

    def test_what_is_inherited_can_be_dropped(self):
        self.run_script("""
holder = [quorlock.Client(), None, None]
holder[1] = holder[0].lock("forked")
holder[2] = holder[1].acquire()

def child():
    holder.clear()
    gc.collect()
    return "dropped"

assert in_child(child) == "dropped"
assert holder[2].is_held()
holder[2].extend()
assert holder[2].release()
""")
        self.assert_nothing_left()

    def test_a_client_that_was_not_used_before_starts_in_the_child(self):
        self.run_script("""
client = quorlock.Client()
lock = client.lock("forked")
label = quorlock.Client(label="mine")
assert client.stats()["acquired"] == 0

def grandchild():
    with lock as lease:
        assert client.stats()["acquired"] == 1
        return lease.is_held()

def child():
    # Not used here either, it starts in the child of the child.
    assert in_child(grandchild) == "True"
    with lock as lease, client.lock("forked") as again:
        assert again.token == lease.token
        return in_child(grandchild)

# What the child uses is the child's, and its child may not.
assert in_child(child).startswith("ForkedProcessError")
# And whoever uses it last is not kept from it.
with lock as lease:
    assert lease.is_held()
assert in_child(grandchild).startswith("ForkedProcessError")
""")
        self.assert_nothing_left()

    def test_it_has_the_label_of_the_child(self):
        with Child(FORK.replace("EXIT", NORMAL) + """
lock, named = quorlock.Client().lock("forked"), quorlock.Client(label="mine").lock("named")

def child():
    # They end with the process.
    global kept
    kept = lock.acquire(), named.acquire()
    print(os.getpid())
    sys.stdin.readline()
    return "labelled"

assert in_child(child) == "labelled"
""", self.nodes) as child:
            number = child.line()
            values = [self.stage.redis(1, "GET", f"lock:{{{name}}}").decode() for name in ("forked", "named")]
            child.process.stdin.write("\n")
            child.process.stdin.flush()
            self.assert_ends_well(child)
        self.assertTrue(values[0].endswith(f":{number}"), "the label is not that of the child")
        self.assertTrue(values[1].endswith("mine"), "the label is not the one given")
        self.assert_nothing_left()

    def test_nothing_is_warned_of_in_the_child(self):
        self.run_script("""
import warnings
warnings.simplefilter("error")
holder = [quorlock.Client().lock("forked").acquire()]

def child():
    # An error there would be printed.
    holder.clear()
    gc.collect()
    return "quiet"

assert in_child(child) == "quiet"
assert holder.pop().release()
""")

    def test_a_new_client_works_in_the_child(self):
        for end in (QUIET, NORMAL):
            self.run_script("""
held = redlock("forked")
lease = held.__enter__()

def child():
    # It ends with the process.
    global left
    try:
        with redlock("forked", wait=0):
            return "not excluded"
    except quorlock.LockContendedError:
        pass
    with redlock("own") as own, quorlock.Client() as client, client.lock("more") as more:
        assert own.is_held() and more.is_held()
    left = redlock("left").__enter__()
    return left.is_held()

if in_child(child) != "True":
    raise SystemExit("wrong")
assert lease.is_held()
lease.extend()
held.__exit__(None, None, None)
if len(sys.argv) > 1:
    print(sys.argv[1])
""", end)
            if end == NORMAL:
                self.assert_nothing_left()
            servers()

    def test_asyncio_in_the_child(self):
        self.run_script("""
import asyncio, quorlock.aio

async def use():
    async with quorlock.aio.Client() as client, client.lock("own") as lease:
        return lease.is_held()

assert asyncio.run(use())
assert in_child(lambda: asyncio.run(use())) == "True"
assert asyncio.run(use())
""")

    def test_a_scope_in_the_child_raises(self):
        self.run_script("""
def child():
    held.__exit__(None, None, None)

held = redlock("forked")
held.__enter__()
said = in_child(child)
assert said.startswith("ForkedProcessError"), said
held.__exit__(None, None, None)
""")

    def test_at_any_instant_beside_a_thread_that_uses_it_all_for_the_first_time(self):
        for _ in range(3):
            self.run_script("""
import random, signal, threading, time

def uses_it_all(name):
    with quorlock.Client(node_timeout=2.5) as one, quorlock.Client(node_timeout=2.5) as other:
        for held in (one.lock(name), one.lock(name, shared=True), one.semaphore(name, 1)):
            with held as lease:
                for waits in (other.lock(name), other.lock(name, shared=True), other.semaphore(name, 1)):
                    try:
                        waits.acquire(wait=0.02).release()
                    except quorlock.QuorlockError:
                        pass
                assert lease.is_held()
        try:
            one.lock("{").acquire()
        except quorlock.InvalidArgumentError:
            return "used"

beside = threading.Thread(target=uses_it_all, args=("of the parent",))
beside.start()
children = []
for number in range(24):
    time.sleep(random.random() / 10_000)
    child = os.fork()
    if child == 0:
        # SIGALRM ends one that hangs.
        signal.alarm(30)
        os._exit(0 if uses_it_all(f"of child {number}") == "used" else 1)
    children.append(child)
ends = [os.waitpid(child, 0)[1] for child in children]
assert not any(ends), ends
beside.join()
""")

    def test_a_child_of_a_child(self):
        self.run_script("""
def grandchild():
    with redlock("own") as lease:
        return lease.is_held()

def child():
    with redlock("own") as lease:
        assert lease.is_held()
    return in_child(grandchild)

with redlock("own"):
    pass
assert in_child(child) == "True"
""")


class Signals(Case):
    """Signals are the program's: no thread of the library takes one."""

    def test_one_that_is_blocked_after_the_first_lock_is_waited_for(self):
        script = """
import asyncio, logging, os, signal, subprocess, threading, quorlock, quorlock.aio

# The loss is a warning, which would stand among what is printed.
logging.getLogger("quorlock").addHandler(logging.NullHandler())

async def once():
    async with quorlock.aio.Client(memory) as client, client.lock("a"):
        pass

memory = ["memory://signals"]
asyncio.run(once())
client = quorlock.Client()
lease = client.lock("a").acquire()
told, started = threading.Event(), []
doomed = quorlock.Client(memory).lock("b", ttl=0.1, renew=False).acquire()

def start(_):
    started.append(subprocess.Popen(["sleep", "60"]))
    told.set()

doomed.on_lost(start)
told.wait()
started[0].terminate()
print("ended by", -started[0].wait())
for task in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{task}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    takes = [number for number in (1, 2, 10, 14, 15, 17) if not int(status["SigBlk"], 16) >> number - 1 & 1]
    # One that runs a callback has the mask of the thread that set it.
    if int(task) != os.getpid() and takes and status["Name"].strip() != "quorlock-events":
        print(status["Name"].strip(), "takes", takes)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
print(signal.sigwait([signal.SIGTERM]).name, lease.is_held())
"""
        with Child(script, self.nodes) as child:
            self.assertEqual(child.end(), (0, "ended by 15\nSIGTERM True\n"))


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


class Exit(Case):
    def assert_ends(self, script):
        with Child("import os, sys, threading, quorlock\n" + script, self.nodes) as child:
            self.assert_ends_well(child)
        self.assertEqual(keys(self.stage), [])

    def test_a_script_ends_while_its_client_is_open(self):
        self.assert_ends("client = quorlock.Client()\nclient.lock('a').acquire().release()")

    def test_what_is_held_at_the_end_is_released(self):
        self.assert_ends("lease = quorlock.Client().lock('a').acquire()")
        self.assert_ends("scope = quorlock.redlock('a')\nscope.__enter__()")
        self.assert_ends("lock = quorlock.Client().lock('a')\nlock.acquire()\nsys.exit(0)")

    def test_what_the_end_releases_is_no_warning(self):
        self.assert_ends("""
import warnings
warnings.simplefilter("always")
kept = quorlock.Client().lock("a")
kept.acquire()
lease = quorlock.Client().lock("b").acquire()
""")

    def test_with_a_thread_that_waits(self):
        # In the line, behind this process's own lease, and forever.
        self.assert_ends("""
client = quorlock.Client()
lock = client.lock("a")
lock.acquire()
threading.Thread(target=lambda: lock.acquire(wait=None), daemon=True).start()
while client.stats()["waiting"] == 0:
    pass
""")

    def test_with_an_exit_handler_that_joins_it(self):
        with Child("""
import atexit, threading
# Registered first, it runs last: when the clients are closed.
atexit.register(lambda: print(thread.join(20), thread.is_alive()))
import quorlock
client = quorlock.Client()
lock = client.lock("a")
lock.acquire()

def wait():
    try:
        lock.acquire(wait=None)
    except quorlock.ClientClosedError as error:
        print(error.kind)

thread = threading.Thread(target=wait, daemon=True)
thread.start()
while client.stats()["waiting"] == 0:
    pass
""", self.nodes) as child:
            self.assertEqual((child.line(), child.line()), ("Closed", "None False"))
            self.assert_ends_well(child)

    def test_with_a_thread_that_waits_for_a_loss(self):
        self.assert_ends("""
lease = quorlock.Client().lock("a").acquire()
threading.Thread(target=lease.lost.wait, daemon=True).start()
lease.on_lost(lambda reason: None)
""")

    def test_in_asyncio(self):
        self.assert_ends("""
import asyncio, quorlock.aio

async def main():
    global client, lease
    client = quorlock.aio.Client()
    lease = await client.lock("a").acquire()

asyncio.run(main())
""")

    def test_while_losses_are_told(self):
        # Callbacks and log lines that come while the interpreter ends harm nothing.
        self.assert_ends("""
import logging, time
# The losses are warnings, which would stand among what is printed.
logging.getLogger("quorlock").addHandler(logging.NullHandler())
leases = [quorlock.Client().lock(f"a{i}", ttl=0.5, renew=False).acquire() for i in range(50)]
for lease in leases:
    lease.on_lost(lambda reason: time.sleep(0.01))
leases[-1].lost.wait()
""")

    def test_killed_it_is_free_after_the_ttl(self):
        with Child("""
import time, quorlock
lease = quorlock.Client(ttl=1).lock("a").acquire()
print("held")
time.sleep(60)
""", self.nodes) as child:
            self.assertEqual(child.line(), "held")
            child.process.kill()
            self.assertTrue(eventually(lambda: not keys(self.stage), 5))


if __name__ == "__main__":
    unittest.main()
