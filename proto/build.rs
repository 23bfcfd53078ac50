//! Compiles the .proto files with protox (no system protoc) and generates clients, servers and the
//! descriptor set.

use std::{env, error::Error, fs, path::PathBuf};

use heck::{ToShoutySnakeCase as _, ToSnakeCase as _, ToUpperCamelCase as _};
use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

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
    let enums = enums(&descriptors);
    fs::write(
        out.join("enums.rs"),
        enums.iter().map(EnumInfo::invocation).collect::<String>(),
    )?;
    let mut builder = tonic_prost_build::configure()
        .generate_default_stubs(true)
        .bytes(".isomer.common.v1.Matrix");
    for one in &enums {
        let unspecified = format!("{}.{}UNSPECIFIED", one.proto, one.prefix);
        builder = builder
            .enum_attribute(&one.proto, "#[cfg_attr(feature = \"clap\", derive(clap::ValueEnum))]")
            .field_attribute(&unspecified, "#[cfg_attr(feature = \"clap\", value(skip))]");
    }
    builder.compile_fds(descriptors)?;
    Ok(())
}

/// An enum of Isomer's protocol.
struct EnumInfo {
    /// Full name, e.g. `.isomer.eval.v1.GateUnit`.
    proto: String,
    /// Path of the generated type.
    rust: String,
    /// Start of the names of its values, e.g. `GATE_UNIT_`.
    prefix: String,
    /// Names of its values without the prefix, e.g. `ITEM`; the unspecified one is left out.
    values: Vec<String>,
}

impl EnumInfo {
    fn new(proto: &str, rust: &str, one: &EnumDescriptorProto) -> Self {
        let prefix = format!("{}_", one.name().to_shouty_snake_case());
        let values = one.value.iter().skip(1);
        Self {
            proto: format!("{proto}.{}", one.name()),
            rust: format!("{rust}::{}", one.name()),
            values: values
                .map(|value| value.name().trim_start_matches(&prefix).to_owned())
                .collect(),
            prefix,
        }
    }

    /// An invocation of the macro of `src/enums.rs`.
    fn invocation(&self) -> String {
        let pairs = self.values.iter().map(|value| {
            let (variant, name) = (value.to_upper_camel_case(), value.to_lowercase());
            let dashed = name.replace('_', "-");
            format!("{variant} = \"{name}\" \"{dashed}\", ")
        });
        format!("proto_enum!({}: {});\n", self.rust, pairs.collect::<String>())
    }
}

/// Isomer's enums, those within messages included.
fn enums(descriptors: &FileDescriptorSet) -> Vec<EnumInfo> {
    let mut found = Vec::new();
    for file in &descriptors.file {
        if let Some(package) = file.package().strip_prefix("isomer.") {
            let (proto, rust) = (
                format!(".{}", file.package()),
                format!("crate::{}", package.replace('.', "::")),
            );
            found.extend(file.enum_type.iter().map(|one| EnumInfo::new(&proto, &rust, one)));
            for message in &file.message_type {
                within(message, &proto, &rust, &mut found);
            }
        }
    }
    found
}

fn within(message: &DescriptorProto, proto: &str, rust: &str, found: &mut Vec<EnumInfo>) {
    let proto = format!("{proto}.{}", message.name());
    let rust = format!("{rust}::{}", message.name().to_snake_case());
    found.extend(message.enum_type.iter().map(|one| EnumInfo::new(&proto, &rust, one)));
    for inner in &message.nested_type {
        within(inner, &proto, &rust, found);
    }
}
