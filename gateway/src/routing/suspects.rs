//! The texts that a server could not answer.

use std::collections::HashSet;

/// Maximum number of texts remembered.
const MOST: usize = 1024;

/// Texts of requests that a server answered with a failure and has not answered successfully since.
/// A failed batch probably has one bad text, and its other texts are remembered until they pass.
#[derive(Debug, Default)]
pub(super) struct Suspects(HashSet<u64>);

impl Suspects {
    /// Takes the texts of a failed request. Returns whether one of them explains the failure,
    /// because an earlier request with it failed. If not, the texts are remembered.
    pub(super) fn explain(&mut self, texts: &[u64]) -> bool {
        if self.explains(texts) {
            return true;
        }
        let texts = &texts[..texts.len().min(MOST)];
        // If a text is forgotten, one more failure counts against the server.
        if self.0.len() + texts.len() > MOST {
            self.0.clear();
        }
        self.0.extend(texts);
        false
    }

    pub(super) fn explains(&self, texts: &[u64]) -> bool {
        texts.iter().any(|text| self.0.contains(text))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the texts of a successful request.
    pub(super) fn passed(&mut self, texts: &[u64]) {
        for text in texts {
            self.0.remove(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_suspected_until_it_passes() {
        let mut suspects = Suspects::default();
        assert!(!suspects.explain(&[1, 2]));
        assert!(suspects.explain(&[2, 3]), "2 failed before");
        suspects.passed(&[2]);
        assert!(!suspects.explain(&[2, 3]));
        assert!(suspects.explain(&[1]));
    }

    #[test]
    fn a_request_without_texts_explains_nothing() {
        let mut suspects = Suspects::default();
        assert!(!suspects.explain(&[]) && !suspects.explain(&[]));
    }

    #[test]
    fn more_texts_than_it_holds_are_forgotten() {
        let mut suspects = Suspects::default();
        for text in 0..3000 {
            assert!(!suspects.explain(&[text]));
            assert!(suspects.0.len() <= MOST);
        }
        let many: Vec<u64> = (0..3000).collect();
        suspects.explain(&many);
        assert!(suspects.0.len() <= MOST);
    }
}
