#!/usr/bin/env bash
# Proves that a first minute works: in a new Debian with make, cargo, python3 and node alone, `make demo` and `make test`.
#
#     tests/fresh.sh [FOLDER [TARGET...]]      default: a folder that is removed again; demo test
#
# By hand, as root, on Debian with debootstrap and a way to the registries; takes as long as the tests and 6 GB. What it runs
# is the last commit. Debian's own cargo is older than we need, so this machine's toolchain is copied. SUITE names the Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${SUITE:-trixie}
place=${1:-}
shift || true
[ "$(id -u)" -eq 0 ] || { echo "fresh.sh: a chroot takes root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh.sh: please install debootstrap" >&2; exit 2; }

if [ -z "$place" ]; then
    place=$(mktemp -d)
    keep=
else
    mkdir -p "$place"
    place=$(realpath "$place")
    keep=yes
fi
leave() {
    umount "$place/dev/pts" "$place/dev/shm" "$place/proc" "$place" 2>/dev/null || true
    # Never through a mount.
    if [ -z "$keep" ] && ! grep -q " $place/" /proc/mounts; then rm -rf --one-file-system "$place"; fi
}
trap leave EXIT
trap 'exit 143' TERM INT

if [ ! -e "$place/etc/debian_version" ]; then
    # ca-certificates: a registry is spoken to by TLS. The rest is what the README asks for.
    debootstrap --variant=minbase --include=ca-certificates,make,python3,nodejs "$suite" "$place"
fi
toolchain=$(rustc --print sysroot)
mkdir -p "$place/opt/rust" "$place/root/quorlock"
cp -a "$toolchain/." "$place/opt/rust/"
cp /etc/resolv.conf "$place/etc/resolv.conf"
# Of a machine whose way out has an authority of its own.
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
cp -L "$certificates" "$place/etc/ssl/certs/here.crt"
git archive HEAD | tar -x -C "$place/root/quorlock"

# A mount of its own, for tests have namespaces of mounts; and terminals.
mount --bind "$place" "$place"
mount -t proc proc "$place/proc"
mount -t tmpfs tmpfs "$place/dev/shm"
mkdir -p "$place/dev/pts"
mount -t devpts -o ptmxmode=0666 devpts "$place/dev/pts"
ln -sf pts/ptmx "$place/dev/ptmx"

targets=("$@")
[ "$#" -gt 0 ] || targets=(demo test)
for target in "${targets[@]}"; do
    echo "fresh.sh: make $target"
    # An empty environment but for the way out: nothing of this machine's settings.
    env -i HOME=/root PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        SSL_CERT_FILE=/etc/ssl/certs/here.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/here.crt PIP_CERT=/etc/ssl/certs/here.crt \
        CARGO_HTTP_CAINFO=/etc/ssl/certs/here.crt \
        chroot "$place" make -C /root/quorlock "$target" </dev/null
done
echo "fresh.sh: ${targets[*]} passed in a new $suite"
