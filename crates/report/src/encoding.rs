//! How texts were encoded: prompts that they got, and texts that were cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EncoderInfo, Report, format::percent};
use crate::terms::{CutCount, Part, PromptSource};

/// A prompt that texts got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptUse {
    /// Part that the texts play.
    pub part: Part,
    /// Where it comes from.
    pub source: PromptSource,
    /// Its role there, as written.
    pub role: String,
    /// Its text; absent where the encoder names the prompt and does not say its text.
    pub text: Option<String>,
    /// Datasets whose texts got it.
    pub datasets: Vec<String>,
}

/// A prompt that no text got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusedPrompt {
    /// Where it comes from.
    pub source: PromptSource,
    /// Its role there, as written.
    pub role: String,
}

/// Texts of a dataset that an encoder cut at its length (`max_tokens`): what came after is not in
/// their vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TruncationRow {
    /// Encoder id.
    pub encoder: String,
    /// Dataset name.
    pub dataset: String,
    /// Name with parameters; absent for the originals.
    pub transformation: Option<String>,
    /// Whether these are the texts that no transformation changes, e.g. the documents of retrieval.
    pub fixed: bool,
    /// Distinct texts x seeds.
    #[serde(flatten)]
    pub count: CutCount,
}

/// Share of cut texts from which the report mentions them: if every cut text lost its whole score,
/// the mean would move by five points, as much as the drops that a gate is about.
pub(super) const MANY_CUT: f64 = 0.05;

impl Report {
    /// Texts of a transformation (none: the originals) that an encoder cut, over the datasets
    /// named, or all.
    pub fn cut(&self, encoder: &str, dataset: Option<&str>, transformation: Option<&str>) -> CutCount {
        cut(&self.truncation, encoder, dataset, transformation)
    }
}

fn cut(rows: &[TruncationRow], encoder: &str, dataset: Option<&str>, transformation: Option<&str>) -> CutCount {
    let mut count = CutCount::default();
    rows.iter()
        .filter(|row| !row.fixed && row.encoder == encoder && row.transformation.as_deref() == transformation)
        .filter(|row| dataset.is_none_or(|name| row.dataset == name))
        .for_each(|row| count.extend(row.count));
    count
}

/// Sentences about cut texts for the headline: transformations whose texts an encoder cut markedly
/// more often than the originals. Part of their change comes from the encoder's maximum length.
pub(super) fn headline(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    for encoder in report.encoders.iter().filter(|one| one.variant.is_none()) {
        let original = report.cut(&encoder.id, None, None).share();
        let longer: Vec<String> = report
            .suite
            .transformations
            .iter()
            .filter_map(|planned| {
                let share = report.cut(&encoder.id, None, Some(&planned.label)).share()?;
                (share - original? > MANY_CUT).then(|| format!("{} ({})", planned.label, percent(share)))
            })
            .collect();
        if let Some(original) = original.filter(|_| !longer.is_empty()) {
            sentences.push(format!(
                "{} cut more of the transformed texts at its length{} than of the originals ({}): {}. Part of their change is \
                 due to text that it did not read.",
                encoder.id,
                length(encoder),
                percent(original),
                longer.join(", ")
            ));
        }
    }
    sentences
}

/// Notes on prompts and cut texts that a reader needs before trusting a number.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for encoder in report.encoders.iter().filter(|one| one.variant.is_none()) {
        notes.extend(of_prompts(encoder));
        notes.extend(of_truncation(report, encoder));
    }
    notes
}

/// ` of 256 tokens`; empty where the encoder does not give its length.
fn length(encoder: &EncoderInfo) -> String {
    match encoder.max_tokens {
        0 => String::new(),
        tokens => format!(" of {tokens} tokens"),
    }
}

fn of_prompts(encoder: &EncoderInfo) -> Vec<String> {
    let roles = |of: &dyn Fn(PromptSource) -> bool| -> Vec<&str> {
        let unused = encoder.unused_prompts.iter().filter(|one| of(one.source));
        unused.map(|one| one.role.as_str()).collect()
    };
    let mut notes = Vec::new();
    let given = roles(&|source| source != PromptSource::Encoder);
    if !given.is_empty() {
        notes.push(format!(
            "{}: no text gets the prompts given for {}.",
            encoder.id,
            given.join(", ")
        ));
    }
    let own = roles(&|source| source == PromptSource::Encoder);
    if encoder.prompts.is_empty() && !own.is_empty() {
        notes.push(format!(
            "{} has prompts of its own ({}), but not for these tasks: its texts had {}.",
            encoder.id,
            own.join(", "),
            if encoder.prompt.is_empty() {
                "no prompt".to_owned()
            } else {
                format!("the default prompt \"{}\"", encoder.prompt)
            }
        ));
    }
    notes
}

fn of_truncation(report: &Report, encoder: &EncoderInfo) -> Vec<String> {
    let rows = || report.truncation.iter().filter(|row| row.encoder == encoder.id);
    let mut all = CutCount::default();
    rows().for_each(|row| all.extend(row.count));
    let mut notes = Vec::new();
    if all.unknown > 0 {
        notes.push(if all.unknown == all.texts {
            format!("{}: it is not known which texts were cut at its length.", encoder.id)
        } else {
            format!(
                "{}: of {} of {} texts it is not known whether they were cut at its length.",
                encoder.id, all.unknown, all.texts
            )
        });
    }
    let labels = report
        .suite
        .transformations
        .iter()
        .map(|planned| Some(planned.label.as_str()));
    let mut cut: Vec<String> = [None]
        .into_iter()
        .chain(labels)
        .filter_map(|label| {
            let share = report.cut(&encoder.id, None, label).share()?;
            let name = label.unwrap_or("original texts");
            (share > MANY_CUT).then(|| format!("{name} {}", percent(share)))
        })
        .collect();
    let mut fixed = CutCount::default();
    rows().filter(|row| row.fixed).for_each(|row| fixed.extend(row.count));
    if let Some(share) = fixed.share().filter(|share| *share > MANY_CUT) {
        cut.push(format!("texts that are not transformed {}", percent(share)));
    }
    if !cut.is_empty() {
        notes.push(format!(
            "{} cut texts at its length{}: {}. No score covers the rest of these texts.",
            encoder.id,
            length(encoder),
            cut.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_over_datasets_is_known_only_where_each_is() {
        let row = |dataset: &str, transformation: Option<&str>, fixed: bool, cut: &[Option<bool>]| TruncationRow {
            encoder: "e".to_owned(),
            dataset: dataset.to_owned(),
            transformation: transformation.map(str::to_owned),
            fixed,
            count: cut.iter().copied().collect(),
        };
        let rows = [
            row("a", Some("expansion"), false, &[Some(true), Some(true)]),
            row("b", Some("expansion"), false, &[Some(false), None]),
            row("a", None, false, &[Some(false), Some(false)]),
            row("a", None, true, &[Some(true)]),
        ];
        let share = |dataset, transformation| cut(&rows, "e", dataset, transformation).share();
        assert_eq!(share(Some("a"), Some("expansion")), Some(1.0));
        assert_eq!(cut(&rows, "e", Some("a"), Some("expansion")).all_cut(), Some(true));
        assert_eq!(share(None, Some("expansion")), None);
        assert_eq!(share(None, None), Some(0.0));
        assert_eq!(share(None, Some("paraphrase")), None);
    }
}
