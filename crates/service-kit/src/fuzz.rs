//! Entry points for the fuzz targets of `tests/fuzz` to readers that are private to this crate. Not
//! part of the crate's interface.

pub use crate::{
    connect::fuzz::{connect_frames, json_of_proto, proto_of_json},
    layers::fuzz::{decoded_size, pack, unpack},
};
