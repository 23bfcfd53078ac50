//! The caller's deadline.

use std::time::{Duration, Instant};

use tonic::metadata::MetadataMap;

/// Reads `grpc-timeout` (gRPC over HTTP/2: at most eight digits and a unit). An invalid value
/// counts as no deadline.
pub(super) fn of(metadata: &MetadataMap, now: Instant) -> Option<Instant> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    let timeout = match unit {
        'H' => Duration::from_secs(amount * 3600),
        'M' => Duration::from_secs(amount * 60),
        'S' => Duration::from_secs(amount),
        'm' => Duration::from_millis(amount),
        'u' => Duration::from_micros(amount),
        'n' => Duration::from_nanos(amount),
        _ => return None,
    };
    now.checked_add(timeout)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn every_unit_is_read_and_nonsense_is_no_deadline() {
        let now = Instant::now();
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            of(&metadata, now).map(|deadline| deadline - now)
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("4S"), Some(Duration::from_secs(4)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("7u"), Some(Duration::from_micros(7)));
        assert_eq!(read("9n"), Some(Duration::from_nanos(9)));
        for nonsense in ["", "S", "1", "-1S", "123456789S", "1x", "1.5S"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
        assert_eq!(of(&MetadataMap::new(), now), None);
    }
}
