//! The `.proto` files of Isomer and the code generated from them. No logic lives here but what
//! reads the descriptors.
//!
//! The reference manual is in the `.proto` comments, below `proto/isomer/` and `proto/tei/`.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::doc_lazy_continuation,
    clippy::doc_overindented_list_items,
    clippy::large_enum_variant
)]

/// Shared messages: vector spaces, matrices, accounting, provenance.
pub mod common {
    pub mod v1 {
        tonic::include_proto!("isomer.common.v1");
    }
}

/// The standard interface of an encoder.
pub mod encoder {
    pub mod v1 {
        tonic::include_proto!("isomer.encoder.v1");
    }
}

/// Transformations and augmentation.
pub mod transform {
    pub mod v1 {
        tonic::include_proto!("isomer.transform.v1");

        /// Adds the list of values, and their lower-case names without the prefix.
        macro_rules! named {
            ($kind:ident, $prefix:literal) => {
                impl $kind {
                    /// Every value, in the order of the numbers.
                    pub fn all() -> impl Iterator<Item = Self> {
                        (1..).map_while(|number| Self::try_from(number).ok())
                    }

                    /// Lower-case name, as counted in summaries.
                    pub fn name(self) -> &'static str {
                        Self::name_of(self.into())
                    }

                    /// The name of the value of this number; `unknown` if a newer version sent it.
                    pub fn name_of(number: i32) -> &'static str {
                        static NAMES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
                            let name = |value: $kind| {
                                value
                                    .as_str_name()
                                    .trim_start_matches($prefix)
                                    .to_lowercase()
                            };
                            $kind::all().map(name).collect()
                        });
                        let index = usize::try_from(number)
                            .ok()
                            .and_then(|number| number.checked_sub(1));
                        index
                            .and_then(|index| NAMES.get(index))
                            .map_or("unknown", String::as_str)
                    }
                }
            };
        }
        named!(Check, "CHECK_");
        named!(Guard, "GUARD_");

        impl Transformation {
            /// The transformation of this name (`paraphrase`) with default parameters. A name is
            /// that of a field of the message.
            pub fn named(name: &str) -> Option<Self> {
                use prost::{Message as _, encoding};
                let number = *NUMBERS.get(name)?;
                // That field, set to an empty message.
                let mut wire = Vec::new();
                encoding::encode_key(number, encoding::WireType::LengthDelimited, &mut wire);
                encoding::encode_varint(0, &mut wire);
                Self::decode(&*wire).ok()
            }
        }

        /// Numbers of the fields of `Transformation` by their names. The descriptors are read once.
        static NUMBERS: std::sync::LazyLock<std::collections::HashMap<String, u32>> = std::sync::LazyLock::new(|| {
            use prost::Message as _;
            let set = prost_types::FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).unwrap_or_default();
            let ours = set
                .file
                .into_iter()
                .filter(|file| file.package() == "isomer.transform.v1");
            let mut messages = ours.flat_map(|file| file.message_type);
            let message = messages.find(|message| message.name() == "Transformation");
            let fields = message.into_iter().flat_map(|message| message.field);
            let numbered = |field: prost_types::FieldDescriptorProto| {
                Some((field.name().to_owned(), u32::try_from(field.number()).ok()?))
            };
            fields.filter_map(numbered).collect()
        });
    }
}

/// Tasks, statistics and runs.
pub mod eval {
    pub mod v1 {
        tonic::include_proto!("isomer.eval.v1");
    }
}

/// The gateway's registry.
pub mod gateway {
    pub mod v1 {
        tonic::include_proto!("isomer.gateway.v1");
    }
}

/// text-embeddings-inference's interface, which the gateway speaks to its clients and to providers.
pub mod tei {
    pub mod v1 {
        tonic::include_proto!("tei.v1");
    }
}

/// Encoded `FileDescriptorSet` of every file above, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/isomer.bin"));
