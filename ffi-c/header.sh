#!/bin/sh
# Makes include/quorlock.h, or with --verify fails if it is not what would be made.
set -eu
cd "$(dirname "$0")/.."
tools=${QUORLOCK_TOOLS:-target/tools}
if [ "$("$tools/bin/cbindgen" --version 2>/dev/null)" != "cbindgen 0.29.4" ]; then
    cargo install --quiet --debug cbindgen --version 0.29.4 --locked --root "$tools"
fi
exec "$tools/bin/cbindgen" --quiet --config ffi-c/cbindgen.toml "$@" --output include/quorlock.h ffi-c
