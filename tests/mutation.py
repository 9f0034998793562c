#!/usr/bin/env python3
"""Changes what decides in the core, one place at a time, by cargo-mutants: a unit test has to fail of each change.

    tests/mutation.py [FILE...]      all of `FILES`, or these, as protocol/quorum.rs

By hand, or in `make full`: it takes minutes for each file. cargo-mutants is others', of the `VERSION` below, and is installed into
`target/mutation` where it is missing. It draws its changes from the source: another operator, a condition that is always true, a function that returns a
constant, an arm that is gone. What is changed and tested is a crate of the ground, the seam and the protocol alone, which import nothing else
(`house.py`), so that a change compiles in seconds; it is made in `target/mutation`.

`mutation-alive.txt` has the changes that no test can see, each with its reason, as they do not change what the code does. A change that
survives and is not there has failed, and so has a line there whose change does not survive. Ends with `N passed, M failed`.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import house

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "target" / "mutation"
CRATE = OUT / "crate"
TOOL = OUT / "tool"
ALIVE = ROOT / "tests" / "mutation-alive.txt"
VERSION = "27.1.0"
FILES = ["protocol/quorum.rs", "protocol/fence.rs", "protocol/claim/votes.rs", "node/admission/founding.rs"]
# What a run that counts has changed at least, of all files.
FLOOR = 150
# The tests that have to see it, by parts of their names.
TESTS = ["protocol::quorum", "protocol::fence", "protocol::claim::", "node::admission"]
# A change that makes a test run for so many seconds has been seen.
SECONDS = 60

# Parts of the seam that the protocol does not use, and crates that those alone need.
WITHOUT = ("redis", "cluster", "address")
CRATES = ("once_cell", "foldhash", "getrandom", "libc", "log", "smallvec", "percent-encoding", "data-encoding", "sha1_smol", "url", "proptest")
MANIFEST = """[package]
name = "quorlock-decisions"
version = "0.0.0"
edition = "2024"
[workspace]
[profile.dev]
debug = false
[lints.rust]
unexpected_cfgs = "allow"
[dependencies]
"""
LIB = """#![allow(unused, missing_docs)]
pub use error::{Error, ErrorKind, NodeError};
pub use event::LogEvent;
pub use owner::Owner;
pub use protocol::loss::LossReason;
/// Stands for what the whole core has to wait with.
pub mod blocking {
    pub fn wait<F: Future>(wanted: F) -> F::Output {
        let (mut wanted, mut context) = (std::pin::pin!(wanted), std::task::Context::from_waker(std::task::Waker::noop()));
        loop {
            if let std::task::Poll::Ready(done) = wanted.as_mut().poll(&mut context) {
                return done;
            }
            std::thread::yield_now();
        }
    }
}
"""


def toml(value):
    """A dependency as the manifest has it."""
    if isinstance(value, str):
        return json.dumps(value)
    return "{ " + ", ".join(f"{key} = {json.dumps(one)}" for key, one in value.items()) + " }"


def make():
    """Makes the crate of what decides. Files that are as before keep their times, so little is compiled anew."""
    wings = sorted(house.GROUND | {"node", "protocol"})
    texts = {pathlib.Path("src/lib.rs"): LIB + "".join(f"pub mod {name};\n" for name in wings)}
    for path in house.CORE.rglob("*.rs"):
        words = path.relative_to(house.CORE).with_suffix("").parts
        if words[0] in wings and not (words[0] == "node" and words[1:2] and words[1] in WITHOUT):
            text = path.read_text()
            # Tests of the ground may use all of the core, and are about nothing that is changed.
            texts["src" / path.relative_to(house.CORE)] = text.split("#[cfg(test)]\nmod tests")[0] if words[0] in house.GROUND else text
    seam = pathlib.Path("src/node/mod.rs")
    texts[seam] = re.sub(rf"(?m)^pub\(crate\) mod ({'|'.join(WITHOUT)});\n", "", texts[seam])
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    texts[pathlib.Path("Cargo.toml")] = MANIFEST + "".join(f"{name} = {toml(crates[name])}\n" for name in CRATES)
    for old in (CRATE / "src").rglob("*.rs"):
        if old.relative_to(CRATE) not in texts:
            old.unlink()
    for name, text in texts.items():
        path = CRATE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    # The versions that the core is tested with.
    shutil.copy(ROOT / "Cargo.lock", CRATE)
    # What the seam includes beside its Rust.
    for path in (house.CORE / "node").rglob("*"):
        if path.is_file() and path.suffix != ".rs" and path.relative_to(house.CORE).parts[1] not in WITHOUT:
            to = CRATE / "src" / path.relative_to(house.CORE)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)


def install(env):
    """Installs cargo-mutants where it is missing, or is another. Whether it is there then."""
    asked = ["cargo", "mutants", "--version"]
    if subprocess.run(asked, env=env, capture_output=True, text=True).stdout.split()[-1:] == [VERSION]:
        return True
    return subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", TOOL, f"cargo-mutants@{VERSION}"], env=env).returncode == 0


def plain(line):
    """A change without its place in the file, which moves."""
    return re.sub(r"^src/(\S+?):\d+:\d+: ", r"\1: ", line.strip())


def listed(text):
    """The changes that no test can see, each with its reason, as often as they come."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = [line.partition(" | ") for line in lines]
    for change, _, reason in found:
        if not reason.strip():
            raise ValueError(f"no reason for: {change}")
    return collections.Counter(change for change, _, _ in found)


def changes(name):
    path = OUT / "mutants.out" / f"{name}.txt"
    return [line for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def judge(missed, caught, alive, floor):
    """The lines of a failure, and how many changes are as they have to be."""
    survived = collections.Counter(map(plain, missed))
    wrong = [f"survives: {line}" for line in missed if survived[plain(line)] > alive[plain(line)]]
    wrong += [f"mutation-alive.txt has what does not survive: {line}" for line, times in alive.items() if survived[line] < times]
    if len(missed) + len(caught) < floor:
        wrong.append(f"only {len(missed) + len(caught)} changes, at least {floor} there must be")
    return wrong, len(caught) + sum((survived & alive).values())


def main():
    env = dict(os.environ, CARGO_TERM_COLOR="never", PATH=f"{os.environ['PATH']}{os.pathsep}{TOOL / 'bin'}")
    if not install(env):
        print("FAIL cargo-mutants cannot be installed\n0 passed, 1 failed")
        return 1
    make()
    files = sys.argv[1:] or FILES
    # What is compiled is kept from one run to the next.
    env |= {"CARGO_TARGET_DIR": str(OUT / "built"), "CARGO_INCREMENTAL": "1"}
    command = ["cargo", "mutants", "--dir", CRATE, "--output", OUT, "--jobs", "1", "--no-shuffle", "--timeout", str(SECONDS), "--colors", "never",
               *(word for file in files for word in ("--file", f"src/{file}")), "--", "--lib", "--", *TESTS]
    done = subprocess.run(command, env=env)
    missed, caught = changes("missed"), changes("caught") + changes("timeout")
    alive = listed(ALIVE.read_text())
    alive = collections.Counter({line: times for line, times in alive.items() if line.split(": ")[0] in files})
    wrong, good = judge(missed, caught, alive, FLOOR if files == FILES else 1)
    # 0: all were seen; 2: some survive; 3: some ran for too long.
    if done.returncode not in (0, 2, 3):
        wrong.append(f"cargo-mutants ends with {done.returncode}")
    for line in wrong:
        print("FAIL", line)
    print(f"{len(caught)} changes were seen, {len(missed)} survive, {len(changes('unviable'))} do not compile")
    print(f"{good} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
