"""The TCP proxy of the fault runs (tests/rust/src/bin/faults-proxy.rs says what it obeys), as a process of ours."""

import os
import subprocess
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
RELEASE = os.path.join(TARGET, "release")


class Proxy:
    def __init__(self, seed, backends):
        command = [os.path.join(RELEASE, "faults-proxy"), str(seed), *map(str, backends)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._lock = threading.Lock()
        self.ports = [int(word) for word in self._process.stdout.readline().split()[1:]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def tell(self, node, *words):
        """One command; returns what was answered after `ok`."""
        with self._lock:
            self._process.stdin.write(" ".join(map(str, [node, *words])) + "\n")
            answer = self._process.stdout.readline().split(maxsplit=1)
        if answer[:1] != ["ok"]:
            raise RuntimeError(f"proxy: {' '.join(answer) or 'it is gone'}")
        return answer[1].strip() if len(answer) > 1 else ""

    def close(self):
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()
