//! What all calls to servers of others have in common.
//!
//! * [`headers`]: which extra headers may be sent along.

pub mod headers;
