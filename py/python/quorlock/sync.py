"""The blocking API. Everything here is exported by `quorlock`."""

from types import TracebackType
from typing import Self

from . import _native
from ._client import ClientBase, Unmade
from ._election import Election
from ._green import waited
from ._inspection import Forced, Inspection
from ._lock import Attempt, Lease, Lock
from ._options import Limit, Name, check_flag
from ._probe import Probe
from ._several import Locks
from ._unseen import guarded

__all__ = ["Attempt", "Client", "Lease", "Lock"]


class Client(ClientBase[Lock, Locks, Election]):
    # Made from core/options.toml: what is said of a client.
    """A set of nodes and the options for its locks.

    Connects when first needed and again when connections break. One client serves all threads of a process.

    A node's URL is `redis://[user:password@]host[:port][/db]`, `rediss://…`, `redis+unix:///path`,
    `redis+sentinel://host:26379;host;host/master` for a master with replicas that sentinels know by that name,
    `redis+cluster://host:6379;host` for a Redis Cluster, or `memory://name` for a node in this process. An option that is not given is
    read from the environment, where that has it. Those of `lock` are the defaults of its locks. Times are in seconds, or a `timedelta`.

    - `nodes`: The nodes of the set, by their URLs: a list, or one text with commas. Each is
      `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, `valkey://` and `valkeys://` likewise,
      `redis+unix:///path?db=1&user=u&password=p`, `redis+sentinel://host:26379;host;host/master` for a master with replicas
      that sentinels know by that name, `redis+cluster://host:6379;host` for a Redis Cluster, or `memory://name` for a node in
      this process. Default: `redis://127.0.0.1:6379`.
    - `max_ttl`: The longest `ttl` of any lock of the set, and so how long a node that may have lost its memory gives no vote.
      10 ms to 24 h. Default: 60 s.
    - `node_timeout`: Time for one request to one node: connect, queue, write and reply; at most a quarter of a lock's `ttl`. A
      hung node costs no latency, for rounds end at the quorum. 1 ms to 60 s. Default: 250 ms.
    - `connect_timeout`: Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked before it may
      vote. Calls that ask once wait for the first connections as long, until a quorum of nodes is connected. 1 ms to 60 s.
      Default: 2 s.
    - `drift`: Bound on the difference of clock rates, as a fraction: validity is the `ttl` less this part of it and 2 ms. 0.001
      to 0.5. Default: 0.01.
    - `min_validity`: The fraction of the `ttl` that must be left when a lease is won. 0 to 0.9. Default: 0.1.
    - `namespace`: Prefix of every key. It has at least one byte, and no braces. At most 256 bytes. Default: `lock:`.
    - `fence_ttl`: How long a lock's counter of fences lives after its last use; at least twice `max_ttl`. After that the order
      of fences rests on the nodes' clocks. By default twice `max_ttl`, where that is longer than 10 min. Default: 10 min.
    - `set_name`: The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks. Nodes of another
      set are refused. Default: `default`.
    - `restart_guard`: Whether a node that may have lost its memory gives no vote until every vote that it may have given is
      over, which is after `max_ttl`. `auto` is on for three nodes and more, and where a node fails over to another server. With
      `on` a wholly new set waits, too; with `off` a node that restarts without its data may give a lock to a second holder.
      Default: `auto`.
    - `accept_eviction`: Whether servers are accepted that drop keys when they are full: with them a lock may vanish under its
      holder. Without, such a server is refused with `MisconfiguredError`. Default: `False`.
    - `wait_replicas`: How many replicas of a node must have a vote before it counts. With as many as the node has, a master
      that is cut off from them gives no votes, and a failover loses none. A replica that hangs holds up every request to its
      master for half of `node_timeout`, and the votes that it misses do not count. 0 to 16. Default: 0.
    - `ca`: Certificates that vouch for `rediss://` nodes, in place of the system's: the path of a PEM file, or its text.
    - `cert`: The client's certificate: the path of a PEM file, or its text. Goes with `key`.
    - `key`: The key of the client's certificate: the path of a PEM file, or its text.

    Raises `InvalidArgumentError`, naming the option, its value and what to give. As a context manager it closes itself.
    """
    # End of what is made.

    __slots__ = ()
    _package = "quorlock"

    def _lock_of(self, core: _native.Lock | Unmade, name: str, named: bool, reentrant: bool, wait: Limit) -> Lock:
        return Lock(core, name, named, reentrant, wait)

    def _locks_of(self, locks: list[Lock]) -> Locks:
        return Locks(locks)

    def _election_of(self, core: _native.Lock | Unmade, name: str) -> Election:
        return Election(core, name)

    @guarded
    def inspect(self, name: Name) -> Inspection:
        return self.lock(name).inspect()

    @guarded
    def force_release(self, name: Name, fence: int | None = None) -> Forced:
        return self.lock(name).force_release(fence)

    @guarded
    def adopt(self, text: str) -> Lease:
        core: _native.Lease = waited(self._core.adopt(text))
        try:
            return Lease(core, None)
        except BaseException:
            # Ctrl-C before the caller has it.
            core.discard()
            raise

    def probe(self) -> Probe:
        return Probe._of(waited(self._core.probe()))

    @guarded
    def init_set(self, *, force: bool = False) -> float:
        check_flag("force", force)
        left: float = waited(self._core.init_set(force))
        return left

    def close(self) -> None:
        waited(self._core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
