//! Noise in texts by rule, as dose and response: nine channels, six doses, any language of the
//! catalogue of data sets. Pure: the result is a function of the arguments alone, the same on every
//! platform and in every version.
//!
//! * [`Channel`]: the kinds of noise. Each channel is one file of `channel/`, which defines its
//!   eligible units and names its sources.
//! * [`Dose`]: the share of eligible units that change.
//! * [`Language`]: the languages, each with its script and its keyboard.
//! * [`apply`]: a text with noise, or the reason why the channel does not apply.
//!
//! # Units and doses
//!
//! A channel divides a text into eligible units (letters, words, gaps …). Each unit has one uniform
//! number, drawn from the seed, the channel, the text and the unit's position. The unit changes if
//! its number is below the dose. A higher dose therefore contains the changes of a lower one, so
//! that a curve over doses has no noise of its own, and the expected share of changed units equals
//! the dose.
//!
//! The text enters the draw, so that one seed changes different positions in different texts and
//! the same positions in equal texts.
//!
//! # Numbers
//!
//! A number (a run of digits or of Chinese numerals) never becomes another number: words with
//! digits, spaces and punctuation beside digits are not eligible, and a truncated text does not end
//! in a number. Numbers that are spelt out in letters are words like others.

mod cells;
mod channel;
mod dose;
mod draft;
mod hangul;
mod keyboard;
mod language;
mod letters;
mod noise;
mod text;

#[cfg(test)]
mod tests;

use unicode_normalization::{UnicodeNormalization, is_nfc};

pub use channel::Channel;
pub use dose::Dose;
pub use language::Language;
pub use noise::NotApplicable;

use draft::Draft;
use text::Text;

/// A text with noise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoisyText {
    /// The text. In NFC if the original is.
    pub text: String,
    /// Units that were changed. 0 if the draw selected none, in which case the text is the
    /// original.
    pub changed: usize,
    /// Eligible units of the original: at least 1.
    pub eligible: usize,
}

/// Whether a channel applies to texts of a language at all.
///
/// # Errors
/// If it does not, with the reason.
pub fn applies(channel: Channel, language: Language) -> Result<(), NotApplicable> {
    channel.noise().refusal(language).map_or(Ok(()), Err)
}

/// A text with the noise of a channel.
///
/// # Errors
/// If the channel does not apply to the language ([`applies`]) or the text has no eligible unit.
pub fn apply(
    channel: Channel,
    text: &str,
    language: Language,
    dose: Dose,
    seed: u64,
) -> Result<NoisyText, NotApplicable> {
    let draft = draft(channel, text, language, dose.share(), seed)?;
    let (changed, eligible) = (draft.changed().len(), draft.eligible());
    let mut noised = draft.finish();
    if changed > 0 && !noised.chars().all(letters::is_stable) && !is_nfc(&noised) && is_nfc(text) {
        noised = noised.nfc().collect();
    }
    Ok(NoisyText {
        text: noised,
        changed,
        eligible,
    })
}

/// As [`apply`] at any share of units.
fn draft(channel: Channel, text: &str, language: Language, share: f64, seed: u64) -> Result<Draft<'_>, NotApplicable> {
    applies(channel, language)?;
    let mut draft = Draft::new(text, channel.name(), share, seed);
    channel.noise().write(&Text::read(text), language, &mut draft);
    match draft.eligible() {
        0 => Err(NotApplicable::NothingEligible),
        _ => Ok(draft),
    }
}
