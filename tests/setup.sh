#!/usr/bin/env bash
# Installs what `make demo`, `make test`, `make gate` or `make full` needs and this machine lacks, and says what:
# tests/setup.sh demo|test|gate|full|redisson|dist|windows|site
#
# The Makefile runs it before anything is built. On Debian (and Ubuntu) as root it installs packages; elsewhere it installs
# nothing, names everything that is missing, and ends with status 2. cargo, python3 and node are the reader's own: which
# version of them to have is no decision of ours, so one that is too old is named, too.
set -euo pipefail
shopt -s inherit_errexit
what=${1:?demo, test, gate, full, redisson, dist, windows or site}

declare -a packages=() others=()
# Whether Debian may start what it installs is asked of this program, where it exists.
policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}

need() { # command, Debian's package
    command -v "$1" >/dev/null 2>&1 || packages+=("$2")
}

# Whether a version is at least another, by their numbers.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

own() { # command, the oldest that will do, where to get it, what it says its version to
    local version
    if ! command -v "$1" >/dev/null 2>&1; then
        others+=("$1 $2 or later: $3")
        return
    fi
    version=$("$1" "${4:---version}" 2>&1 | sed -n 's/^[^0-9]*\([0-9][0-9.]*\).*/\1/p' | head -n 1)
    at_least "${version:-0}" "$2" || others+=("$1 $2 or later (here is ${version:-one that does not say its version}): $3")
}

# Debian splits clang's sanitizers off, into a package that names clang's version.
sanitizes() {
    local out status=0
    out=$(mktemp)
    echo 'int main(void) { return 0; }' | clang -fsanitize=address -x c -o "$out" - >/dev/null 2>&1 || status=$?
    rm -f "$out"
    return "$status"
}
sanitizers() {
    apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p' | head -n 1
}

own cargo 1.88 https://rustup.rs
own python3 3.11 https://www.python.org
own node 20.4 https://nodejs.org
# Other libraries are Go's: go.mod says which one they want.
[ "$what" != full ] && [ "$what" != dist ] || own go 1.26 https://go.dev version
# Compiling for others takes their standard library.
[ "$what" != dist ] && [ "$what" != windows ] || own rustup 1.27 https://rustup.rs

case $what in
gate)
    # The judge of histories that others wrote; any Go since 1.19 builds it.
    need go golang-go
    # TLC is Java's, and comes by Maven.
    need java default-jre-headless
    need mvn maven
    ;;
full | redisson)
    # Redisson is Java's.
    need javac default-jdk-headless
    need mvn maven
    ;;
dist)
    # Trees of other Debians, programs of another processor, and what Debian says of a package.
    need debootstrap debootstrap
    need qemu-aarch64-static qemu-user-static
    need lintian lintian
    ;;
site)
    need chromium chromium
    ;;
windows)
    need x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
    command -v wine64 >/dev/null 2>&1 || [ -x /usr/lib/wine/wine64 ] || packages+=(wine64)
    ;;
esac

need make make
need cc gcc
need g++ g++
need redis-server redis-server
need openssl openssl
need ps procps
need readelf binutils
need npm npm
# Debian splits venv off, too: the module is there, what it needs to work is not.
python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || packages+=(python3-venv)
runtime=
if [ "$what" != demo ]; then
    need clang clang
    need valgrind valgrind
    need cmake cmake
    need pkg-config pkg-config
    need promtool prometheus
    need ip iproute2
    # Not commands, but headers: of the loops that examples run on.
    echo '#include <uv.h>' | cc -E -x c - >/dev/null 2>&1 || packages+=(libuv1-dev)
    echo '#include <asio/version.hpp>' | c++ -E -x c++ - >/dev/null 2>&1 || packages+=(libasio-dev)
    sanitizes || runtime=missing
    for component in fmt clippy; do
        command -v cargo >/dev/null 2>&1 || break
        cargo "$component" --version >/dev/null 2>&1 && continue
        if command -v rustup >/dev/null 2>&1; then
            echo "setup: rustup component add ${component/fmt/rustfmt}"
            rustup component add "${component/fmt/rustfmt}"
        elif [ "$component" = fmt ]; then packages+=(rustfmt); else packages+=(rust-clippy); fi
    done
fi

# Python's own tests of locks are among the suites of peers.
if [ "$what" = full ] && ! python3 -c 'import test.lock_tests' >/dev/null 2>&1; then
    packages+=("libpython$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite")
fi

if [ "${#packages[@]}" -gt 0 ] || [ -n "$runtime" ]; then
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" -eq 0 ] && [ "${#others[@]}" -eq 0 ]; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        [ -z "$runtime" ] || packages+=("$(sanitizers)")
        echo "setup: installing ${packages[*]}"
        # Tests start servers of their own, and of Prometheus need a program alone.
        if [ ! -e "$policy" ] && [ -w "${policy%/*}" ]; then
            trap 'rm -f "$policy"' EXIT
            printf '#!/bin/sh\nexit 101\n' >"$policy"
            chmod 755 "$policy"
        fi
        apt-get install -q -y --no-install-recommends "${packages[@]}" </dev/null
    else
        [ "${#packages[@]}" -eq 0 ] || others+=("what Debian has as: apt-get install ${packages[*]}")
        [ -z "$runtime" ] || others+=("the sanitizers of clang, on Debian libclang-rt-VERSION-dev")
    fi
fi

if [ "${#others[@]}" -gt 0 ]; then
    echo "setup: \`make $what\` needs what this machine lacks. Please install" >&2
    printf '  %s\n' "${others[@]}" >&2
    exit 2
fi
