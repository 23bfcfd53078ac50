//! Compiles the GPU kernels of feature `cuda` to machine code for one generation of GPUs, and
//! strips the server as `cli/build.rs` strips the command.

use std::{env, path::PathBuf, process::Command};

const KERNELS: &str = "cuda/kernels.cu";

fn main() {
    println!("cargo::rerun-if-changed={KERNELS}");
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("DEBUG", "false") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    for name in ["NVCC", "CUDA_HOME", "CUDA_COMPUTE_CAP"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let nvcc = env::var("NVCC")
        .or_else(|_| env::var("CUDA_HOME").map(|home| format!("{home}/bin/nvcc")))
        .unwrap_or_else(|_| "nvcc".into());
    let generation = env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| "90".into());
    let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_default()).join("kernels.cubin");
    let done = Command::new(&nvcc)
        .args(["-O3", "-std=c++17", "-cubin"])
        .arg(format!("-arch=sm_{generation}"))
        .arg("-o")
        .arg(&out)
        .arg(KERNELS)
        .status();
    assert!(
        done.as_ref().is_ok_and(std::process::ExitStatus::success),
        "{nvcc} could not compile {KERNELS} ({done:?}); embed-svc/cuda/build fetches a compiler"
    );
}
