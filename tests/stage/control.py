"""A stage's control socket: other processes tell it words, it answers with a status and a text.

The other end of it is in stage.py, alone, so that a `stage` line costs no more than it must.
"""

import json
import os
import socket
import threading

from .stage import CONTROL
from .words import StageError, Words


class Control:
    """Serves the words of one stage, each caller in a thread of its own: a wait of one stops no other."""

    def __init__(self, stage):
        self._words = Words(stage)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path = os.path.join(stage.folder, CONTROL)
        self._socket.bind(self._path)
        self._socket.listen(64)
        threading.Thread(target=self._serve, name="stage-control", daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, connection.makefile("rwb") as stream:
            try:
                answer = [0, self._words.run(json.loads(stream.readline()))]
            except StageError as error:
                answer = [1, str(error)]
            except Exception as error:  # a caller must get an answer, and the stage must go on
                answer = [2, f"{type(error).__name__}: {error}"]
            try:
                stream.write(json.dumps(answer).encode() + b"\n")
                stream.flush()
            except OSError:
                pass

    def close(self):
        try:
            # A thread in accept() is not woken by close alone.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
