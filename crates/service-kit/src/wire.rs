//! HTTP/2 flow control, the same on both ends.
//!
//! Windows are fixed and wide, and hyper's adaptive window stays off. The HTTP/2 library (h2 since
//! 0.4.16) takes many unread small DATA frames for an attack and ends the connection, with every
//! call on it, as ENHANCE_YOUR_CALM. What it allows grows with the connection's window: with the
//! adaptive window's initial 64 KiB, some 130 messages of a few bytes that nobody has read yet are
//! enough; with these windows it takes hundreds of thousands.

/// What one stream may have in flight unread, in bytes. Also what a stream's reader is behind its
/// sender at most.
pub(crate) const STREAM_WINDOW: u32 = 2 << 20;
/// What all streams of a network connection may have in flight unread, in bytes.
pub(crate) const CONNECTION_WINDOW: u32 = 64 << 20;
/// The same for a channel in memory, which a whole process shares: as much as HTTP/2 can say.
pub(crate) const MEMORY_CONNECTION_WINDOW: u32 = i32::MAX as u32;
