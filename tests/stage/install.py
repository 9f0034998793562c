"""Finds redis-server and openssl, and installs them where that is allowed."""

import os
import shutil
import subprocess
import sys

PACKAGES = {"redis-server": "redis-server", "openssl": "openssl"}
HOW = """missing: {missing}
install Redis 7 or newer and OpenSSL, for example
  Debian, Ubuntu   apt-get install {packages}
  Fedora           dnf install redis openssl
  macOS            brew install redis openssl"""


def missing(tools):
    return [tool for tool in tools if shutil.which(tool) is None]


def ensure_server(tools=("redis-server", "openssl")):
    """Returns when all tools are there; otherwise says what to install and exits with status 2."""
    lacking = missing(tools)
    if not lacking:
        return
    packages = [PACKAGES[tool] for tool in lacking]
    may_install = os.path.exists("/etc/debian_version") and hasattr(os, "geteuid") and os.geteuid() == 0
    if may_install and shutil.which("apt-get"):
        print("installing " + " ".join(packages), file=sys.stderr, flush=True)
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
            # What apt says goes to stderr: our stdout is read by programs.
            subprocess.run(["apt-get", *command], stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)
    lacking = missing(tools)
    if lacking:
        packages = " ".join(PACKAGES[tool] for tool in lacking)
        print(HOW.format(missing=" ".join(lacking), packages=packages), file=sys.stderr)
        raise SystemExit(2)
