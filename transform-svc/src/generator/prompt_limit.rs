//! Prompts that a server cuts to its context without an error, as Ollama (`num_ctx`) and old
//! versions of llama.cpp's server do.
//!
//! The only sign is the number of prompt tokens that the server reports. It is compared with a low
//! estimate from the prompt's characters, and with the counts of earlier calls. Three counts are
//! suspicious: less than half of the tokens to expect; a multiple of 256, as contexts are, that is
//! below them; and the largest count so far, reported for prompts of different lengths. A
//! suspicious call is made again. A server that cuts repeats its count. A server that counts only
//! tokens that its cache lacks reports another one, and its counts are ignored from then on.

use parking_lot::Mutex;

use super::Request;
use crate::words::is_unspaced;

/// No server has a smaller context, and prompts that cannot have more tokens are never cut.
const SMALLEST_CONTEXT: u64 = 256;
/// Contexts are multiples of this number.
const CONTEXT_STEP: u64 = 256;
/// Fewest tokens of a prompt that the server's tokenizer is judged by.
const MIN_SAMPLE: f64 = 64.0;
/// Share of the expected tokens below which a count is suspicious.
const FEW: f64 = 0.5;
/// The same for a count that is a multiple of [`CONTEXT_STEP`].
const FEW_AT_STEP: f64 = 0.9;
/// Factor between the lengths of two prompts that cannot have the same count.
const DIFFERENT: f64 = 1.2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptFinding {
    /// The server has read the whole prompt, or its counts say nothing.
    Whole,
    /// The prompt may be cut: ask again and compare the counts.
    Suspect,
    /// The prompt was cut.
    Cut,
}

/// The counts of one server.
#[derive(Debug, Default)]
pub(super) struct PromptLimit(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Lowest ratio of reported tokens to the fewest possible ones, of prompts that were not cut.
    lowest_ratio: Option<f64>,
    /// The largest count.
    largest: Option<LargestCount>,
    /// Whether repeated counts of one prompt differ.
    is_partial: bool,
    /// Whether the server has cut a prompt.
    has_cut: bool,
}

/// A count with the lengths of the prompts that it was reported for.
#[derive(Debug, Clone, Copy)]
struct LargestCount {
    reported: u64,
    shortest: f64,
    longest: f64,
}

impl PromptLimit {
    /// Compares the tokens that a server reports for a prompt with the prompt. `before`: the count
    /// of an earlier, suspicious call with the same prompt.
    pub(super) fn finding(&self, request: &Request, reported: u64, before: Option<u64>) -> PromptFinding {
        let fewest = request
            .messages
            .iter()
            .map(|message| fewest_tokens(&message.content))
            .sum();
        self.0.lock().finding(fewest, reported, before)
    }
}

impl Counts {
    fn finding(&mut self, fewest: f64, reported: u64, before: Option<u64>) -> PromptFinding {
        if before.is_some_and(|before| before != reported) {
            self.is_partial = true;
        }
        if self.is_partial || reported == 0 {
            return PromptFinding::Whole;
        }
        if !self.is_suspicious(fewest, reported) {
            self.learn(fewest, reported);
            return PromptFinding::Whole;
        }
        self.add_largest(fewest, reported);
        if before.is_some() {
            self.has_cut = true;
        }
        if self.has_cut {
            PromptFinding::Cut
        } else {
            PromptFinding::Suspect
        }
    }

    fn is_suspicious(&self, fewest: f64, reported: u64) -> bool {
        if reported < SMALLEST_CONTEXT || fewest * 2.0 <= SMALLEST_CONTEXT as f64 {
            return false;
        }
        let expected = fewest * self.lowest_ratio.unwrap_or(1.0).max(1.0);
        let count = reported as f64;
        let is_shared = |largest: LargestCount| {
            largest.reported == reported
                && (fewest > largest.shortest * DIFFERENT || fewest * DIFFERENT < largest.longest)
        };
        count < FEW * expected
            || (reported.is_multiple_of(CONTEXT_STEP) && count < FEW_AT_STEP * expected)
            || self.largest.is_some_and(is_shared)
    }

    fn learn(&mut self, fewest: f64, reported: u64) {
        self.add_largest(fewest, reported);
        if fewest >= MIN_SAMPLE {
            let ratio = reported as f64 / fewest;
            self.lowest_ratio = Some(self.lowest_ratio.map_or(ratio, |lowest| lowest.min(ratio)));
        }
    }

    fn add_largest(&mut self, fewest: f64, reported: u64) {
        match &mut self.largest {
            Some(largest) if largest.reported > reported => {}
            Some(largest) if largest.reported == reported => {
                largest.shortest = largest.shortest.min(fewest);
                largest.longest = largest.longest.max(fewest);
            }
            largest => {
                *largest = Some(LargestCount {
                    reported,
                    shortest: fewest,
                    longest: fewest,
                });
            }
        }
    }
}

/// A low estimate of the tokens of a text: one for five characters, or for two in Han and kana.
fn fewest_tokens(text: &str) -> f64 {
    let rate = |c: char| match c {
        '\u{3040}'.. if is_unspaced(c) => 0.5,
        _ => 0.2,
    };
    text.chars().map(rate).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::{Message, Role};

    /// The findings for prompts of so many English words, of which the server reads what `read`
    /// says of their tokens, each asked again while it is suspicious.
    fn findings(words: &[usize], mut read: impl FnMut(u64) -> u64) -> Vec<PromptFinding> {
        let limit = PromptLimit::default();
        let mut findings = Vec::new();
        for words in words {
            let request = Request {
                messages: vec![Message {
                    role: Role::User,
                    content: "word ".repeat(*words),
                }],
                temperature: 0.0,
                top_p: 1.0,
                top_k: None,
                max_tokens: 64,
                seed: 1,
                is_one_text: false,
            };
            let first = read(*words as u64);
            let mut finding = limit.finding(&request, first, None);
            if finding == PromptFinding::Suspect {
                finding = limit.finding(&request, read(*words as u64), Some(first));
            }
            findings.push(finding);
        }
        findings
    }

    fn cut(words: &[usize], read: impl FnMut(u64) -> u64) -> Vec<usize> {
        let findings = findings(words, read);
        let cut = words
            .iter()
            .zip(findings)
            .filter(|(_, finding)| *finding == PromptFinding::Cut);
        cut.map(|(words, _)| *words).collect()
    }

    const MIXED: [usize; 8] = [90, 300, 2900, 120, 3500, 200, 4000, 5900];

    #[test]
    fn a_prompt_that_fills_a_context_is_cut() {
        // Ollama, with a template of 20 tokens.
        for context in [512, 2048] {
            let expected: Vec<usize> = MIXED.iter().copied().filter(|words| *words > context).collect();
            assert_eq!(cut(&MIXED, |tokens| (tokens + 20).min(context as u64)), expected);
        }
        // All prompts are long.
        assert_eq!(cut(&[3000, 6000], |tokens| tokens.min(2048)), [3000, 6000]);
        // A context that is not a multiple of 256, from the second long prompt on.
        assert_eq!(cut(&MIXED, |tokens| tokens.min(2000)), [3500, 4000, 5900]);
    }

    #[test]
    fn a_prompt_of_which_half_is_dropped_is_cut() {
        // Old versions of llama.cpp's server drop blocks of half a context.
        let halved = |tokens: u64| {
            let mut left = tokens;
            while left >= 2048 {
                left -= 1024;
            }
            left
        };
        // Of 2900 tokens the server reads 1876, which is not suspicious.
        assert_eq!(cut(&MIXED, halved), [3500, 4000, 5900]);
    }

    #[test]
    fn other_tokenizers_and_ways_of_counting_are_not_cuts() {
        let more: [fn(u64) -> u64; 5] = [
            |tokens| tokens * 14 / 10 + 40,
            |tokens| tokens * 11 / 10,
            // No count, and a count that is none.
            |_| 0,
            |_| 11,
            |_| 200,
        ];
        for (number, read) in more.into_iter().enumerate() {
            assert_eq!(cut(&MIXED, read), Vec::<usize>::new(), "{number}");
        }
        // A server that counts only tokens that are not in its cache: half of a prompt the first
        // time, and none of a repeated one.
        let mut seen = Vec::new();
        let partial = |tokens: u64| {
            let is_new = !seen.contains(&tokens);
            seen.push(tokens);
            if is_new { tokens * 4 / 10 } else { 1 }
        };
        assert_eq!(cut(&MIXED, partial), Vec::<usize>::new());
    }
}
