//! The `.proto` files of Isomer and the code generated from them. No logic lives here but what
//! reads the descriptors.
//!
//! The reference manual is in the `.proto` comments, below `proto/isomer/` and `proto/tei/`.
#![warn(missing_docs)]
#![allow(
    unreachable_pub,
    clippy::doc_lazy_continuation,
    clippy::doc_overindented_list_items,
    clippy::large_enum_variant
)]

/// Shared messages: vector spaces, matrices, accounting, provenance.
#[allow(missing_docs)]
pub mod common {
    pub mod v1 {
        tonic::include_proto!("isomer.common.v1");
    }
}

/// The standard interface of an encoder.
#[allow(missing_docs)]
pub mod encoder {
    pub mod v1 {
        tonic::include_proto!("isomer.encoder.v1");
    }
}

/// Transformations and augmentation.
#[allow(missing_docs)]
pub mod transform {
    pub mod v1 {
        tonic::include_proto!("isomer.transform.v1");
    }
}

/// Tasks, statistics and runs.
#[allow(missing_docs)]
pub mod eval {
    pub mod v1 {
        tonic::include_proto!("isomer.eval.v1");
    }
}

/// The gateway's registry.
#[allow(missing_docs)]
pub mod gateway {
    pub mod v1 {
        tonic::include_proto!("isomer.gateway.v1");
    }
}

/// text-embeddings-inference's interface, which the gateway speaks to its clients and to providers.
#[allow(missing_docs)]
pub mod tei {
    pub mod v1 {
        tonic::include_proto!("tei.v1");
    }
}

mod enums;
mod fields;

pub use enums::{ProtoEnum, UnknownValue};

/// Encoded `FileDescriptorSet` of every file above, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/isomer.bin"));
