#!/bin/sh
# Installs the library in target/c/prefix, where the tests look for it: the one that stands in the folder that is named, or
# one that is built first. An installation that is up to date is left alone, so that no program is compiled anew for nothing.
#
#   ffi-c/build.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
prefix=$target/c/prefix
built=${1:-$target/release}

[ $# -gt 0 ] || cargo packages --release

up_to_date() {
    for library in "$prefix"/lib/libquorlock.so.*.*.*; do
        for source in "$built/libquorlock.so" include/* ffi-c/install.sh ffi-c/install/*; do
            [ "$library" -nt "$source" ] || return 1
        done
    done
}

if ! up_to_date; then
    rm -rf "$prefix"
    PREFIX=$prefix BUILT=$built ffi-c/install.sh
    # `install` keeps no times, but a file moved keeps its own.
    touch "$prefix"/lib/libquorlock.so.*.*.*
fi
