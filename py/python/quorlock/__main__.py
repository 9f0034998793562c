"""`python -m quorlock`: what an operator does to a set."""

import argparse
import re
import sys
from typing import NoReturn

from ._options import UNSET
from .errors import QuorlockError
from .sync import Client

_INIT = """\
Declares a new set: writes its record to every node, so that they vote at once. Nodes without a record might have lost
their memory and give no vote for max_ttl; so does an undeclared set at its first use. For an operator, once, before
anything else uses the nodes. Nothing is written unless every node answers and has no record yet.

Prints one line for each node. Exit status: 0 if the set is declared, 1 if not.
"""

_NODES = """\
Without URLs the nodes are those of the environment variable QUORLOCK_NODES, and without that redis://127.0.0.1:6379.
URLs with passwords have no place among the arguments, which every user of a machine can see: QUORLOCK_NODES is the better
way.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Says what is wrong, without what may be a URL with a password: argparse repeats what it was given."""
        super().error(re.sub(r"\S*(:/|@).*", "…", message, flags=re.DOTALL))


def _seconds(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise argparse.ArgumentTypeError("give a time in seconds, such as 60") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m quorlock", description="A distributed lock over independent Redis or Valkey masters.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="declare a new set of nodes", description=_INIT, epilog=_NODES,
                               formatter_class=argparse.RawDescriptionHelpFormatter)
    init.add_argument("nodes", nargs="*", metavar="URL", help="the nodes; without passwords (see below)")
    # The options that the record depends on, and the way to the nodes.
    init.add_argument("--set-name", default=UNSET, metavar="NAME", help="the name of the set (default)")
    init.add_argument("--max-ttl", default=UNSET, type=_seconds, metavar="S", help="its longest ttl, in seconds (60)")
    init.add_argument("--namespace", default=UNSET, metavar="TEXT", help="the prefix of every key (lock:)")
    init.add_argument("--accept-eviction", default=UNSET, action="store_true",
                      help="accept servers that drop keys when they are full")
    for option, what in (("ca", "whom to trust"), ("cert", "the client's certificate"), ("key", "its key")):
        init.add_argument(f"--{option}", metavar="PATH", help=f"{what}, a PEM file, for rediss://")
    return parser


def main(words: list[str] | None = None) -> int:
    """Does what the words say; returns the exit status."""
    asked = vars(_parser().parse_args(words))
    del asked["command"]
    asked["nodes"] = asked["nodes"] or None
    if asked["max_ttl"] is not UNSET:
        # A client's own defaults have to fit, although nothing is locked here.
        asked.update(ttl=asked["max_ttl"], max_hold=None, fence_ttl=3 * asked["max_ttl"])
    try:
        with Client(**asked) as client:
            client.init_set()
            for node in client._core.nodes():
                print(f"{node}: declared")
    except QuorlockError as error:
        lines = [f"{node}: {said}" for node, said in error.nodes]
        # The text of an error ends with the same answers, in one line.
        print(str(error).removesuffix(f" ({'; '.join(lines)})"), *lines, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
