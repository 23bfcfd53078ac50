//! Compiles the .proto files with protox (no system protoc) and generates clients, servers and the
//! descriptor set.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: &[&str] = &[
    "isomer/common/v1/common.proto",
    "isomer/encoder/v1/encoder.proto",
    "isomer/transform/v1/transform.proto",
    "isomer/eval/v1/task.proto",
    "isomer/eval/v1/statistics.proto",
    "isomer/eval/v1/run.proto",
    "isomer/gateway/v1/access.proto",
    "isomer/gateway/v1/provider.proto",
    "tei/v1/tei.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("isomer.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .bytes(".isomer.common.v1.Matrix")
        .compile_fds(descriptors)?;
    Ok(())
}
