"""A small RESP2 client: enough to look into a server and to play the foreign client."""

import socket


class RespError(Exception):
    """The server answered with an error."""


class Resp:
    def __init__(self, port, *, user=None, password=None, db=0, timeout=5.0):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._reader = self._socket.makefile("rb")
        try:
            if password is not None:
                self.call("AUTH", *([user] if user else []), password)
            if db:
                self.call("SELECT", db)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._reader.close()
        self._socket.close()

    def patience(self, seconds):
        """Waits at most so long for answers from now on."""
        self._socket.settimeout(seconds)

    def call(self, *words):
        """Sends one command; returns bytes, int, None or a list; raises RespError or OSError."""
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        head = b"*%d\r\n" % len(parts)
        self._socket.sendall(head + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        reply = self._read()
        if isinstance(reply, RespError):
            raise reply
        return reply

    def _line(self):
        line = self._reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        return line[:-2]

    def _read(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return RespError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            data = self._reader.read(size + 2)
            if len(data) != size + 2:
                raise ConnectionError("the server closed the connection")
            return data[:-2]
        if kind == b"*":
            # An error inside an array stays a value, so that the stream stays in step.
            return None if int(rest) < 0 else [self._read() for _ in range(int(rest))]
        raise ConnectionError(f"not RESP2: {line[:40]!r}")


def text(reply):
    """A reply as one line of text, for patterns and for people."""
    if reply is None:
        return "nil"
    if isinstance(reply, bytes):
        return reply.decode(errors="backslashreplace")
    if isinstance(reply, list):
        return " ".join(text(part) for part in reply)
    return str(reply)
