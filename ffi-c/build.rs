//! How the shared library is linked.

/// Number of the binary interface; also `QUORLOCK_ABI_VERSION`.
const ABI: &str = "0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=QUORLOCK_ABI={ABI}");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if target == "linux" {
        let argument = |argument: &str| println!("cargo::rustc-cdylib-link-arg={argument}");
        argument(&format!("-Wl,-soname,libquorlock.so.{ABI}"));
        // Its threads and thread-local destructors would outlive a dlclose.
        argument("-Wl,-z,nodelete");
    }
    if target == "macos" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libquorlock.{ABI}.dylib");
    }
}
