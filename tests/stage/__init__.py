"""Real redis-servers for tests: see cluster.Stage; stage.py is the command line."""

from .cluster import Stage
from .install import ensure_server
from .resp import Resp, RespError

__all__ = ["Resp", "RespError", "Stage", "ensure_server"]
