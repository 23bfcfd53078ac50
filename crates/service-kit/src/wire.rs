//! HTTP/2 frames and flow control, the same on both ends.
//!
//! Windows are fixed and wide, and hyper's adaptive window stays off. The HTTP/2 library (h2 since
//! 0.4.16) takes many unread small DATA frames for an attack and ends the connection, with every
//! call on it, as ENHANCE_YOUR_CALM. The number it allows grows with the connection's window: with
//! the initial 64 KiB of the adaptive window, some 130 unread messages of a few bytes are enough;
//! with these windows it takes hundreds of thousands.

/// Bytes that one stream may have in flight unread. A stream's reader is at most this far behind
/// its sender.
pub(crate) const STREAM_WINDOW: u32 = 2 << 20;
/// Largest frame that either end takes. A call with a matrix of 61 MB takes 0.18 s with frames of
/// 16 KiB, the default, and 0.15 s with these; larger ones gain nothing. A short message of another
/// stream waits for one frame, which a network of 1 Gbit/s sends in 2 ms.
pub(crate) const FRAME: u32 = 256 << 10;
/// Bytes that all streams of a network connection may have in flight unread.
pub(crate) const CONNECTION_WINDOW: u32 = 64 << 20;
/// The same for a channel in memory, which a whole process shares: the largest window that HTTP/2
/// allows.
pub(crate) const MEMORY_CONNECTION_WINDOW: u32 = i32::MAX as u32;
