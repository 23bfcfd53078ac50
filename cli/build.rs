//! Strips names of functions from a release build. The profile says so too, but cargo 1.95 forgets
//! `strip` for a package with an `opt-level` of its own.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value| var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("DEBUG", "false") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
