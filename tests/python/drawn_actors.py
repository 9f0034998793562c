"""Who carries out the steps of programs that are drawn: threads, calls of `to_thread`, greenlets, and tasks of one event loop."""

import asyncio
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor

try:
    import greenlet
except ImportError:
    greenlet = None

LONG = 30.0
NOTHING = object()


class Wrong(AssertionError):
    """A program has found something."""


class Refused(Exception):
    """The lock was not had: the step is left out."""


class Thrown(Exception):
    """What a body fails with."""


class Wrapper:
    def __init__(self, scope):
        self.scope = scope

    def __enter__(self):
        return self._begin()

    def _begin(self):
        return self.scope.__enter__()

    def __exit__(self, *error):
        return self.scope.__exit__(*error)

    async def __aenter__(self):
        return await self.scope.__aenter__()

    async def __aexit__(self, *error):
        return await self.scope.__aexit__(*error)


class Part:
    """An object that enters by one method and leaves by another."""

    def begin(self, scope):
        return scope.__enter__()

    def end(self, scope):
        scope.__exit__(None, None, None)

    async def abegin(self, scope):
        return await scope.__aenter__()

    async def aend(self, scope):
        await scope.__aexit__(None, None, None)


def enter(scope):
    return scope.__enter__()


def leave(scope):
    scope.__exit__(None, None, None)


async def aenter(scope):
    return await scope.__aenter__()


async def aleave(scope):
    await scope.__aexit__(None, None, None)


def generator(scope, put):
    with scope as lease:
        put.append(lease)
        yield


def by_hand(scope, put):
    put.append(scope.__enter__())
    try:
        yield
    finally:
        scope.__exit__(None, None, None)


async def agenerator(scope, put):
    async with scope as lease:
        put.append(lease)
        yield


async def aby_hand(scope, put):
    put.append(await scope.__aenter__())
    try:
        yield
    finally:
        await scope.__aexit__(None, None, None)


class Threaded:
    """A thread that does what it is told, one thing after the other. What it enters by `with` is open while it serves inside of that."""

    kind = "thread"

    def __init__(self):
        self.depth = 0
        self.start()

    def start(self):
        self.todo = queue.SimpleQueue()
        threading.Thread(target=self.serve, daemon=True).start()

    def ask(self, *work):
        """Has it do this, and waits for that."""
        done = Future()
        self.todo.put((done, *work))
        return done.result(LONG)

    def taken(self):
        return self.todo.get()

    def serve(self):
        """Until it is told to leave: returns what waits for that, and how."""
        while True:
            done, what, *rest = self.taken()
            if what == "exit":
                return done, *rest
            if what == "with":
                self.within(done, *rest)
            else:
                try:
                    done.set_result(what(*rest))
                except BaseException as error:
                    done.set_exception(error)
            # Kept, they would keep what is to be dropped.
            del done, what, rest

    def within(self, done, program, scope, run):
        told, how = None, None

        def body(lease):
            nonlocal told, how
            scope.begin(lease)
            done.set_result(None)
            self.depth += 1
            told, how = self.serve()
            self.depth -= 1
            scope.end()
            if how:
                raise Thrown

        failed = None
        try:
            run(body)
        except BaseException as error:
            failed = error
        if told is None:
            done.set_exception(failed or Refused())
            return
        try:
            scope.check_left(failed, how)
        except BaseException as error:
            told.set_exception(error)
        else:
            told.set_result(None)


def event_loop():
    """That of all tasks, which runs in a thread of its own."""
    if Tasked.loop is None:
        Tasked.loop = asyncio.new_event_loop()
        threading.Thread(target=Tasked.loop.run_forever, daemon=True).start()
    return Tasked.loop


class ToThread(Threaded):
    """A call of `asyncio.to_thread` that does what it is told, as `Threaded`."""

    kind = "to_thread"

    def start(self):
        self.todo = queue.SimpleQueue()
        asyncio.run_coroutine_threadsafe(self.begun(), event_loop()).result(LONG)

    async def begun(self):
        loop = asyncio.get_running_loop()
        # It keeps a thread as long as it serves. Calls that end have another, always the same.
        loop.set_default_executor(ThreadPoolExecutor(1))
        self.task = asyncio.create_task(asyncio.to_thread(self.serve))
        await asyncio.sleep(0)
        loop.set_default_executor(ThreadPoolExecutor(1))


class Green(Threaded):
    """A greenlet of the one thread that has all of them."""

    kind = "greenlet"
    thread = None

    def start(self):
        if Green.thread is None:
            Green.thread = ThreadPoolExecutor(1)
        self.green = Green.thread.submit(self.made).result(LONG)

    def made(self):
        green = greenlet.greenlet(self.serve)
        green.switch()
        return green

    def ask(self, *work):
        done = Future()
        Green.thread.submit(self.green.switch, (done, *work)).result(LONG)
        return done.result(LONG)

    def taken(self):
        return greenlet.getcurrent().parent.switch()


class Tasked:
    """A task of an event loop, as `Threaded`."""

    kind = "task"
    loop = None

    def __init__(self):
        self.depth = 0
        asyncio.run_coroutine_threadsafe(self.start(), event_loop()).result(LONG)

    async def start(self):
        self.todo = asyncio.Queue()
        self.task = asyncio.create_task(self.serve())

    def ask(self, *work):
        done = Future()
        self.loop.call_soon_threadsafe(self.todo.put_nowait, (done, *work))
        return done.result(LONG)

    def calm(self):
        """Goes on after the cancellation by a loss, which has come to where it should."""
        while self.task.cancelling():
            self.task.uncancel()

    async def serve(self):
        while True:
            try:
                done, what, *rest = await self.todo.get()
            except asyncio.CancelledError:
                if self.depth:
                    raise
                self.calm()
                continue
            if what == "exit":
                return done, *rest
            if what == "with":
                await self.within(done, *rest)
            else:
                try:
                    done.set_result(await what(*rest))
                except asyncio.CancelledError:
                    done.set_exception(Refused())
                    if self.depth:
                        raise
                    self.calm()
                except BaseException as error:
                    done.set_exception(error)
            # Kept, they would keep what is to be dropped.
            del done, what, rest

    async def within(self, done, program, scope, run):
        told, how = None, None

        async def body(lease):
            nonlocal told, how
            scope.begin(lease)
            done.set_result(None)
            self.depth += 1
            try:
                told, how = await self.serve()
            finally:
                self.depth -= 1
                scope.end()
            if how == "cancel":
                self.task.cancel()
                await asyncio.sleep(0)
            if how:
                raise Thrown

        failed = None
        try:
            await run(body)
        except BaseException as error:
            failed = error
        if scope.lease is NOTHING:
            done.set_exception(failed or Refused())
            return
        cancelled = isinstance(failed, asyncio.CancelledError)
        try:
            scope.check_left(failed, how or ("cancel" if told is None else None))
        except BaseException as error:
            if told is None:
                program.wrong.append(error)
            else:
                told.set_exception(error)
        else:
            if told is not None:
                told.set_result(None)
        if cancelled and told is None and self.depth:
            # What was lost is further out.
            raise failed
        if cancelled and not self.depth:
            self.calm()
        elif cancelled:
            self.task.uncancel()
