//! The growing answer: bytes, stop strings, valid UTF-8 at the end.

/// Collects token bytes until a stop string occurs.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    stops: Vec<String>,
}

impl Output {
    pub(crate) fn new(stops: Vec<String>) -> Self {
        Self {
            bytes: Vec::new(),
            stops,
        }
    }

    /// Adds a token; returns true if a stop string is complete. The text then ends before the
    /// earliest one.
    pub(crate) fn push(&mut self, token: &[u8]) -> bool {
        let known = self.bytes.len();
        self.bytes.extend_from_slice(token);
        let earliest = self
            .stops
            .iter()
            .filter_map(|stop| {
                let stop = stop.as_bytes();
                // A new match must end in the new bytes.
                let from = (known + 1).saturating_sub(stop.len());
                let found = self.bytes[from..].windows(stop.len()).position(|w| w == stop);
                found.map(|at| from + at)
            })
            .min();
        if let Some(at) = earliest {
            self.bytes.truncate(at);
        }
        earliest.is_some()
    }

    /// The text. A character whose bytes have not all been generated is left out; other bytes that
    /// are not UTF-8 become U+FFFD.
    pub(crate) fn into_text(mut self) -> String {
        if let Err(error) = std::str::from_utf8(&self.bytes)
            && error.error_len().is_none()
        {
            self.bytes.truncate(error.valid_up_to());
        } else if let Some(chunk) = self.bytes.utf8_chunks().last() {
            // An incomplete character at the end may follow invalid bytes earlier in the text.
            let invalid = chunk.invalid();
            if !invalid.is_empty() && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none()) {
                self.bytes.truncate(self.bytes.len() - invalid.len());
            }
        }
        String::from_utf8(self.bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(stops: &[&str], tokens: &[&[u8]]) -> (String, bool) {
        let mut output = Output::new(stops.iter().map(|s| (*s).to_owned()).collect());
        let stopped = tokens.iter().any(|token| output.push(token));
        (output.into_text(), stopped)
    }

    #[test]
    fn a_stop_string_over_several_tokens_cuts_the_text_before_it() {
        assert_eq!(collect(&["END"], &[b"one E", b"N", b"D two"]), ("one ".into(), true));
        assert_eq!(collect(&["b", "ab"], &[b"xab"]), ("x".into(), true));
        assert_eq!(collect(&["END"], &[b"EN", b" D"]), ("EN D".into(), false));
    }

    #[test]
    fn characters_split_over_tokens_are_joined_and_unfinished_ones_left_out() {
        let euro = "€".as_bytes();
        assert_eq!(collect(&[], &[&euro[..1], &euro[1..]]).0, "€");
        assert_eq!(collect(&[], &[b"a", &euro[..2]]).0, "a");
        assert_eq!(collect(&[], &[b"a\xFFb", &euro[..2]]).0, "a\u{FFFD}b");
        assert_eq!(collect(&[], &[b"a\xFF"]).0, "a\u{FFFD}");
    }
}
