"""`python -m quorlock`: the program `quorlock`, which the package brings; and `init` without it."""

import argparse
import logging
import math
import os
import re
import sys
from importlib import metadata
from typing import NoReturn

from ._options import UNSET
from .errors import QuorlockError
from .sync import Client

_INIT = """\
Declares a set: founds it, where no node has a record, by writing its record to all nodes. A wholly new set (servers that
have run for longer than max_ttl and never stored anything) votes at once. Where the servers are only too young, this waits
until they have run for max_ttl. Servers that may have lost something give no vote for max_ttl first, and this says how much
longer that takes. Where all nodes have this set's record already nothing is changed; so it is safe to run at every deploy.

Prints one line for each node. Exit status: 0 if the set is declared, 1 if not: a node has a record of another set, cannot
be a node, or does not answer; nothing is written then.
"""

_FORCE = """\
--force: the set votes at once, also where its nodes may have lost the votes that they gave. Two may then hold a lock that
was held within the last max_ttl. That is safe only where no lock is held.
"""

_NODES = """\
Without URLs the nodes are those of the environment variable QUORLOCK_NODES, and without that redis://127.0.0.1:6379.
URLs with passwords have no place among the arguments, which every user of a machine can see: QUORLOCK_NODES is the better
way.
"""


_LACKING = """\
this installation of quorlock has no program `quorlock`, as one that was built from its sources: get it by
`cargo install quorlock-cli`. Without it there is `python -m quorlock init`.
"""


def _program() -> str | None:
    """The program, where the package was installed with it."""
    try:
        files = metadata.files("quorlock") or []
    except metadata.PackageNotFoundError:
        return None
    paths = (str(file.locate()) for file in files if file.name == "quorlock" and file.suffix == "")
    return next((path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path)), None)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Says what is wrong, without what may be a key, or a URL with a password: argparse repeats what it was given."""
        super().error(re.sub(r"\S*(:/|@|-----|[A-Za-z0-9+/=_]{40}).*", "…", message, flags=re.DOTALL))


def _seconds(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise argparse.ArgumentTypeError("give a time in seconds, such as 60") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m quorlock", description="A distributed lock over independent Redis or Valkey masters.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="declare a set of nodes", description=_INIT, epilog=_NODES,
                               formatter_class=argparse.RawDescriptionHelpFormatter)
    init.add_argument("nodes", nargs="*", metavar="URL", help="the nodes; without passwords (see below)")
    # The options that the record depends on, and the way to the nodes.
    init.add_argument("--set-name", default=UNSET, metavar="NAME", help="the name of the set (default)")
    init.add_argument("--max-ttl", default=UNSET, type=_seconds, metavar="S", help="its longest ttl, in seconds (60)")
    init.add_argument("--namespace", default=UNSET, metavar="TEXT", help="the prefix of every key (lock:)")
    init.add_argument("--restart-guard", default=UNSET, choices=("auto", "on", "off"),
                      help="whether nodes that may have lost something give no vote for max_ttl (auto: with three and more)")
    init.add_argument("--accept-eviction", default=UNSET, action="store_true",
                      help="accept servers that drop keys when they are full")
    for option, what in (("ca", "whom to trust"), ("cert", "the client's certificate"), ("key", "its key")):
        init.add_argument(f"--{option}", metavar="PATH", help=f"{what}, a PEM file, for rediss://")
    init.add_argument("--force", action="store_true",
                      help="lift the quarantine of the set's nodes: only where you know that no lock is held")
    return parser


def main(words: list[str] | None = None) -> int:
    """Does what the words say; returns the exit status. All but `init` becomes the program."""
    words = sys.argv[1:] if words is None else words
    if words[:1] != ["init"]:
        path = _program()
        if path is None:
            print(_LACKING, end="", file=sys.stderr)
            return 127
        os.execv(path, ["quorlock", *words])
    asked = vars(_parser().parse_args(words))
    del asked["command"]
    asked["nodes"] = asked["nodes"] or None
    if force := asked.pop("force"):
        print(_FORCE, end="", file=sys.stderr, flush=True)
    if asked["max_ttl"] is not UNSET:
        # A client's own defaults have to fit, although nothing is locked here.
        asked.update(ttl=asked["max_ttl"], max_hold=None, fence_ttl=3 * asked["max_ttl"])
    # What it waits for, the core tells by a warning.
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        with Client(**asked) as client:
            left = client.init_set(force=force)
            # Rounded up: who waits so long has waited long enough.
            rest = f", gives no vote for another {math.ceil(left * 10) / 10:.1f} s" if left > 0 else ""
            for node in client._core.nodes():
                print(f"{node}: declared{rest}")
    except QuorlockError as error:
        lines = [f"{node}: {said}" for node, said in error.nodes]
        # The text of an error ends with the same answers, in one line.
        print(str(error).removesuffix(f" ({'; '.join(lines)})"), *lines, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
