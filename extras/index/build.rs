//! Compiles the used parts of Milvus's messages with protox (no system protoc).

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/milvus.proto");
    let descriptors = protox::compile(["milvus.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
