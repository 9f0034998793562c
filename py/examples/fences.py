"""A resource that looks after itself: writes that come too late are refused by their fence.

    python py/examples/fences.py accounts.db

A lock cannot promise that the work of a holder ends before its lease does: the process may be paused between any two
lines, for longer than the lock outlives it. The next holder then writes, and after that the late one. So the resource
keeps the fence of the last write and refuses what comes with a smaller one, in the same statement that writes. Nodes
come from QUORLOCK_NODES.
"""

import sqlite3
import sys

import quorlock


class TooLate(Exception):
    """Somebody who got the lock later has written already."""


class Accounts:
    """Balances in SQLite, each with the fence of its last write. Any database that counts changed rows will do."""

    def __init__(self, path):
        self._rows = sqlite3.connect(path)
        self._rows.execute(
            "CREATE TABLE IF NOT EXISTS accounts (id TEXT PRIMARY KEY, value INTEGER NOT NULL, fence INTEGER NOT NULL)"
        )

    def open(self, account):
        with self._rows:
            self._rows.execute("INSERT OR IGNORE INTO accounts VALUES (?, 0, 0)", (account,))

    def value(self, account):
        return self._rows.execute("SELECT value FROM accounts WHERE id = ?", (account,)).fetchone()[0]

    def write(self, account, value, fence):
        """Writes once for each hold. For several writes in one hold it has to be `fence <= ?`."""
        with self._rows:
            written = self._rows.execute(
                "UPDATE accounts SET value = ?, fence = ? WHERE id = ? AND fence < ?", (value, fence, account, fence)
            )
        if written.rowcount == 0:
            raise TooLate(f"a write to {account} with the fence {fence} came too late")


def deposit(accounts, account, amount, client):
    """Reads, thinks, writes: no two of these at once, and none that is late."""
    with client.lock(f"accounts:{account}") as lease:
        value = accounts.value(account)
        accounts.write(account, value + amount, lease.fence)
        return lease.fence


def main(path):
    accounts = Accounts(path)
    accounts.open("ann")
    with quorlock.Client() as client:
        late = deposit(accounts, "ann", 10, client)
        deposit(accounts, "ann", 5, client)
    try:
        # As if the first holder had slept until now.
        accounts.write("ann", 10, late)
    except TooLate as refused:
        print("refused:", refused)
    print("balance:", accounts.value("ann"))


if __name__ == "__main__":
    main(*sys.argv[1:])
