//! Versions.

use std::ffi::c_char;

/// Number of the binary interface that this header describes: the number in the
/// name of the shared library, `libquorlock.so.0`.
pub const QUORLOCK_ABI_VERSION: u32 = 0;

/// Number of the binary interface of the library that is loaded. A program
/// whose #QUORLOCK_ABI_VERSION differs must not go on.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_abi_version() -> u32 {
    QUORLOCK_ABI_VERSION
}

/// Version of the library that is loaded, such as "0.1.0". Compare
/// #QUORLOCK_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
