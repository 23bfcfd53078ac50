//! HTTP/2 frames and flow control, the same at both ends.
//!
//! Windows are fixed and wide, and hyper's adaptive window stays off. The HTTP/2 library (h2 since
//! 0.4.16) treats many unread small DATA frames as an attack and ends the connection, with every
//! call on it, as ENHANCE_YOUR_CALM. The permitted number grows with the connection's window. With
//! the initial 64 KiB of the adaptive window, some 130 unread messages of a few bytes exceed it;
//! with these windows it takes hundreds of thousands.

/// Unread bytes that one stream may have in flight. A stream's reader is at most this far behind
/// its sender.
pub(crate) const STREAM_WINDOW: u32 = 2 << 20;
/// Largest frame that either end accepts. A call with a matrix of 61 MB takes 0.18 s with frames of
/// 16 KiB, the default, and 0.15 s with these; larger frames gain nothing. A short message of
/// another stream waits for one frame, which a network of 1 Gbit/s sends in 2 ms.
pub(crate) const FRAME: u32 = 256 << 10;
/// Unread bytes that all streams of a network connection may have in flight.
pub(crate) const CONNECTION_WINDOW: u32 = 64 << 20;
/// The connection window of a channel in memory, which a whole process shares. It is the largest
/// window that HTTP/2 allows.
pub(crate) const MEMORY_CONNECTION_WINDOW: u32 = i32::MAX as u32;
