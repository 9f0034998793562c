"""A pytest plugin: whoever connects to localhost:6379 gets the runner's first server, each test ends its leases, and how it
ended goes to a file.

Suites have that address written in them, and run unchanged.
"""

import json
import os
import socket
import unittest

from nodes import PORTS, close

RESULTS = os.environ["PEERS_RESULTS"]
_resolve = socket.getaddrinfo
_said = {}


def _to_the_stage(host, port, *rest, **more):
    if host == "localhost" and str(port) == "6379":
        host, port = "127.0.0.1", PORTS[0]
    return _resolve(host, port, *rest, **more)


socket.getaddrinfo = _to_the_stage
# A name that Python had until 3.12, which one suite uses.
unittest.TestCase.assertEquals = unittest.TestCase.assertEqual


def pytest_runtest_logreport(report):
    # Of setup, call and teardown the worst counts; a skipped test has not passed.
    if report.when == "call" or not report.passed:
        good = report.passed and _said.get(report.nodeid, (True,))[0]
        _said[report.nodeid] = (good, "" if good else str(report.longrepr)[-2000:])


def pytest_runtest_logfinish():
    close()


def pytest_collectreport(report):
    if report.failed:
        _said[f"{report.nodeid} (collection)"] = (False, str(report.longrepr)[-2000:])


def pytest_sessionfinish():
    with open(RESULTS, "w") as file:
        json.dump(_said, file)
