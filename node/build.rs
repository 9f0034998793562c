//! Linker settings of an addon.

fn main() {
    napi_build::setup();
    // The I/O thread outlives any one environment: when the last worker that
    // loaded the addon ends, its code must stay.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
    }
}
