//! The separation section of a report: an encoder that ignores meaning looks robust until its
//! treatment of changes of meaning is compared with that of rewrites.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Report,
    format::{percent, share},
};
use crate::terms::{Kind, Stratum};

/// How often each encoder distinguishes a rewrite of a text from a change of its meaning. A
/// comparison takes a text, its rewrite and a copy of the text with another meaning; it is
/// separated if the rewrite is nearer to the text than to the copy, by cosine and by more than
/// `resolution`. Chance is 0.5; an encoder that sees no difference has 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeparationReport {
    /// How meaning was changed.
    pub kinds: Vec<Kind>,
    /// Seed of all draws: the run's first.
    pub seed: u64,
    /// Maximum number of texts per data set.
    pub texts_per_dataset: u64,
    /// Texts with more words are left out.
    pub most_words: u64,
    /// Cosines that differ by no more are a tie, which is not separated.
    pub resolution: f64,
    /// Transformations whose rewrites count in all rows but those of `transformations` and `cells`:
    /// those that stay in the text's language (words and style, length).
    pub transformations: Vec<String>,
    /// How many of the texts drawn have a changed copy of each kind.
    pub coverage: Vec<SeparationCoverage>,
    /// One per encoder.
    pub encoders: Vec<EncoderSeparation>,
}

/// Texts of a data set with a changed copy of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeparationCoverage {
    /// Dataset name.
    pub dataset: String,
    /// Kind of change.
    pub kind: Kind,
    /// Number of texts with a copy of this kind.
    pub texts: u64,
    /// Requests to the transform service; absent for kinds that are made by rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<CopyCounts>,
}

/// Outcome of the texts that the transform service was asked to change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyCounts {
    /// Texts that it was asked to change.
    pub asked: u64,
    /// Of these, texts that it could not change: they have no copy of the kind.
    pub failed: u64,
    /// Checks that fired on the failed texts, e.g. `too_few`, with the number of texts.
    pub failed_checks: BTreeMap<String, u64>,
    /// Why the first of them failed, where the service said so; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Copies left out because they equal the text or another copy of it but for case, marks and
    /// white space.
    pub equal: u64,
    /// Copies left out because fewer than half of the words are those of the text.
    pub unlike: u64,
    /// Copies that are compared.
    pub copies: u64,
}

/// How well one encoder separates rewrites from copies with another meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EncoderSeparation {
    /// Encoder id.
    pub encoder: String,
    /// Over all kinds, data sets and the transformations that count.
    pub overall: SeparationRow,
    /// Of each kind.
    pub kinds: Vec<SeparationRow>,
    /// By word overlap: only where the change keeps fewer words of the rewrite could counting words
    /// separate.
    pub strata: Vec<SeparationRow>,
    /// Of each data set.
    pub datasets: Vec<SeparationRow>,
    /// Of each transformation that keeps the meaning, translations included.
    pub transformations: Vec<SeparationRow>,
    /// Of each kind under each of these transformations.
    pub cells: Vec<SeparationRow>,
}

/// Results of comparisons. A text counts once: its share is the mean over its kinds of the mean
/// over their transformations of the mean over the rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeparationRow {
    /// Of this kind of change only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Of this transformation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transformation: Option<String>,
    /// Of this data set only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Of this stratum of word overlap only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stratum: Option<Stratum>,
    /// Distinct texts.
    pub texts: u64,
    /// Number of comparisons behind the share.
    pub comparisons: u64,
    /// Share of the texts that are separated; absent without texts.
    pub separation: Option<f64>,
    /// Texts of which one comparison, drawn by content, is separated: what the bounds rest on.
    pub drawn_separated: u64,
    /// Lower end of the two-sided Clopper-Pearson interval at 95 % over texts.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Comparisons whose cosines are equal within `resolution`; not separated.
    pub tied: u64,
    /// Comparisons without a cosine (a vector of length 0); not separated.
    pub undefined: u64,
    /// Comparisons left out, and in none of the other counts, because the encoder cut one of the
    /// texts at its length.
    #[serde(default)]
    pub cut: u64,
    /// Mean of cos(rewrite, text) - cos(rewrite, copy) in parallel gaps: mean cosine of texts with
    /// their rewrites less that with the rewrites of other texts. Absent if the gap cannot be
    /// distinguished from 0.
    pub margin: Option<f64>,
    /// Share that word overlap (Jaccard) alone would separate.
    pub overlap_alone: Option<f64>,
    /// Share of cos(text, rewrite) > cos(text, copy): the rewording moves the text by less than the
    /// one edit does. It is below 0.5 for the majority of encoders, since a rewording changes many
    /// words.
    pub nearer_than_change: Option<f64>,
}

impl SeparationRow {
    /// `83.1 %`, or a dash.
    pub fn share_text(&self) -> String {
        self.separation.map_or("–".to_owned(), share)
    }

    /// `[75.0 %, 90.2 %]`, or a dash.
    pub fn interval_text(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("[{}, {}]", share(low), share(high)),
            _ => "–".to_owned(),
        }
    }

    /// Scope of the row, in words.
    pub fn of_text(&self) -> String {
        let kind = self.kind.map(|kind| kind.title().to_owned());
        let stratum = self.stratum.map(|stratum| format!("Word overlap: {}", stratum.title()));
        let parts = [kind, stratum, self.transformation.clone(), self.dataset.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            "All".to_owned()
        } else {
            parts.join(", ")
        }
    }
}

impl SeparationReport {
    /// Requests to the transform service, one sentence for each kind; empty if all copies are made
    /// by rule.
    pub fn asked_sentences(&self) -> Vec<String> {
        let of_kind = |kind: &Kind| {
            let own = self.coverage.iter().filter(|one| one.kind == *kind);
            let mut sum = CopyCounts::default();
            for one in own.filter_map(|one| one.asked.as_ref()) {
                sum.extend(one);
            }
            (sum.asked > 0).then(|| format!("{}: {}.", kind.title(), sum.text()))
        };
        self.kinds.iter().filter_map(of_kind).collect()
    }
}

impl CopyCounts {
    /// Adds the counts of another.
    fn extend(&mut self, other: &Self) {
        self.asked += other.asked;
        self.failed += other.failed;
        self.equal += other.equal;
        self.unlike += other.unlike;
        self.copies += other.copies;
        for (check, n) in &other.failed_checks {
            *self.failed_checks.entry(check.clone()).or_default() += n;
        }
        if self.error.is_empty() {
            self.error.clone_from(&other.error);
        }
    }

    fn text(&self) -> String {
        let mut parts = vec![format!(
            "asked for {} texts, which gave {} copies",
            self.asked, self.copies
        )];
        if self.failed > 0 {
            let checks: Vec<String> = self
                .failed_checks
                .iter()
                .map(|(check, n)| format!("{check} {n}"))
                .collect();
            let why = match (checks.is_empty(), self.error.is_empty()) {
                (false, true) => format!(" ({})", checks.join(", ")),
                (false, false) => format!(" ({}; first: {})", checks.join(", "), self.error),
                (true, false) => format!(" (first: {})", self.error),
                (true, true) => String::new(),
            };
            parts.push(format!("{} texts failed and have none{why}", self.failed));
        }
        for (n, why) in [
            (self.equal, "equal the text or another copy"),
            (self.unlike, "keep fewer than half of the words"),
        ] {
            if n > 0 {
                parts.push(format!("{n} copies are left out because they {why}"));
            }
        }
        parts.join("; ")
    }
}

impl EncoderSeparation {
    /// All rows that a reader sees, the whole first.
    pub fn rows(&self) -> impl Iterator<Item = &SeparationRow> {
        let first = std::iter::once(&self.overall).chain(&self.kinds);
        let known = self.strata.iter().chain(&self.transformations);
        first.chain(known.filter(|row| row.texts > 0))
    }

    /// Meaning of an encoder's separation, in a sentence.
    pub fn sentence(&self) -> String {
        let (name, row) = (&self.encoder, &self.overall);
        let cut = match row.cut {
            0 => String::new(),
            n => format!(" {n} comparisons are left out because the encoder cut one of the texts at its length."),
        };
        let (Some(share), Some(low), Some(high)) = (row.separation, row.low, row.high) else {
            let cause = match row.cut {
                0 => {
                    "no text has both a changed copy and a rewrite in its own language that differs in more than one word."
                }
                _ => "nothing was compared.",
            };
            return format!("{name}: separation could not be measured: {cause}{cut}");
        };
        let sentence_text = format!(
            "{name} separates {} of {} texts from a change of meaning (95 % interval {} to {}; chance is 50 %)",
            percent(share),
            row.texts,
            percent(low),
            percent(high)
        );
        let undefined = match row.undefined {
            0 => String::new(),
            n => format!(" {n} comparisons have no cosine and count as not separated."),
        };
        let judged = if high <= 0.5 {
            ": it is blind to these changes, so stable scores say nothing about robustness."
        } else if low > 0.5 {
            "."
        } else {
            ": that cannot be distinguished from chance."
        };
        format!("{sentence_text}{judged}{undefined}{cut}")
    }
}

impl Report {
    /// Separation of an encoder, where it was measured.
    pub fn separation_of(&self, encoder: &str) -> Option<&EncoderSeparation> {
        let mut all = self.separation.iter().flat_map(|one| &one.encoders);
        all.find(|one| one.encoder == encoder)
    }
}
