"""Scenarios with Python's blocking API: an actor is a thread."""

import queue
import signal
import threading
import time

import quorlock
import verbs


class Blocking(verbs.Verbs):
    make_client = staticmethod(quorlock.Client)
    pause = staticmethod(time.sleep)

    @staticmethod
    def wait_lost(lost, seconds):
        return lost.wait(seconds)

    @staticmethod
    def outside(function):
        return function()


class Actor:
    """Carries out lines in the thread that serves it."""

    def __init__(self, doer):
        self._doer = doer
        self._todo = queue.SimpleQueue()

    def begin(self, step):
        answer = queue.SimpleQueue()
        self._todo.put((step, answer))
        return answer

    def end(self):
        self._todo.put(None)

    def serve(self):
        while (work := self._todo.get()) is not None:
            step, answer = work
            try:
                answer.put(verbs.run_now(self._doer.answer(step)))
            except BaseException as error:
                answer.put(error)


class Actors:
    """The actors by name. Ctrl-C reaches the main thread alone, so that is where the one to be cancelled lives."""

    def __init__(self, doer, in_main_thread):
        self._doer = doer
        self._actors = {}
        self.interruptible = self._actors[in_main_thread] = Actor(doer)

    def begin(self, step):
        if step.actor not in self._actors:
            actor = self._actors[step.actor] = Actor(self._doer)
            threading.Thread(target=actor.serve, name=step.actor, daemon=True).start()
        return self._actors[step.actor].begin(step)

    @staticmethod
    def result(answer, seconds):
        try:
            got = answer.get(timeout=seconds)
        except queue.Empty:
            return "pending"
        if isinstance(got, BaseException):
            raise got
        return got

    @staticmethod
    def cancel(actor):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def end(self):
        for actor in self._actors.values():
            actor.end()


def run(steps):
    doer = Blocking()
    cancelled = [step.words[0] for step in steps if step.verb == "cancel"]
    actors = Actors(doer, cancelled[0] if cancelled else "main")
    outcome = []

    def direct():
        try:
            verbs.run_now(verbs.play(steps, doer, actors))
        except BaseException as error:
            outcome.append(error)
        finally:
            actors.end()

    director = threading.Thread(target=direct, name="director")
    director.start()
    actors.interruptible.serve()
    director.join()
    if outcome:
        raise outcome[0]

