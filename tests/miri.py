#!/usr/bin/env python3
"""The unit tests of the core that Miri runs: what decides, what parses replies, and what threads hand to each other.

    tests/miri.py [TEST...]      all of the list, or those whose names have such a part

Miri interprets a program and ends it at undefined behaviour: in the core, in the standard library and in each crate that these tests
reach. It comes with a nightly toolchain of one date, which is installed by rustup where it is missing. First it has to see three
programs that are wrong. Ends with `N passed, M failed`.

What is not in the list, and why. Tests that open sockets, start a thread of ours (`pthread_sigmask`) or ask for the number of the process,
which stands in a page that a fork wipes (`madvise`), call what Miri does not know; so do those of `runtime::callers` and most of
`binding`. The wheel has no tests but its models, which run in loom alone. Those in `LONG` would take Miri minutes: they
read replies of more than 64 KiB, or fill a table of names three times. The list takes one processor under three minutes, with what is compiled for it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = ROOT / "target" / "miri"
TOOLCHAIN = "nightly-2026-07-15"
# Parts of the names of tests. Each must have some.
TESTS = ["protocol::claim::", "protocol::fence::", "protocol::order::", "protocol::quorum::", "protocol::retry::", "redis::resp::", "binding::mailbox::"]
LONG = ["a_long_reply_is_looked_through_once", "a_reply_that_is_too_long_is_told_by_what_it_is", "names_without_number_are_forgotten"]
# Programs that are wrong, and what Miri says of them.
SEEN = {
    "beyond-the-end": ("fn main() { let some = [1u8, 2]; let at = some.as_ptr(); std::process::exit(unsafe { *at.add(some.len()) } as i32) }",
                       "Undefined Behavior"),
    "freed": ("fn main() { let some = Box::into_raw(Box::new(1)); unsafe { drop(Box::from_raw(some)); std::process::exit(*some) } }",
              "Undefined Behavior"),
    "race": ("static mut N: u8 = 0;\nfn main() { let other = std::thread::spawn(|| unsafe { N = 1 }); unsafe { N = 2 }; other.join().unwrap() }",
             "Data race"),
}


def cargo(*words, **options):
    env = dict(os.environ, CARGO_TARGET_DIR=str(TARGET), CARGO_TERM_COLOR="never", PROPTEST_CASES="2",
               # Clocks and random numbers are the machine's.
               MIRIFLAGS="-Zmiri-disable-isolation")
    return subprocess.run(["cargo", f"+{TOOLCHAIN}", "miri", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)


def install():
    """Installs what is missing. Returns why that cannot be; nothing: it is there."""
    if not shutil.which("rustup"):
        return "there is no rustup here, which installs Miri"
    done = subprocess.run(["rustup", "toolchain", "install", TOOLCHAIN, "--profile", "minimal", "--component", "miri,rust-src",
                           "--no-self-update"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    done = cargo("setup") if done.returncode == 0 else done
    return done.stdout.strip()[-500:] if done.returncode else ""


def sees(name):
    """Whether Miri ends a program that is wrong, for what is wrong with it."""
    folder = TARGET / "seen" / name
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "main.rs").write_text(SEEN[name][0] + "\n")
    (folder / "Cargo.toml").write_text(f'[package]\nname = "{name}"\nedition = "2024"\n[workspace]\n')
    done = cargo("run", "--quiet", cwd=folder)
    good = done.returncode != 0 and SEEN[name][1] in done.stdout
    print(f"{'ok  ' if good else 'FAIL'} Miri {'sees' if good else 'does not see'} a program that is wrong: {name}", flush=True)
    return good


def main():
    if why := install():
        print(f"FAIL {why}\n0 passed, 1 failed")
        return 1
    passed = sum(map(sees, SEEN))
    failed, begun = len(SEEN) - passed, time.monotonic()
    names = sys.argv[1:] or TESTS
    skipped = [word for name in LONG for word in ("--skip", name)]
    done = cargo("test", "--no-default-features", "--locked", "-p", "quorlock", "--lib", "--", "--test-threads=1", *names, *skipped, cwd=ROOT)
    ran = re.findall(r"^test (\S+) \.\.\. (\w+)$", done.stdout, re.MULTILINE)
    well = sum(verdict == "ok" for _, verdict in ran)
    for part in names:
        if not any(part in test for test, _ in ran):
            print(f"FAIL no test of the name {part}")
            failed += 1
    if done.returncode:
        print(done.stdout[-6000:])
    passed, failed = passed + well, failed + max(len(ran) - well, done.returncode != 0)
    print(f"{well} tests of the core in {time.monotonic() - begun:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
