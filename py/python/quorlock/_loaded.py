"""A process keeps what it has loaded of this package: no module of it is loaded a second time, as notebooks do after an upgrade
(`%autoreload`). New classes would not be those that leases and errors have, and the compiled part stays the old one in any case."""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Refuses:
    """The loader of a module that is loaded already."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the interpreter makes it."""

    def exec_module(self, module: ModuleType) -> None:
        """Changes nothing."""
        raise ImportError(
            f"{module.__name__} is not loaded a second time, for leases and errors of this process are of the first: what there is goes "
            "on to work, and another version of quorlock is in use when the process (in a notebook: the kernel) is started again"
        )


def _keep() -> None:
    # Of this package's folder alone, and of no other.
    finder = sys.path_importer_cache.get(os.path.dirname(__file__))
    found = getattr(finder, "find_spec", None)
    if found is None:
        return
    # Not looked for in this module, which may be empty while it is loaded again itself.
    refuses = _Refuses()

    def find_spec(name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        spec: ModuleSpec | None = found(name, target)
        if spec is not None and target is not None:
            spec.loader = refuses  # type: ignore[assignment]
        return spec

    setattr(finder, "find_spec", find_spec)


_keep()
