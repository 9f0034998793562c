#!/usr/bin/env python3
"""Programs that are drawn: scopes of few locks, entered and left in every way, by threads, tasks, calls of `to_thread` and greenlets.

    programs.py [--programs N] [--seed S] [--real N] [--node URL]
    programs.py --bugs       each seeded bug is found within 1,000 programs
    programs.py --bug NAME   what is found of it, and made small

A program is a list of steps. Each is done by one of some actors, threads, tasks of one event loop, greenlets of one thread, which take turns:
so a program does the same each time, and a failure is made smaller (hypothesis) until nothing can be left out of it. Nothing in it waits for a
lock, but for entries that are cancelled meanwhile: what is refused is left out. Each scope counts itself in behind the entry and out before
the exit, by the program's own hand.
Judged after each step:

- never more are inside than may be, but for those whose lease was told lost;
- each scope that is inside has a lease that is held, or was told lost;
- what was left, where that is told apart, is held no longer; what is lost says so at the exit, and nothing else does;
- in the end, when all has been left or dropped, another client gets each lock.

Programs come in batches of a seed each, the numbers from S on; one that fails names its batch, which `--seed` repeats.
"""

import argparse
import asyncio
import collections
import contextlib
import contextvars
import functools
import gc
import logging
import os
import queue
import re
import subprocess
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import Future, ThreadPoolExecutor

import hypothesis
import quorlock
import quorlock.aio
from hypothesis import strategies
from quorlock import _aio_several, _lease, _leases, _lock, _native, _owner, redlock, sync, testing

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

try:
    import greenlet
except ImportError:
    greenlet = None

BATCH = 500
LONG = 30.0
SLOTS = 2
# A machine that stands still for a while is no fault of what is looked at.
PATIENT = {"wait": 0, "node_timeout": 10, "ttl": 60}
# A name, and how it is asked for. One owner enters a lock again, and no owner a semaphore.
MODES = ("lock", "slots", "shared", "write", "alone")
OPTIONS = {"slots": {"slots": SLOTS}, "shared": {"shared": True}, "alone": {"reentrant": False}}


class Wrong(AssertionError):
    """A program has found something."""


class Refused(Exception):
    """The lock was not had: the step is left out."""


class Thrown(Exception):
    """What a body fails with."""


# -- ways to enter and leave --------------------------------------------------------------------------------------------------------


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


# -- actors ----------------------------------------------------------------------------------------------------------------------------


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


# -- programs -----------------------------------------------------------------------------------------------------------------------------

NOTHING = object()
# A step that does nothing is the first: to that those are made small which a failure does not need.
VERBS = ("rest", "with", "exit", *3 * ("open",), *3 * ("close",), *3 * ("acquire", "release"), "pop", *2 * ("lose", "wait"), "drop", "cancelled")
WAYS = ("generator", "by_hand", "stack", "wrapped", "part", "hand", "hand")


class Scope:
    """What a program has entered, and what it says of that by itself."""

    def __init__(self, program, words, mode, thing, way, flow, group=None):
        self.program = program
        self.words = words
        self.mode = mode
        self.thing = thing
        self.way = way
        self.flow = flow
        self.group = group
        self.lease = NOTHING
        self.open = False

    def begin(self, lease):
        """Inside."""
        self.lease = lease
        self.open = True
        self.program.scopes.append(self)

    def end(self):
        """No longer inside."""
        self.lost = self.is_lost()
        self.open = False

    def is_lost(self):
        return self.lease is not None and self.lease.lost.is_set()

    def check_left(self, failed, how):
        """After its exit, by what it has raised."""
        told = isinstance(failed, quorlock.LockLostError)
        if how is None:
            right = told == self.lost and (told or failed is None)
        elif how == "error":
            right = isinstance(failed, Thrown)
        else:
            # A task that is cancelled, by the program or by a loss, its own or that of a scope further out.
            right = isinstance(failed, Thrown | asyncio.CancelledError) or (told and self.lost)
        if not right:
            raise Wrong(f"{self.words} was left, {'lost' if self.lost else 'not lost'}, {how or 'normally'}: {failed!r}")
        if self.way not in ("hand",) and self.lease is not None and self.lease.is_held() and self not in self.program.doubtful:
            raise Wrong(f"{self.words} was left, and its lease is held")


class Program:
    """One program, while it runs."""

    number = 0

    def __init__(self, nodes, crew, chosen):
        Program.number += 1
        self.crew = crew
        self.done = []
        self.scopes, self.doubtful, self.unsure, self.wrong = [], set(), set(), []
        self.names = [f"program-{os.getpid()}-{Program.number}-{at}" for at in (0, 1)]
        self.clients = {"thread": quorlock.Client(nodes, **PATIENT), "task": quorlock.aio.Client(nodes, **PATIENT)}
        self.other = quorlock.Client(nodes, **PATIENT)
        # Few, so that they meet.
        self.chosen = [(mode, self.names[name], form) for mode, name, form in chosen]
        self.objects, self.stacks, self.parts = {}, {}, [Part(), Part()]
        self.pool = ThreadPoolExecutor(1)

    # -- what is locked --

    def object(self, actor, at, by_hand=False, wait=0):
        """A shared object to be entered, its mode, and what it is called."""
        kind = "task" if actor.kind == "task" else "thread"
        mode, name, form = self.chosen[at % len(self.chosen)]
        form = "lock" if by_hand else form
        if form == "several" and mode == "slots":
            form = "lock"
        # The same object for threads and tasks, where there is one.
        key = (kind, mode, name, form, wait)
        if key not in self.objects:
            client = self.clients[kind]
            options = {"wait": wait, **OPTIONS.get(mode, {})}
            if form == "several":
                made = client.lock_all(self.names, **options)
            elif form == "redlock":
                made = redlock(name, client=client, **options)
            else:
                made = client.lock(name, **options)
            self.objects[key] = made.attempt(wait) if form == "attempt" else made
        return self.objects[key], mode, f"{'-'.join(key[:2])}-{key[3]} {name[-1]}"

    def stack(self, kind, at):
        key = (kind == "task", at % 2)
        if key not in self.stacks:
            self.stacks[key] = [contextlib.AsyncExitStack() if key[0] else contextlib.ExitStack()]
        return self.stacks[key]

    # -- steps --

    def step(self, verb, a, b, c, d):
        actor = self.crew[a % len(self.crew)]
        self.said = None
        try:
            getattr(self, "do_" + verb)(actor, b, c, d)
        except (Refused, quorlock.LockBusyError, quorlock.WouldDeadlockError):
            return
        except quorlock.LockLostError:
            # An entry again into what is lost is refused, too.
            if verb not in ("with", "open"):
                raise
        finally:
            if self.said:
                self.done.append(self.said)
        self.judge()

    def say(self, words):
        self.said = words

    def who(self, actor):
        return f"{actor.kind} {self.crew.index(actor)}"

    def flow(self, actor, via):
        if via in ("direct", "copy"):
            return actor
        if via == "wait_for" and sys.version_info >= (3, 12):
            return actor
        # In a context of its own each call is another caller, and so each of `to_thread`.
        return via if via == "pool" else object()

    def via(self, actor, at):
        """How it is called: by the actor itself, or on its behalf."""
        if actor.kind == "task":
            return ("direct", "direct", "create_task", "wait_for", "group")[at % 5]
        return ("direct", "direct", "pool", "copy", "context", "to_thread")[at % 6]

    def call(self, actor, via, function, *arguments):
        pool = self.pool

        if actor.kind != "task":

            def run():
                if via == "pool":
                    return pool.submit(function, *arguments).result(LONG)
                if via == "copy":
                    return contextvars.copy_context().run(function, *arguments)
                if via == "context":
                    return contextvars.Context().run(function, *arguments)
                if via == "to_thread":
                    return asyncio.run_coroutine_threadsafe(asyncio.to_thread(function, *arguments), Tasked.loop).result(LONG)
                return function(*arguments)

            return actor.ask(run)

        async def arun():
            if via == "create_task":
                return await asyncio.create_task(self.awaited(function, *arguments))
            if via == "wait_for":
                return await asyncio.wait_for(function(*arguments), LONG)
            if via == "group":
                try:
                    async with asyncio.TaskGroup() as group:
                        task = group.create_task(self.awaited(function, *arguments))
                except BaseExceptionGroup as failed:
                    raise failed.exceptions[0] from None
                return task.result()
            return await function(*arguments)

        return actor.ask(arun)

    @staticmethod
    async def awaited(function, *arguments):
        return await function(*arguments)

    def do_rest(self, actor, b, c, d):
        pass

    def do_with(self, actor, b, c, d):
        scope, mode, name = self.object(actor, b)
        if actor.depth > 3:
            return
        style = ("plain", "wrapped", "decorated", "nested")[c % 4]
        if style == "decorated" and not (callable(scope) and mode in ("lock", "write", "shared")):
            style = "plain"
        self.say(f"{self.who(actor)}: with {name} ({style})")
        entered = Scope(self, self.said, mode, scope, "with", actor)
        if actor.kind == "task":

            async def again(body):
                async with scope as lease:
                    await body(lease)

            async def run(body):
                if style == "decorated":
                    # It is not given the lease, and enters it again.
                    return await scope(again)(body)
                async with Wrapper(scope) if style == "wrapped" else scope as lease:
                    await body(lease)

        else:

            def again(body):
                with scope as lease:
                    body(lease)

            def run(body):
                if style == "decorated":
                    scope(again)(body)
                    return
                if style == "nested":
                    with contextlib.ExitStack() as stack:
                        body(stack.enter_context(scope))
                    return
                with Wrapper(scope) if style == "wrapped" else scope as lease:
                    body(lease)

        actor.ask("with", self, entered, run)

    def do_exit(self, actor, b, c, d):
        if not actor.depth:
            return
        how = (None, None, "error", "cancel")[c % 4]
        self.say(f"{self.who(actor)}: leaves the innermost with ({how or 'normally'})")
        actor.ask("exit", how)

    def do_open(self, actor, b, c, d):
        scope, mode, name = self.object(actor, b)
        way, via, of_task = WAYS[c % len(WAYS)], self.via(actor, d), actor.kind == "task"
        self.say(f"{self.who(actor)}: opens {name} by {way} ({via})")
        entered = Scope(self, self.said, mode, scope, way, self.flow(actor, via))
        if way in ("generator", "by_hand"):
            put = []
            makers = {"generator": agenerator, "by_hand": aby_hand} if of_task else {"generator": generator, "by_hand": by_hand}
            entered.group = makers[way](scope, put)
            self.call(actor, via, (lambda: anext(entered.group)) if of_task else (lambda: next(entered.group)))
            entered.begin(put[0])
        elif way in ("stack", "wrapped"):
            entered.group = self.stack(actor.kind, c // len(WAYS))
            enters = entered.group[0].enter_async_context if of_task else entered.group[0].enter_context
            entered.begin(self.call(actor, via, enters, Wrapper(scope) if way == "wrapped" else scope))
            entered.way = "stack"
        elif way == "part":
            entered.group = self.parts[c // len(WAYS) % 2]
            entered.begin(self.call(actor, via, entered.group.abegin if of_task else entered.group.begin, scope))
        else:
            entered.begin(self.call(actor, via, aenter if of_task else enter, scope))

    def opened(self, actor):
        """What may be closed by such an actor."""
        of_task = actor.kind == "task"
        ways = ("generator", "by_hand", "stack", "part", "hand")
        return [scope for scope in self.scopes if scope.open and scope.way in ways and scope.words.startswith("task") == of_task]

    def do_close(self, actor, b, c, d):
        found = self.opened(actor)
        if found:
            self.close(actor, found[b % len(found)], self.via(actor, d))

    def close(self, actor, scope, via):
        of_task, flow = actor.kind == "task", self.flow(actor, via)
        if scope.way in ("part", "hand"):
            alike = [one for one in self.opened(actor) if one.way == scope.way and one.thing is scope.thing and one.group is scope.group]
            own = [one for one in alike if one.flow is flow]
            # An object that has entered several for one caller leaves the newest, and a caller one without a lease of its own.
            if own and (scope.way == "part" or own[-1].lease is None or scope.lease is None):
                scope = own[-1]
            if scope.way == "hand" and scope.lease is None and scope.flow is not flow and self.doubtful.intersection(alike):
                # What leaves it for another caller is taken to leave its own.
                self.unsure.update(alike)
            # Of those that were left in doubt some may still be open.
            before = [one for one in self.doubtful if one.way == scope.way and one.thing is scope.thing and one.group is scope.group]
            if scope.way == "hand" or before or (not own and len(alike) > 1):
                self.doubtful.update(alike)
        self.say(f"{self.who(actor)}: closes ({via}) what [{scope.words}]")
        left = [scope]
        if scope.way == "stack":
            left = [one for one in self.opened(actor) if one.way == "stack" and one.group is scope.group]
        for one in left:
            one.end()
        if scope.way in ("generator", "by_hand"):
            function = scope.group.aclose if of_task else scope.group.close
        elif scope.way == "stack":
            function = scope.group[0].aclose if of_task else scope.group[0].close
        elif scope.way == "part":
            function = functools.partial(scope.group.aend if of_task else scope.group.end, scope.thing)
        else:
            function = functools.partial(aleave if of_task else leave, scope.thing)
        failed = None
        try:
            self.call(actor, via, function)
        except Refused:
            # Cancelled by a loss.
            return
        except BaseException as error:
            failed = error
        lost = any(one.lost for one in left)
        if scope in self.doubtful:
            if failed is not None and not isinstance(failed, quorlock.LockLostError):
                raise failed
            return
        if scope.way == "generator":
            # That it is closed is an error of its body, which wins.
            lost = False
        for one in left:
            one.lost = lost
        for one in left:
            one.check_left(failed, None)

    def do_pop(self, actor, b, c, d):
        stack = self.stack(actor.kind, b)
        entered = [scope for scope in self.opened(actor) if scope.way == "stack" and scope.group is stack]
        if not entered:
            return
        self.say(f"a stack is handed on by pop_all, with {len(entered)} scopes")
        handed = [stack[0].pop_all()]
        for scope in entered:
            scope.group = handed

    def do_drop(self, actor, b, c, d):
        found = [scope for scope in self.opened(actor) if scope.way in ("generator", "stack") and actor.kind != "task"]
        if not found:
            return
        scope = found[b % len(found)]
        self.say(f"what [{scope.words}] is dropped")
        dropped = [scope]
        if scope.way == "stack":
            dropped = [one for one in found if one.group is scope.group]
            scope.group.clear()
            for key in [key for key, stack in self.stacks.items() if not stack]:
                del self.stacks[key]
        for one in dropped:
            one.end()
            one.group = None
        self.scopes = [one for one in self.scopes if one not in dropped]
        del dropped, scope, one, found
        gc.collect()

    def do_lose(self, actor, b, c, d):
        # Most of all what is asked for.
        names = [*(name for _, name, _ in self.chosen), *self.names]
        name = names[b % len(names)]
        self.say(f"{name[-1]} is lost")
        testing.lose(name)
        tasks = [actor for actor in self.crew if actor.kind == "task"]
        if tasks:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0.002), Tasked.loop).result(LONG)
        for task in tasks:
            task.ask(nothing)

    def do_cancelled(self, actor, b, c, d):
        if actor.kind != "task":
            return
        scope, mode, name = self.object(actor, b)
        turns = c % 7
        self.say(f"{self.who(actor)}: a child task with {name} is cancelled after {turns} turns")
        put = []

        async def child():
            async with scope as lease:
                put.append(lease)
                for _ in range(3):
                    await asyncio.sleep(0)

        async def run():
            task = asyncio.create_task(child())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        self.call(actor, "direct", run)
        if put and put[0] is not None and put[0].is_held():
            raise Wrong(f"{self.said}, and its lease is held")

    def do_wait(self, actor, b, c, d):
        """A task enters by a stack, and is cancelled: while it waits, or when what it waits for has just come free."""
        if actor.kind != "task":
            return
        scope, mode, name = self.object(actor, b, wait=LONG)
        stack, held = self.stack(actor.kind, c), ("held", "freed", "free")[c // 2 % 3]
        # So many that what is free has been entered.
        turns = 300 if held == "free" else d % 7
        self.say(f"{self.who(actor)}: a child task that waits for {name}, which is {held}, by a stack is cancelled after {turns} turns")
        entered = Scope(self, self.said, mode, scope, "stack", object(), stack)
        others, slots = [], {"slots": SLOTS} if mode == "slots" else {}
        lock = self.other.lock(self.chosen[b % len(self.chosen)][1], **slots)
        for _ in range(0 if held == "free" else SLOTS):
            if (lease := lock.try_acquire()) is not None:
                others.append(lease)
        before = len(stack[0]._exit_callbacks)

        async def run():
            task = asyncio.create_task(stack[0].enter_async_context(Wrapper(scope) if d // 7 % 2 else scope))
            for _ in range(turns):
                if task.done():
                    break
                await asyncio.sleep(0)
            if held == "freed":
                while others:
                    others.pop().release()
            task.cancel()
            await asyncio.wait([task])
            return NOTHING if task.cancelled() else task.result()

        try:
            lease = self.call(actor, "direct", run)
        finally:
            for other in others:
                other.release()
        if lease is not NOTHING:
            entered.begin(lease)
            if held == "free":
                # The stack has one scope of that object, and an entry into another is cancelled.
                self.done.append(self.said)
                self.do_wait(actor, b, c % 2, d)
        elif len(stack[0]._exit_callbacks) != before:
            raise Wrong(f"{self.said}: the stack keeps what was not entered")

    def do_acquire(self, actor, b, c, d):
        scope, mode, name = self.object(actor, b, by_hand=True)
        self.say(f"{self.who(actor)}: acquires {name}")
        entered = Scope(self, self.said, mode, scope, "lease", actor)
        lease = self.call(actor, "direct", scope.try_acquire)
        if lease is None:
            raise Refused
        entered.begin(lease)

    def do_release(self, actor, b, c, d):
        found = [scope for scope in self.scopes if scope.open and scope.way == "lease"]
        if not found:
            return
        scope = found[b % len(found)]
        if c % 2 or scope.words.startswith("task") != (actor.kind == "task"):
            actor = scope.flow
            mine = [one for one in found if one.flow is actor and one.thing is scope.thing]
            held = [one for one in mine if one.lease.is_held()]
            scope = (held or mine)[-1]
            release = scope.thing.release
        else:
            release = scope.lease.release
        self.say(f"{self.who(actor)}: releases what [{scope.words}] by {'lock' if release == scope.thing.release else 'lease'}")
        scope.end()
        held = self.call(actor, "direct", release)
        if held == scope.lost:
            raise Wrong(f"{self.said}: it said {held}, and it was {'lost' if scope.lost else 'held'}")
        if scope.lease.is_held():
            raise Wrong(f"{self.said}: it is held")

    # -- what is so --

    def judge(self):
        for wrong in self.wrong:
            raise wrong
        inside, owners = {}, {}
        for scope in self.scopes:
            if not scope.open or scope.lease is None:
                continue
            if scope.is_lost():
                continue
            for lease in scope.lease if isinstance(scope.lease, quorlock._leases.LeasesBase) else (scope.lease,):
                if not lease.is_held():
                    # It may have been lost right now.
                    if lease.lost.is_set() or scope in self.unsure:
                        continue
                    raise Wrong(f"[{scope.words}] is inside without a lease, and was told nothing")
                inside.setdefault((lease.name, lease.slot is not None), {})[lease.token] = lease
                other = owners.setdefault(lease.token, scope)
                if other is not scope and ("lease" in (scope.way, other.way) or other.flow is not scope.flow):
                    raise Wrong(f"[{scope.words}] and [{other.words}] have one lease")
        for (name, slots), leases in inside.items():
            most = SLOTS if slots else len(leases) if all(lease.is_shared() for lease in leases.values()) else 1
            if len(leases) > most:
                raise Wrong(f"{len(leases)} are inside of {name}")

    def end(self):
        """Leaves all that is open. Then each lock is free."""
        for actor in self.crew:
            while actor.depth:
                self.do_exit(actor, 0, 0, 0)
                self.judge()
        for actor in self.crew:
            while found := self.opened(actor):
                self.close(actor, found[-1], "direct")
                self.judge()
        for scope in self.scopes:
            if scope.open and scope.way == "lease":
                actor = next(actor for actor in self.crew if (actor.kind == "task") == scope.words.startswith("task"))
                scope.end()
                self.call(actor, "direct", scope.lease.release)
        for name in self.names:
            for options in ({}, {"slots": SLOTS}):
                until = time.monotonic() + LONG
                lock = self.other.lock(name, **options)
                got = []
                while len(got) < options.get("slots", 1):
                    lease = lock.try_acquire()
                    if lease is not None:
                        got.append(lease)
                    elif time.monotonic() > until:
                        raise Wrong(f"all was left, and {name} is not free")
                    else:
                        # The event loop may have kept what was dropped for a moment longer.
                        gc.collect()
                for lease in got:
                    lease.release()

    def clear(self):
        """After a failure: whatever is open ends with its clients, and its actors are replaced."""
        self.pool.shutdown(wait=False)
        self.clients["thread"].close()
        self.other.close()
        asyncio.run_coroutine_threadsafe(self.clients["task"].close(), Tasked.loop).result(LONG)


async def nothing():
    """So that the actor has gone on."""


FORMS = ("lock", "redlock", "attempt", "several")
CHOSEN = strategies.lists(
    strategies.tuples(strategies.sampled_from(MODES), strategies.integers(0, 1), strategies.sampled_from(FORMS)), min_size=1, max_size=3
)
# Few of the actors, so that they meet.
ACTORS = strategies.lists(strategies.integers(0, 7), min_size=2, max_size=4, unique=True)
STEPS = strategies.lists(
    strategies.tuples(strategies.sampled_from(VERBS), *(strategies.integers(0, 49) for _ in range(4))), min_size=12, max_size=24
)


def crew():
    """Two of each kind."""
    made = [kind() for kind in (Threaded, ToThread, Tasked) for _ in range(2)]
    made += [Green(), Green()] if greenlet is not None else []
    for actor in made:
        if actor.kind != "task":
            # Its context is its own from here on, also in copies.
            actor.ask(_owner.Work)
    return made


class Runs:
    """All programs of a run, with one crew as long as nothing fails."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.crew = None
        self.count = 0

    def run(self, actors, chosen, steps):
        self.count += 1
        if self.crew is None:
            self.crew = crew()
        few = list(dict.fromkeys(self.crew[at % len(self.crew)] for at in actors))
        program, ended = Program(self.nodes, few, chosen), False
        try:
            for step in steps:
                program.step(*step)
            program.end()
            ended = True
        except BaseException as error:
            words = "\n".join(f"  {number}. {said}" for number, said in enumerate(program.done, 1))
            raise Wrong(f"{error!r}\n{words}") from error
        finally:
            if not ended:
                self.crew = None
            program.clear()


# -- seeded bugs ----------------------------------------------------------------------------------------------------------------------------


def guess():
    """As it was: what is left is the newest of the thread or task, else of any, one that is lost first."""
    entered = collections.defaultdict(list)

    def fits(one, here):
        where, lease = one
        return where == here, lease is not None and lease._core.reason is not None

    def chosen(scope, here):
        found = entered[id(scope)]
        return found.pop(max(range(len(found)), key=lambda at: (*fits(found[at], here), at)))[1] if found else None

    def __enter__(self):
        lease = self._enter()
        entered[id(self)].append((threading.get_ident(), lease))
        return lease

    def __exit__(self, kind, error, traceback):
        lease = chosen(self, threading.get_ident())
        if lease is not None:
            self._leave(lease, error)

    _lock.Scoped.__enter__, _lock.Scoped.__exit__ = __enter__, __exit__


def guess_of_tasks():
    """The newest, whatever it is left by."""
    native = _native.Scopes

    class Newest:
        def __init__(self):
            self.native, self.entered = native(), []

        def enter(self, place, scope):
            self.entered.append(scope)

        def leave(self, frame):
            return [self.entered.pop()] if self.entered else [], False, False

        def __getattr__(self, name):
            return getattr(self.native, name)

    _native.Scopes = Newest


def one_of_several():
    """Where nothing tells which is left, one is released."""

    def _leave_doubt(self, leases, warn, error):
        if leases:
            self._leave(leases[-1], error)

    _lock.Scoped._leave_doubt = _leave_doubt


def owner_by_hand():
    """What is acquired by hand is entered again, as a scope is."""
    made = _owner.Hold

    def Hold(lock, key, owner, caller, reentrant, by_hand):  # noqa: N802
        return made(lock, key, owner, caller, reentrant, False)

    _owner.Hold = _lock.Hold = Hold
    hold = sync.Lock._hold
    sync.Lock._hold = lambda self, caller, by_hand: hold(self, caller, False)


def owner_by_hand_of_tasks():
    owner = quorlock.aio.Lock._owner
    quorlock.aio.Lock._owner = lambda self, by_hand: owner(self, False)


def release_of_others():
    """`Lock.release()` ends the newest lease, whichever caller has acquired it."""
    _lease._is_of = lambda flow, caller: True


def lost_first():
    """`Lock.release()` ends one that is lost before all that are held."""
    newest = _lease.Kept.newest

    def lost(self, caller):
        found = (lease for lease in reversed(tuple(self)) if lease._core.reason is not None and lease._hold.flow.is_of(caller))
        return next(found, None) or newest(self, caller)

    _lease.Kept.newest = lost


def loss_untold():
    """A scope that ends normally says nothing of its loss."""
    _lease.lost_in = _leases.lost_in = lambda lost, error: None


def owner_by_thread():
    """A scope is entered again by whatever runs in its thread."""

    def scope_of(key, caller):
        hold = _owner._newest_of(key)
        return hold if hold is not None and hold.flow.thread == caller.thread and hold.lives() and not hold.by_hand else None

    _owner.scope_of = scope_of


BUGS = {
    bug.__name__.replace("_", "-"): bug
    for bug in (guess, guess_of_tasks, one_of_several, owner_by_hand, owner_by_hand_of_tasks, release_of_others,
                lost_first, loss_untold, owner_by_thread)
}


def bugs():
    """Whether each is found. Without that what is found is made small, which takes long."""
    found = 0
    for name in BUGS:
        command = [sys.executable, __file__, "--bug", name, "--programs", "2000", "--large"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=600).stdout
        number = re.search(r"^seed \d+, program (\d+) ", said, re.MULTILINE)
        print(f"{'ok  ' if number else 'FAIL'} {name}: {f'program {number[1]}' if number else 'not found'}", flush=True)
        found += number is not None
    print(f"{found} passed, {len(BUGS) - found} failed")
    sys.exit(found != len(BUGS))


def batch(runs, seed, count, large=False):
    phases = [hypothesis.Phase.generate, *([] if large else [hypothesis.Phase.shrink])]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, print_blob=False, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), phases=phases,
    )
    @hypothesis.given(ACTORS, CHOSEN, STEPS)
    def test(actors, chosen, steps):
        runs.run(actors, chosen, steps)

    test()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=int, default=0, metavar="N", help="so many more on a real node")
    parser.add_argument("--node", help="the URL of a real node; else one is started")
    parser.add_argument("--large", action="store_true", help="tells what is found as it is")
    parser.add_argument("--bug", choices=BUGS, help="seeds this bug")
    parser.add_argument("--bugs", action="store_true", help="looks whether each seeded bug is found")
    given = parser.parse_args()
    if given.bugs:
        return bugs()
    if given.bug:
        BUGS[given.bug]()
    logging.getLogger("quorlock").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", ResourceWarning)
    sets = [(given.programs, ["memory://programs"])]
    if given.real:
        sets.append((given.real, [given.node or started()]))
    failed = done = 0
    for programs, nodes in sets:
        runs = Runs(nodes)
        for number, begin in enumerate(range(0, programs, BATCH)):
            before = runs.count
            try:
                batch(runs, given.seed + number, min(BATCH, programs - begin), given.large)
            except (Wrong, hypothesis.errors.FlakyFailure) as error:
                # What a thread of the core did in time once and not again was found all the same.
                error = error.exceptions[0] if isinstance(error, hypothesis.errors.FlakyFailure) else error
                print(f"seed {given.seed + number}, program {runs.count - before} on {nodes[0]}: {error}", flush=True)
                failed += 1
                break
            done += runs.count - before
    print(f"{done} passed, {failed} failed", flush=True)
    for stage in stages:
        stage.close()
    # Actors of a program that has failed may wait for ever.
    os._exit(1 if failed else 0)


stages = []


def started():
    from stage import Stage

    stages.append(Stage(1))
    return stages[0].urls()[0]


if __name__ == "__main__":
    try:
        main()
    except Exception:
        # As above.
        traceback.print_exc()
        os._exit(1)
