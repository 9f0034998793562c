#!/usr/bin/env python3
"""Runs one scenario (tests/scenarios/README.md) with one of Python's APIs: `scenario.py blocking` or `scenario.py asyncio`.

Only the module of that API is imported.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "scenario"), os.path.dirname(HERE)]

import verbs  # noqa: E402

MODULES = {"blocking": "threads", "asyncio": "tasks"}

if __name__ == "__main__":
    sys.exit(verbs.main(importlib.import_module(MODULES[sys.argv[1]]).run))
