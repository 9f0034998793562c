"""`quorlock run` at a pseudo terminal, in a shell with job control: the words of one scene, and the keys that are typed.

    terminal.py PROGRAM SCENE
"""

import os
import pty
import re
import select
import signal
import sys
import time

PROGRAM, SCENE = sys.argv[1:]
SECONDS = 60
CTRL_C, CTRL_BACKSLASH, CTRL_Z = b"\x03", b"\x1c", b"\x1a"

# Says when it runs, when it goes on, and what it read; ends by what ends any program. It sleeps for a moment again and again: a signal that
# comes right before `signal.pause` reaches Python's handler only once another signal has ended the pause.
COMMAND = """
import os, signal, sys, time
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"goes-on" + os.linesep.encode()))
print("is-" + "ready", flush=True)
if "reads" in sys.argv:
    print("read-" + sys.stdin.readline().strip(), flush=True)
while True:
    time.sleep(0.1)
"""


class Terminal:
    def __init__(self, words=("bash", "--norc", "--noprofile", "--noediting", "-i")):
        self.seen = b""
        self.at = 0
        pid, self.fd = pty.fork()
        if pid == 0:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            os.environ |= {"PS1": "$ ", "Q": PROGRAM, "C": COMMAND, "HISTFILE": "/dev/null", "TERM": "dumb"}
            os.environ.pop("PROMPT_COMMAND", None)
            os.execvp(words[0], words)
        self.pid = pid

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode() + b"\n")

    def until(self, pattern):
        """Reads until something new is like that; returns it."""
        end = time.monotonic() + SECONDS
        while not (found := re.compile(pattern.encode()).search(self.seen, self.at)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                sys.exit(f"no {pattern} in:\n{self.seen.decode(errors='replace')}")
            self.seen += os.read(self.fd, 4096)
        self.at = found.end()
        return found

    def prompt(self):
        """The shell has the terminal: it answers. What is typed shows itself otherwise than what comes of it."""
        self.type("echo the-shell-$((40+2))")
        self.until("the-shell-42")

    def code(self):
        self.type("echo code-$?-")
        return int(self.until(r"code-(\d+)-")[1])

    def is_held(self, name, ttl):
        """Whether the lock is held for longer than its ttl from now on."""
        self.type(f'"$Q" run -q -w {2 * ttl}s {name} -- true')
        code = self.code()
        if code not in (0, 75):
            sys.exit(f"{code}:\n{self.seen.decode(errors='replace')}")
        return code == 75

    def hang_up(self, processes):
        """The terminal goes, and with it all of these."""
        os.close(self.fd)
        for _ in range(600):
            if not (processes := {pid for pid in processes if cmdline(pid)}):
                os.waitpid(self.pid, 0)
                return
            time.sleep(0.1)
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        sys.exit(f"left: {processes}")

    def end(self):
        """The shell has no job left, and ends."""
        self.type("jobs; exit 7")
        while True:
            try:
                if not (part := os.read(self.fd, 4096)):
                    break
                self.seen += part
            except OSError:
                break
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert status == 7, (status, self.seen)


def run(options="", arguments="", behind=""):
    return f'"$Q" run --ttl 2s {options} a -- {sys.executable} -c "$C" {arguments} {behind}'


def keys(t):
    """Ctrl-Z gives the terminal back, the lock is kept, fg goes on, and each key and signal ends it then."""
    for end, code in ((CTRL_C, 130), (CTRL_BACKSLASH, 131), ("TERM", 143), ("HUP", 129)):
        for behind in ("", "</dev/null"):
            t.type(run(behind=behind))
            t.until("is-ready")
            t.type(CTRL_Z)
            t.until("Stopped")
            t.prompt()
            assert behind or end != CTRL_C or t.is_held("a", 2), "the lock was not kept"
            t.type("fg")
            t.until("goes-on")
            if isinstance(end, bytes):
                t.type(end)
            else:
                pid = int(told(t, "a"))
                os.kill(pid, getattr(signal, f"SIG{end}"))
            t.prompt_after(code)
    # A command that takes it for something else keeps the terminal.
    takes = '''import signal, time; signal.signal(signal.SIGTSTP, lambda *_: print("took" + "-it", flush=True)); print("is-" + "ready", flush=True)
while True: time.sleep(0.1)'''
    t.type(f""""$Q" run a -- {sys.executable} -c '{takes}'""")
    t.until("is-ready")
    t.type(CTRL_Z)
    t.until("took-it")
    t.type(CTRL_C)
    t.prompt_after(130)


def told(t, name):
    """The process that others see as the holder of the lock."""
    import json
    import subprocess
    held = json.loads(subprocess.run([PROGRAM, "inspect", "--json", name], capture_output=True, check=True, text=True).stdout)
    return held["holder"]["label"].split(":")[1]


def prompt_after(t, code):
    got = t.code()
    assert got == code, (got, code, t.seen)
    t.prompt()


Terminal.prompt_after = prompt_after


def background(t):
    """bg lets it go on behind the shell; what asks for the terminal there is stopped, and keeps its lock; a shell ends it."""
    t.type(run())
    t.until("is-ready")
    t.type(CTRL_Z)
    t.until("Stopped")
    t.type("bg")
    t.until("goes-on")
    t.prompt()
    assert t.is_held("a", 2), "the lock was not kept"
    t.type("kill %1; wait %1")
    t.prompt_after(143)
    for mode in ("stty -tostop", "stty tostop"):
        t.type(mode)
        t.prompt()
        if mode == "stty -tostop":
            t.type(run(arguments="reads", behind="&"))
            t.until("is-ready")
        else:
            # Its first word stops it.
            t.type(run(arguments="reads", behind="&"))
        t.until("is stopped")
        t.prompt()
        assert t.is_held("a", 2), "the lock was not kept"
        t.type("jobs")
        t.until("Stopped")
        t.type("fg")
        t.until("goes-on")
        t.type("a line")
        t.until("read-a line")
        t.type(CTRL_C)
        t.prompt_after(130)
    t.type("stty -tostop")
    # What is sent to the whole job comes once.
    count = """import signal, time; n = []; signal.signal(signal.SIGTERM, lambda *_: n.append(1)); print("is-" + "ready", flush=True)
while not n: time.sleep(0.1)
time.sleep(1); print(f"ended-by-{len(n)}", flush=True)"""
    t.type(f""""$Q" run a -- {sys.executable} -c '{count}' </dev/null &""")
    t.until("is-ready")
    t.type("kill %1; wait %1")
    t.until("ended-by-1")
    t.prompt_after(0)
    # A job that stands still.
    t.type(run())
    t.until("is-ready")
    t.type(CTRL_Z)
    t.until("Stopped")
    t.prompt()
    # The shell tells how it ended, and forgets it, at some prompt behind the end.
    t.type("kill -TERM %1; until ! kill -0 %1 2>/dev/null; do sleep 0.05; done; jobs")
    t.until(r"Exit 143")
    t.prompt()


def waiting(t):
    """Ctrl-Z while it waits stops the wait, and fg goes on with it."""
    t.type('"$Q" run -q b -- tail -f /dev/null &')
    t.prompt()
    assert any(t_is_held(t, "b") for _ in range(500)), "it is never held"
    t.type('"$Q" run b -- echo has-it')
    t.until("waiting for b: held by")
    t.type(CTRL_Z)
    t.until("Stopped")
    t.prompt()
    # Its place is given up.
    t.type("""until "$Q" inspect --json b | grep -q '"queued":0,'; do sleep 0.1; done; echo left-$((1+1))""")
    t.until("left-2")
    t.type("fg")
    t.until("waiting for b: held by")
    t.type(CTRL_C)
    t.prompt_after(130)
    # The next one that waits wins it when it goes on.
    t.type('"$Q" run b -- echo has-$((1+1))-it')
    t.until("waiting for b: held by")
    t.type(CTRL_Z)
    t.until("Stopped")
    t.prompt()
    t.type("kill %1; wait %1")
    t.prompt_after(143)
    t.type("fg %2")
    t.until("has-2-it")
    t.prompt_after(0)


def t_is_held(t, name):
    t.type(f'"$Q" inspect {name} >/dev/null; echo held-$?-')
    return int(t.until(r"held-(\d+)-")[1]) == 0


def killed(t):
    """KILL of either process ends the command, stopped or not, and the lock is free in the end; the shell has its terminal."""
    for worker in (False, True):
        for stopped in (False, True):
            t.type(run())
            t.until("is-ready")
            pid = int(told(t, "a"))
            if worker:
                [pid] = children(pid)
            if stopped:
                t.type(CTRL_Z)
                t.until("Stopped")
                t.prompt()
            os.kill(pid, signal.SIGKILL)
            if not stopped:
                t.prompt_after(137)
            elif worker:
                t.type("fg")
                t.prompt_after(137)
            else:
                # The shell tells it before its next prompt, or behind one more.
                t.type("sleep 0.1; jobs")
                t.until("Killed")
                t.prompt()
            assert not t.is_held("a", 60), "the lock is held yet"


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def cmdline(pid):
    """Empty once it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def scripts(t):
    """In a shell without job control, too: the whole script stops and goes on."""
    t.type("sh -c '" + run().replace('"$Q"', PROGRAM).replace('"$C"', '"$C"') + "; echo script-$?-'")
    t.until("is-ready")
    t.type(CTRL_Z)
    t.until("Stopped")
    t.prompt()
    assert t.is_held("a", 2), "the lock was not kept"
    t.type("fg")
    t.until("goes-on")
    # What stops and continues the command alone leaves nothing stopped.
    [worker] = children(int(told(t, "a")))
    [command] = [pid for pid in children(worker) if cmdline(pid).startswith(sys.executable.encode())]
    os.kill(command, signal.SIGSTOP)
    t.until("is stopped")
    os.kill(command, signal.SIGCONT)
    t.until("goes-on")
    for _ in range(600):
        with open(f"/proc/{told(t, 'a')}/stat", encoding="ascii") as file:
            if file.read().rpartition(")")[2].split()[0] != "T":
                break
        time.sleep(0.1)
    else:
        sys.exit("what the shell sees stands still")
    t.type(CTRL_C)
    t.prompt()


def alone(t):
    """A command that stops by itself, alone in its group or not, gives the terminal back; one that ends stopped leaves no job behind."""
    for behind in ("", "</dev/null"):
        t.type(f""""$Q" run a -- sh -c 'kill -STOP $$; echo went-$((1+1))' {behind}""")
        t.until("Stopped")
        t.prompt()
        t.type("fg")
        t.until("went-2")
        t.prompt_after(0)
    t.type(""""$Q" run --ttl 1s --max-hold 3s a -- sh -c 'kill -STOP $$'""")
    t.until("Stopped")
    t.prompt()
    [front] = children(t.pid)
    for _ in range(600):
        if not cmdline(front):
            break
        time.sleep(0.1)
    t.type("jobs")
    t.until("Exit 76")


def nested(t):
    """One under another stops and goes on with it."""
    for behind in ("", "</dev/null"):
        t.type(run(behind=behind).replace(" a -- ", ' b -- "$Q" run --ttl 2s a -- '))
        t.until("is-ready")
        t.type(CTRL_Z)
        t.until("Stopped")
        t.prompt()
        assert t.is_held("a", 2) and t.is_held("b", 2), "the locks were not kept"
        t.type("fg")
        t.until("goes-on")
        t.type(CTRL_C)
        t.prompt_after(130)


def closed(t):
    """Where the terminal goes nothing is left, whether it runs, waits or is stopped; and the locks are free."""
    left = []
    t.type(run(behind="&"))
    t.until("is-ready")
    for _ in range(2):
        t.type('"$Q" run b -- sleep 1000')
        if left:
            t.until("waiting for b: held by")
        else:
            while not t_is_held_outside("b"):
                time.sleep(0.1)
        t.type(CTRL_Z)
        t.until("Stopped")
        t.prompt()
        left = descendants(t.pid)
    assert len(left) >= 9, left
    t.hang_up(left)
    for name in "ab":
        assert not t_is_held_outside(name), name
    # Without a shell, as by ssh: the first process of the session is told, and no other.
    for behind in ("", "</dev/null"):
        t = Terminal(["sh", "-c", f"exec {run(behind=behind)}"])
        t.until("is-ready")
        t.hang_up(descendants(t.pid))
        assert not t_is_held_outside("a")
    os._exit(0)


def t_is_held_outside(name):
    return os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f'"{PROGRAM}" inspect {name} >/dev/null 2>&1') == 0


def descendants(pid):
    return {pid}.union(*(descendants(child) for child in children(pid)))


if __name__ == "__main__":
    terminal = Terminal()
    terminal.prompt()
    globals()[SCENE](terminal)
    terminal.end()
