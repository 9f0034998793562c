#!/bin/sh
# Installs what `cargo packages --release` has made: libraries, headers, pkg-config and CMake files.
#
#   PREFIX=/usr/local [LIBDIR=$PREFIX/lib] [INCLUDEDIR=$PREFIX/include] [DESTDIR=] [BUILT=target/release] ffi-c/install.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
INCLUDEDIR=${INCLUDEDIR:-$PREFIX/include}
DESTDIR=${DESTDIR:-}
BUILT=${BUILT:-${CARGO_TARGET_DIR:-$root/target}/release}
for path in "$PREFIX" "$LIBDIR" "$INCLUDEDIR"; do
    case $path in
    /*) ;;
    *) echo "$path: give absolute paths" >&2; exit 2 ;;
    esac
done
# On macOS a library has another ending, and its version before it.
if [ -f "$BUILT/libquorlock.dylib" ]; then
    built=libquorlock.dylib
    called() { echo "libquorlock.$1.dylib"; }
else
    built=libquorlock.so
    called() { echo "libquorlock.so.$1"; }
fi
for file in "$built" libquorlock.a; do
    if [ ! -f "$BUILT/$file" ]; then
        echo "there is no $BUILT/$file: run cargo packages --release first" >&2
        exit 1
    fi
done

version=$(sed -n 's/^#define QUORLOCK_VERSION "\(.*\)"$/\1/p' "$root/include/quorlock.h")
abi=$(sed -n 's/^#define QUORLOCK_ABI_VERSION //p' "$root/include/quorlock.h")
# What `rustc --print native-static-libs` says for this library, but for -lgcc_s: compilers add the unwinder by
# themselves, and there is no static one of that name, so a program that is wholly static could not be linked.
private="-lutil -lrt -lpthread -lm -ldl -lc"
cmake=$(echo "$private" | sed 's/-l//g; s/ /;/g')
if [ "$built" = libquorlock.dylib ]; then
    private="-framework Security -framework CoreFoundation"
    cmake="-framework Security;-framework CoreFoundation"
fi
# The way from one absolute path to another. Neither need be there, so no program tells it on every system.
relative() {
    from=${1%/}/ to=${2%/}/ up=
    while [ "${to#"$from"}" = "$to" ]; do
        from=${from%/}
        from=${from%/*}/
        up=../$up
    done
    way=$up${to#"$from"}
    way=${way%/}
    echo "${way:-.}"
}
# From the directory of the libraries to that of the headers, and from that of the pkg-config file: none holds an absolute path.
from_lib=$(relative "$LIBDIR" "$INCLUDEDIR")
from_pc=$(relative "$LIBDIR/pkgconfig" "$PREFIX")
SHARE=${PREFIX%/}/share/quorlock
supp_from_pc=$(relative "$LIBDIR/pkgconfig" "$SHARE")

fill() {
    sed -e "s|@VERSION@|$version|g" -e "s|@ABI@|$abi|g" -e "s|@LIBS_PRIVATE@|$private|g" -e "s|@LIBS_CMAKE@|$cmake|g" \
        -e "s|@VERSION_MAJOR@|$(echo "$version" | cut -d. -f1)|g" \
        -e "s|@VERSION_MINOR@|$(echo "$version" | cut -d. -f2)|g" \
        -e "s|@INCLUDE_FROM_LIB@|$from_lib|g" -e "s|@PREFIX_FROM_PC@|$from_pc|g" \
        -e "s|@SUPPRESSIONS_FROM_PC@|$supp_from_pc|g" "$here/install/$1.in" >"$2/$1"
    chmod 644 "$2/$1"
}

lib=$DESTDIR$LIBDIR
include=$DESTDIR$INCLUDEDIR
share=$DESTDIR$SHARE
install -d "$lib/pkgconfig" "$lib/cmake/quorlock" "$include" "$share"
# Under another name first: a program that runs keeps the file it has mapped.
file=$(called "$version") short=$(called "$abi")
install -m 755 "$BUILT/$built" "$lib/$file.new"
mv -f "$lib/$file.new" "$lib/$file"
ln -sf "$file" "$lib/$short"
ln -sf "$short" "$lib/$built"
install -m 644 "$BUILT/libquorlock.a" "$lib/libquorlock.a"
install -m 644 "$root/include/quorlock.h" "$root/include/quorlock.hpp" "$include"
fill quorlock.pc "$lib/pkgconfig"
fill quorlock-config.cmake "$lib/cmake/quorlock"
fill quorlock-config-version.cmake "$lib/cmake/quorlock"
# What is no fault of the library, for those who run their programs under checkers.
install -m 644 "$here/install/valgrind.supp" "$here/install/tsan.supp" "$share"
