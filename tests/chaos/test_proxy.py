"""The proxy of the fault runs, between a test and servers that echo."""

import os
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from proxy import Proxy  # noqa: E402

# For what must come, and for what must not.
LONG, SHORT = 10.0, 0.15


class Echo:
    """Sends back what comes, with its mark in front of each chunk."""

    def __init__(self, mark):
        self.mark, self.received = mark, b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection):
        with connection:
            try:
                while data := connection.recv(4096):
                    self.received += data
                    connection.sendall(self.mark + data)
            except OSError:
                pass

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Case(unittest.TestCase):
    def setUp(self):
        self.echo, self.other = Echo(b"1"), Echo(b"2")
        self.proxy = Proxy(1, [self.echo.port])
        for thing in (self.echo, self.other, self.proxy):
            self.addCleanup(thing.close)

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.proxy.ports[0]), LONG)
        self.addCleanup(client.close)
        return client

    def ask(self, client, text):
        client.sendall(text)
        return client.recv(4096)

    def connected(self, mark=b"1"):
        client = self.connect()
        self.assertEqual(self.ask(client, b"a"), mark + b"a")
        return client

    def connected_to_commands(self):
        """Connected, with nothing said that is no RESP."""
        client = self.connect()
        self.assertEqual(self.ask(client, b"*0\r\n"), b"1*0\r\n")
        return client

    def until_end(self, client):
        got = b""
        while data := client.recv(99):
            got += data
        return got

    def assert_silent(self, client):
        client.settimeout(SHORT)
        with self.assertRaises(TimeoutError):
            client.recv(1)
        client.settimeout(LONG)

    def assert_reset(self, client):
        with self.assertRaises(ConnectionResetError):
            client.recv(1)

    def await_received(self, received):
        end = time.monotonic() + LONG
        while self.echo.received != received and time.monotonic() < end:
            time.sleep(0.005)
        self.assertEqual(self.echo.received, received)

    def test_bytes_pass_and_the_end_of_one_way_leaves_the_other(self):
        client = self.connected()
        client.sendall(b"last")
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(client.recv(99), b"1last")
        self.assertEqual(client.recv(99), b"")

    def test_delay(self):
        client = self.connected()
        self.proxy.tell(1, "delay", 60, 60, 20)
        begun = time.monotonic()
        self.assertEqual(self.ask(client, b"b"), b"1b")
        self.assertGreaterEqual(time.monotonic() - begun, 0.12)

    def test_held_requests_arrive_later_even_if_the_client_is_gone(self):
        client = self.connected()
        self.proxy.tell(1, "hold", "requests")
        client.sendall(b"late")
        self.assert_silent(client)
        client.close()
        self.assertEqual(self.echo.received, b"a")
        self.proxy.tell(1, "heal")
        self.await_received(b"alate")

    def test_held_replies(self):
        client = self.connected()
        self.proxy.tell(1, "hold", "replies")
        client.sendall(b"b")
        self.await_received(b"ab")
        self.assert_silent(client)
        self.proxy.tell(1, "heal")
        self.assertEqual(client.recv(99), b"1b")

    def test_dropped_replies_and_a_connection_that_lost_bytes_ends(self):
        client, idle = self.connected(), self.connected()
        self.proxy.tell(1, "drop", "replies")
        client.sendall(b"b")
        self.await_received(b"aab")
        self.assert_silent(client)
        self.proxy.tell(1, "heal")
        self.assert_reset(client)
        self.assertEqual(self.ask(idle, b"c"), b"1c")

    def test_reset(self):
        client = self.connected()
        self.proxy.tell(1, "reset")
        self.assert_reset(client)
        self.connected()

    def test_half_open_is_for_good(self):
        client = self.connected()
        self.proxy.tell(1, "half-open")
        client.sendall(b"b")
        self.assert_silent(client)
        new = self.connect()
        new.sendall(b"c")
        self.assert_silent(new)
        self.proxy.tell(1, "heal")
        self.assert_silent(client)
        self.connected()
        self.assertEqual(self.echo.received, b"aa")
        self.assertEqual(self.proxy.tell(1, "show"), "3")

    def test_cut_at_a_byte_of_the_requests(self):
        client = self.connected()
        self.proxy.tell(1, "cut", "requests", 3)
        client.sendall(b"bcdef")
        self.await_received(b"abcd")
        client.settimeout(LONG)
        self.assertIn(client.recv(99), (b"", b"1bcd"))

    def test_cut_at_a_byte_of_the_replies(self):
        for count in range(4):
            client = self.connected()
            self.proxy.tell(1, "cut", "replies", count)
            client.sendall(b"bcd")
            self.assertEqual(self.until_end(client), b"1bcd"[:count])

    def test_split_between_two_requests(self):
        client, command = self.connected_to_commands(), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
        self.proxy.tell(1, "split", "requests")
        # What comes alone is let through, and so is a half.
        for part in (command, command[:9], command[9:]):
            self.assertEqual(self.ask(client, part), b"1" + part)
        self.echo.received = b""
        client.sendall(3 * command)
        self.assertIn(self.until_end(client), (b"", b"1" + command, b"1" + 2 * command))
        # The client may see the end before the server has read what came before it.
        end = time.monotonic() + LONG
        while not self.echo.received and time.monotonic() < end:
            time.sleep(0.001)
        self.assertIn(self.echo.received, (command, 2 * command))

    def test_split_between_two_replies(self):
        client = self.connected_to_commands()
        self.proxy.tell(1, "split", "replies")
        client.sendall(b"+a\r\n+b\r\n")
        self.assertEqual(self.until_end(client), b"1+a\r\n")

    def test_split_is_over_when_it_is_healed(self):
        client = self.connected_to_commands()
        self.proxy.tell(1, "split", "requests")
        self.proxy.tell(1, "heal")
        self.assertEqual(self.ask(client, 2 * b"*0\r\n"), b"1" + 2 * b"*0\r\n")

    def test_backend_of_new_connections(self):
        client = self.connected()
        self.proxy.tell(1, "backend", self.other.port)
        self.assertEqual(self.ask(client, b"b"), b"1b")
        self.connected(mark=b"2")

    def test_backend_of_quiet_connections(self):
        client, waiting = self.connected(), self.connected()
        self.proxy.tell(1, "hold", "requests")
        waiting.sendall(b"b")
        # Until the connection that has nothing to say counts as quiet.
        self.assert_silent(client)
        self.proxy.tell(1, "backend", self.other.port, "move")
        self.assert_reset(waiting)
        self.proxy.tell(1, "heal")
        self.assertEqual(self.ask(client, b"c"), b"2c")
        self.assertEqual(self.echo.received, b"aa")

    def test_a_dead_backend_resets(self):
        self.proxy.tell(1, "backend", 1)
        # It may come so early that connecting fails already.
        with self.assertRaises(ConnectionResetError):
            self.connect().recv(1)

    def test_nonsense_is_refused(self):
        for line in ("jump", "hold", "hold up", "split", "cut requests", "delay x 1 1", "backend 99999"):
            with self.assertRaisesRegex(RuntimeError, "error"):
                self.proxy.tell(1, line)
        with self.assertRaisesRegex(RuntimeError, "no node"):
            self.proxy.tell(2, "heal")
        self.proxy.tell("all", "heal")


if __name__ == "__main__":
    unittest.main()
