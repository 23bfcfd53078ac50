//! Attacks on the port itself: the server keeps running, its memory stays small, and well-behaved
//! clients are served.

mod bodies;
mod messages;
mod probes;
mod shares;
mod slow;
mod smuggling;
mod unread;

/// Memory of this process, in bytes; 0 if the system does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
