#!/usr/bin/env python3
"""Real redis-servers for tests, from the command line. Imports little at the top: it starts once per `stage` line.

  stage.py [-d DIR] serve [N] [tls] [mtls] [auth] [unix] [clocks] [new] [resp2] [cluster] [nolua] [replicas=R] [sentinels=S] [shards=C]
        starts N servers (default 3), each with R replicas and watched by S sentinels, or N clusters of C primaries, prints lines NAME=VALUE for the tests'
        environment, then `ready`; lives until stdin ends or a signal comes. DIR must not exist; default: a new temporary
        folder. `new`: the set is not declared.
  stage.py -d DIR COMMAND...
        tells a running stage; exits 0 if the command held, 1 if not, 2 if there is no stage.

"""

import json
import os
import re
import socket
import sys

CONTROL = "control"
# Above the longest wait that a scenario asks for, so that a lost stage is noticed and a slow answer is not.
ANSWER_SECONDS = 60.0
HERE = os.path.dirname(os.path.abspath(__file__))
if not __package__:
    # As a script: its siblings are the package `stage`, not top-level modules.
    sys.path[0] = os.path.dirname(HERE)

FEATURES = {"tls": {"tls": True}, "mtls": {"client_certs": True}, "auth": {"auth": True}, "unix": {"unix": True},
            "clocks": {"clocks": True}, "new": {"declare": False},
            "cluster": {"declare": False, "options": ("cluster-enabled yes",)},
            "resp2": {"options": ('rename-command HELLO ""',)},
            "nolua": {"options": ('rename-command EVAL ""', 'rename-command EVALSHA ""')}}
COUNTED = re.compile(r"(replicas|sentinels|shards)=[0-9]")


def command(folder):
    """The command, quoted for a shell, that tells the stage in `folder` the words after it."""
    import shlex

    # -E -S: this starts once for every `stage` line, and needs neither site packages nor settings.
    return shlex.join([sys.executable, "-E", "-S", os.path.join(HERE, "stage.py"), "-d", folder])


def options(words):
    """Stage's arguments from `5 tls auth`."""
    found = {"n": 3}
    for word in words:
        if word.isdigit() and 1 <= int(word) <= 99:
            found["n"] = int(word)
        elif COUNTED.fullmatch(word):
            name, _, count = word.partition("=")
            found[name] = int(count)
        elif word in FEATURES:
            found.update(FEATURES[word])
        else:
            raise ValueError(f"no such kind of stage: {word}")
    return found


def environment(stage):
    """What a test needs to know, as environment variables."""
    found = {"QUORLOCK_STAGE": command(stage.folder), "QUORLOCK_NODES": ",".join(stage.urls())}
    if stage.certs:
        found["QUORLOCK_STAGE_TLS_NODES"] = ",".join(stage.urls(via="tls"))
        found["QUORLOCK_STAGE_CERTS"] = stage.certs
    if stage.shape[-1]:
        found["QUORLOCK_STAGE_UNIX_NODES"] = ",".join(stage.urls(via="unix"))
    clocks = [stage.clock(number) for number in range(1, len(stage) + 1)]
    if all(clocks):
        found["QUORLOCK_STAGE_CLOCKS"] = ",".join(clock.path for clock in clocks)
    return found


def tell(folder, words):
    """Tells the stage in `folder` one command; returns status and text."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(os.path.join(folder, CONTROL))
            with connection.makefile("rwb") as stream:
                stream.write(json.dumps(words).encode() + b"\n")
                stream.flush()
                line = stream.readline()
        except OSError as error:
            return 2, f"no stage in {folder}: {error}"
    return tuple(json.loads(line)) if line else (2, "the stage went away")


def serve(folder, words):
    import shutil
    import signal

    from stage.cluster import Stage
    from stage.control import Control

    wanted = options(words)
    if folder:
        os.makedirs(folder, mode=0o700)
    # An exception, so that the servers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with Stage(**wanted, folder=folder) as stage, Control(stage):
            for name, value in environment(stage).items():
                print(f"{name}={value}")
            print("ready", flush=True)
            while os.read(0, 4096):
                pass
    except KeyboardInterrupt:
        return 130
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def main(words):
    folder = None
    if words[:1] == ["-d"] and len(words) > 1:
        folder, words = os.path.abspath(words[1]), words[2:]
    if words[:1] == ["serve"]:
        try:
            return serve(folder, words[1:])
        except (ValueError, OSError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 2
    if folder is None or not words or words[0] in ("-h", "--help", "help"):
        from stage.words import HELP

        print(__doc__ + HELP)
        return 0 if words and words[0] in ("-h", "--help", "help") else 2
    status, said = tell(folder, words)
    if said:
        print(said, file=sys.stderr if status else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
