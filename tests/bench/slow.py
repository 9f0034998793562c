"""A TCP proxy before one node that passes everything at once, and from a moment on every request late."""

import collections
import socket
import threading
import time

DELAY_SECONDS = 0.2
# While it delays, it looks at a connection only so often: it must not compete for the cores with what is measured.
PACE_SECONDS = 0.005


class SlowNode:
    def __init__(self, port):
        self._port = port
        self.slow = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        try:
            # A thread in accept() is not woken by close alone.
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            late = collections.deque()
            for target, words in ((self._requests, (client, server, late)), (self._late, (server, late)),
                                  (self._replies, (server, client))):
                threading.Thread(target=target, args=words, daemon=True).start()

    def _requests(self, client, server, late):
        try:
            while data := client.recv(1 << 20):
                if not self.slow:
                    server.sendall(data)
                    continue
                late.append((time.monotonic() + DELAY_SECONDS, data))
                time.sleep(PACE_SECONDS)
        except OSError:
            pass
        # In order behind what is still late: what was sent before the end arrives.
        late.append((time.monotonic() + DELAY_SECONDS, b""))

    @staticmethod
    def _late(server, late):
        try:
            while True:
                if late and late[0][0] <= time.monotonic():
                    _, data = late.popleft()
                    if not data:
                        server.shutdown(socket.SHUT_WR)
                        return
                    server.sendall(data)
                else:
                    time.sleep(PACE_SECONDS)
        except OSError:
            pass

    def _replies(self, server, client):
        try:
            while data := server.recv(1 << 20):
                client.sendall(data)
                if self.slow:
                    time.sleep(PACE_SECONDS)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
