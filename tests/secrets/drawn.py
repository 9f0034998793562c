#!/usr/bin/env python3
"""Wrong arguments of the Python package that are drawn, with a marker where a secret stands: tests/secrets/drawn.py [--draws N]
[--from SEED] [--broken]

Of any type, nested, in place of any option, name and call, in the environment. No error, traceback (with the variables of the
package's frames), `repr`, attribute, JSON, line of the log nor metric has the marker, or six characters of it. Ends with
`N passed, M failed`; a draw is played again by its seed. With --broken each draw also shows its marker: all have to fail.
"""

import argparse
import asyncio
import collections
import functools
import json
import logging
import os
import pathlib
import sys
import traceback
import urllib.parse
import uuid

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "options")]

import quorlock
import quorlock.aio
from forms import Draw, leaked
from definition import everywhere

PACKAGE = os.path.dirname(quorlock.__file__)
SHOWN_AT_MOST = 400
# What a number may have of a secret, and what may not be had as one.
KINDS = {"time", "limit", "flag", "count", "fraction", "word"}
ORDINARY, OF_A_LOCK = ([name for name, takes in everywhere(place).items() if takes in KINDS] for place in ("client", "election"))
PUBLIC = {"namespace": "{", "label": "\n", "group": "\n", "set_name": " "}
FILES = tuple(name for name, takes in everywhere("client").items() if takes == "pem")
log = []


class Handler(logging.Handler):
    def emit(self, record):
        log.append(f"{record.getMessage()} {record.msg} {record.args} {vars(record)}")


class Holder:
    def __init__(self, text):
        self.url = text

    def __repr__(self):
        return f"Holder({self.url!r})"

    __str__ = __repr__


class Text(str):
    """A text of a type of its own."""


class Path(os.PathLike):
    def __init__(self, text):
        self.text = text

    def __fspath__(self):
        return self.text


def wrapped(draw, text):
    """The text in a value of another type, or deeper."""
    return draw.one(
        lambda: {"url": text}, lambda: {text: 1}, lambda: [text], lambda: [[text]], lambda: (text,), lambda: {text}, lambda: frozenset([text]),
        lambda: text.encode(), lambda: bytearray(text, "utf-8"), lambda: memoryview(text.encode()), lambda: Holder(text), lambda: Text(text),
        lambda: Path(text), lambda: functools.partial(print, text), lambda: lambda: text, lambda: Exception(text), lambda: pathlib.PurePath(text),
        lambda: urllib.parse.urlsplit(text.replace("[", "").replace("]", "")), lambda: collections.OrderedDict(url=text), lambda: [None, {"deep": [text]}],
        lambda: text + "\udcff", lambda: (part for part in [text, None]), lambda: int.from_bytes(text.encode(), "big"), lambda: type(text),
    )()


def anything(draw):
    text = draw.given()
    return draw.one(text, text, wrapped(draw, text))


class Texts(list):
    def result(self, call):
        """What a call gives, or how it is refused."""
        try:
            made = call()
        except Exception as error:  # what is wrong may be found by anybody
            self.error(error)
            return None
        self.object(made)
        return made

    def object(self, one):
        self.append(f"{one!r} {one}")
        for name in ("__dict__", "__slots__"):
            held = getattr(one, name, None)
            if name == "__dict__" and held and "__wrapped__" in held:
                # The user's own function, as functools.wraps keeps it.
                held = {key: value for key, value in held.items() if key != "__wrapped__"}
            names = held if name == "__slots__" else None
            # What a reporter of errors shows of an object.
            self.append(repr(held) if names is None else " ".join(repr(getattr(one, each, None)) for each in names if each != "_options"))
        try:
            shown = {key: value for key, value in vars(one).items() if key != "__wrapped__"}
            self.append(json.dumps(shown, default=repr))
        except TypeError:
            pass

    def error(self, error):
        seen = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            # Of a user's own code, or of Python's: `unexpected keyword argument`.
            self.append(f"{error} {error!r} {error.args} {vars(error)}")
            for frame, line in traceback.walk_tb(error.__traceback__):
                if frame.f_code.co_filename.startswith(PACKAGE):
                    self.append(f"{frame.f_code.co_qualname} {line} {({name: repr(each) for name, each in frame.f_locals.items()})}")
            if "quorlock" in type(error).__module__:
                self.append("".join(traceback.format_exception_only(error)))
            error = error.__cause__ or error.__context__


def options_of_client(draw):
    name = draw.one("nodes", "nodes", *ORDINARY, *PUBLIC, *FILES)
    if name in PUBLIC:
        return {name: draw.one(draw.shared(PUBLIC[name]), wrapped(draw, draw.given()))}
    value = anything(draw)
    if name == "nodes" and draw.one(True, False):
        value = ["memory://a", value]
    if name == "ca" and isinstance(value, str | os.PathLike):
        # That of a certificate may be shown.
        value = draw.secret()
    if name in ("cert", "key"):
        return {"cert": "/nowhere/x", "key": "/nowhere/y", name: value}
    return {name: value}


def options_of_lock(draw):
    name = draw.one("owner", "reentrant", "shared", "slots", *OF_A_LOCK, "label", "group")
    if name in ("label", "group"):
        return {name: draw.one(draw.shared("\n"), wrapped(draw, draw.given()))}
    if name == "owner":
        return {name: draw.one(draw.secret(), wrapped(draw, draw.secret()))}
    return {name: anything(draw)}


def a_name(draw):
    return draw.one(draw.shared("}{"), wrapped(draw, draw.secret()))


def client_calls(draw, module, texts):
    client = texts.result(lambda: module.Client(**{"nodes": "memory://secrets", **options_of_client(draw)}))
    if client is None:
        return
    held = client.close()
    if asyncio.iscoroutine(held):
        held.close()


def lock_calls(draw, client, texts):
    call = draw.one(
        lambda: client.lock(a_name(draw)), lambda: client.lock("a", **options_of_lock(draw)), lambda: client.rwlock(a_name(draw)),
        lambda: client.semaphore(a_name(draw), anything(draw)), lambda: client.semaphore("a", anything(draw)),
        lambda: client.lock_all([a_name(draw), "b"]), lambda: client.lock_all(anything(draw), **options_of_lock(draw)),
        lambda: client.election(a_name(draw)), lambda: client.election("a", **{"label": draw.shared("\n")}),
        lambda: client.lock("a").acquire(timeout=anything(draw)), lambda: client.lock("a").acquire(label=draw.shared("\n")),
        lambda: client.lock("a").try_acquire(label=draw.shared("\n")), lambda: client.lock("a").attempt(anything(draw)).__enter__(),
        lambda: client.force_release("a", fence=anything(draw)), lambda: client.force_release(a_name(draw)),
        lambda: client.inspect(a_name(draw)), lambda: client.adopt(anything(draw)), lambda: client.adopt(wrapped(draw, draw.given())),
    )
    made = texts.result(call)
    if asyncio.iscoroutine(made):
        texts.result(lambda: asyncio.run(of_coroutine(made)))
    elif hasattr(made, "release") and hasattr(made, "is_held"):
        made.release()


def held_calls(draw, client, texts):
    """Of what was made before: leases, several locks, elections."""
    value, name = anything(draw), f"{draw.given()}:"
    lease, leases = client.lock("held").acquire(), client.lock_all(["held-1", "held-2"]).acquire()
    several, election = client.lock_all(["several-1", "several-2"]), client.election("held-3")
    calls = [
        lambda: lease.extend(value), lambda: lease.ensure(value), lambda: lease.on_lost(value), lambda: leases.extend(value),
        lambda: leases.ensure(value), lambda: leases.on_lost(value), lambda: leases[a_name(draw)], lambda: several.acquire(timeout=value),
        lambda: several.try_acquire(label=draw.shared("\n")), lambda: several.attempt(value).__enter__(), lambda: quorlock.Locks(value),
        lambda: quorlock.Locks([value]), lambda: election.campaign(label=draw.shared("\n")), lambda: election.observe(value),
        lambda: election.run(lambda term: None, on_lost=value), lambda: election.run(lambda term: None, on_stopped=value),
        lambda: election.run(lambda term: None, again=None if value is True else value), lambda: client.init_set(force=value),
        lambda: client.lock("a", **{name: 1}), lambda: client.rwlock("a", **{name: 1}), lambda: quorlock.redlock("a", **{name: 1}),
        lambda: quorlock.redlock(key=lambda given: given, client=client)(lambda given: None)(draw.one(draw.secret(), wrapped(draw, draw.secret()))),
    ]
    if not callable(value):
        calls.append(lambda: election.run(value))
    made = texts.result(draw.one(*calls))
    for one in (made, lease, leases):
        if hasattr(one, "release") and hasattr(one, "is_held"):
            one.release()


async def of_coroutine(made):
    made = await made
    if hasattr(made, "release") and hasattr(made, "is_held"):
        await made.release()


def redlock_calls(draw, client, texts):
    def where():
        found = options_of_client(draw)
        if "key" in found:
            found["cert_key"] = found.pop("key")
        return {"nodes": "memory://secrets", **found} if draw.one(True, False) else {"client": client, **options_of_lock(draw)}

    call = draw.one(
        lambda: quorlock.redlock("a", **where()), lambda: quorlock.redlock(draw.one(draw.secret(), wrapped(draw, draw.secret())), nodes="memory://secrets"),
        lambda: quorlock.redlock(key=lambda: a_name(draw), client=client)(print)(),
        lambda: quorlock.redlock(key=functools.partial(a_name, draw), client=client),
        lambda: quorlock.redlock("a", **where())(lambda: None)(), lambda: quorlock.redlock("a", **where()).__enter__(),
        lambda: quorlock.redlock("a", client=anything(draw))(print), lambda: quorlock.once("a", every=anything(draw), **where()),
        lambda: quorlock.once("a", every=1, **where())(print)(), lambda: quorlock.semaphore("a", anything(draw), **where()),
        lambda: quorlock.redlock(draw.one("a", draw.secret(), wrapped(draw, draw.secret())), client=client)(anything(draw)),
        lambda: quorlock.redlock("a", client=client).attempt(anything(draw)).__enter__(),
    )
    made = texts.result(call)
    if hasattr(made, "release") and hasattr(made, "is_held"):
        made.release()


def environment_calls(draw, client, texts):
    os.environ["QUORLOCK_NODES"] = draw.given().replace("\0", "")
    try:
        made = texts.result(draw.one(quorlock.Client, quorlock.aio.Client))
        if made is not None:
            texts.result(lambda: made.stats())
            texts.object(made)
        texts.result(lambda: quorlock.redlock("a", wait=0, node_timeout=0.02, connect_timeout=0.02).__enter__())
    finally:
        del os.environ["QUORLOCK_NODES"]


def unmade_calls(draw, client, texts):
    """Objects whose constructors have failed, and which a reporter finds in a frame."""
    kind = draw.one(quorlock.Client, quorlock.aio.Client, quorlock.redlock)
    one = kind.__new__(kind)
    texts.result(lambda: one.__init__(**({"nodes": wrapped(draw, draw.given())} if kind is not quorlock.redlock else {"name": draw.given(), "key": draw.given()})))
    texts.append(repr(one))


def reached_calls(draw, client, texts):
    """Whose password is right where it stands, of a node that is not there."""
    node = f"redis://u:{draw.marker}@127.0.0.1:1"
    made = quorlock.Client(node, wait=0, node_timeout=0.02, connect_timeout=0.02)
    texts.object(made)
    lock = made.lock("a")
    texts.object(lock)
    texts.result(lock.acquire)
    texts.result(lock.inspect)
    texts.result(made.probe)
    made.close()


def drawn(seed, client, broken):
    draw, texts = Draw(seed), Texts()
    log.clear()
    calls = draw.random.choices(
        [lambda: client_calls(draw, quorlock, texts), lambda: client_calls(draw, quorlock.aio, texts), lambda: lock_calls(draw, client, texts),
         lambda: lock_calls(draw, AIO, texts), lambda: redlock_calls(draw, client, texts), lambda: environment_calls(draw, client, texts),
         lambda: unmade_calls(draw, client, texts), lambda: reached_calls(draw, client, texts), lambda: held_calls(draw, client, texts)],
        [20, 10, 25, 10, 25, 3, 5, 2, 20])
    calls[0]()
    texts += log
    if seed % 200 == 0:
        texts.append(quorlock.metrics_text())
    if broken:
        texts.append(draw.marker[3:9])
    return next((text for text in texts if leaked(draw.marker, text)), None)


def main():
    global AIO
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--from", type=int, default=0, dest="seed")
    parser.add_argument("--broken", action="store_true")
    asked = parser.parse_args()
    os.environ.pop("QUORLOCK_NODES", None)
    logging.getLogger("quorlock").addHandler(Handler())
    logging.getLogger().setLevel(logging.DEBUG)
    node = f"memory://{uuid.uuid4()}"
    client, AIO = quorlock.Client(node, wait=0), quorlock.aio.Client(node, wait=0)
    print(f"draws {asked.seed} to {asked.seed + asked.draws}")
    failed = 0
    for seed in range(asked.seed, asked.seed + asked.draws):
        found = drawn(seed, client, asked.broken)
        if found is not None:
            failed += 1
            if failed <= 10:
                print(f"FAIL seed {seed}: {found[:SHOWN_AT_MOST]}")
    print(f"{asked.draws - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
