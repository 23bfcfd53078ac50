//! The section on variants of encoders in reports: vectors in a stored form, and prompts in other
//! words. Each row stands beside the encoder as it is.

use minijinja::{Value, context};

use super::{
    EncoderInfo, Report,
    format::{count, percent, points, signed},
};
use crate::{
    profile::EncoderProfile,
    stats::{mean, sample_sd, special::student_quantile},
};

pub(super) const LEGEND: &str = "Each variant is scored like another encoder: its vectors as an index stores them, another search, \
                                 or with its prompts in other words. Original: mean score of the original texts. Change: rewritten less original. \
                                 More: the difference from the encoder itself, in points. First 10 in common: share of the first 10 \
                                 documents of the encoder's search that are among the variant's first 10, on the original queries.";
pub(super) const HEAD: [&str; 8] = [
    "Encoder",
    "Variant",
    "Bytes a vector",
    "Original",
    "More",
    "Change",
    "More",
    "First 10 in common",
];

type Row<'a> = (&'a EncoderInfo, &'a EncoderProfile);

/// Each encoder that has variants, with its variants.
fn families(report: &Report) -> Vec<(Row<'_>, Vec<Row<'_>>)> {
    let all = || report.encoders.iter().zip(&report.profile.encoders);
    let of = |encoder: Row<'_>| -> Vec<Row<'_>> {
        let is_own = |(info, _): &Row<'_>| info.variant.as_ref().is_some_and(|one| one.encoder == encoder.0.id);
        all().filter(is_own).collect()
    };
    let families = all().map(|encoder| (encoder, of(encoder)));
    families.filter(|(_, own)| !own.is_empty()).collect()
}

/// A row for each encoder that has variants, followed by theirs.
pub(super) fn rows(report: &Report) -> Vec<Vec<String>> {
    let families = families(report).into_iter();
    let rows = families.flat_map(|(encoder, own)| {
        let all = [encoder].into_iter().chain(own);
        all.map(move |one| row(one, encoder.1)).collect::<Vec<_>>()
    });
    rows.collect()
}

fn row((info, own): Row<'_>, encoder: &EncoderProfile) -> Vec<String> {
    let dash = || "–".to_owned();
    let more = |value: f64| info.variant.as_ref().map_or_else(dash, |_| signed(value));
    let change = |profile: &EncoderProfile| profile.total.as_ref().map(|total| total.delta);
    let (id, name) = match &info.variant {
        None => (&info.id, "itself".to_owned()),
        Some(one) => {
            let prompts = one.prompts.as_ref().map(|name| format!("prompts: {name}"));
            (&one.encoder, prompts.or_else(|| one.form.clone()).unwrap_or_default())
        }
    };
    let variant = info.variant.as_ref();
    vec![
        id.clone(),
        name,
        match variant.map_or(info.dimensions.saturating_mul(4), |one| one.bytes) {
            // A search by terms has no vector.
            0 => dash(),
            bytes => count(bytes as usize),
        },
        points(own.original),
        more(own.original - encoder.original),
        change(own).map_or_else(dash, signed),
        change(own)
            .zip(change(encoder))
            .map_or_else(dash, |(own, plain)| more(own - plain)),
        variant.and_then(|one| one.overlap).map_or_else(dash, percent),
    ]
}

/// The values of the template; `None` without variants.
pub(super) fn view(report: &Report) -> Option<Value> {
    let rows = rows(report);
    (!rows.is_empty()).then(|| context! { legend => LEGEND, head => HEAD, rows })
}

/// The scores of each encoder over its prompts, and the encoders that some choice puts first.
pub(super) fn findings(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut spans: Vec<(&str, f64, f64)> = Vec::new();
    let plain = report.encoders.iter().zip(&report.profile.encoders);
    for (info, own) in plain.filter(|(info, _)| info.variant.is_none()) {
        let by_prompts = report
            .encoders
            .iter()
            .zip(&report.profile.encoders)
            .filter(|(other, _)| {
                let variant = other.variant.as_ref();
                variant.is_some_and(|one| one.encoder == info.id && one.prompts.is_some())
            });
        let scores: Vec<f64> = [own.original]
            .into_iter()
            .chain(by_prompts.map(|(_, own)| own.original))
            .collect();
        let low = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        spans.push((&info.id, low, high));
        if let (Some(mean), Some(sd), true) = (mean(&scores), sample_sd(&scores), low < high) {
            let n = scores.len() as f64;
            let half = student_quantile(0.975, n - 1.0) * sd / n.sqrt();
            sentences.push(format!(
                "Over {} choices of prompts, {} scores {} to {} on the original texts, {} on average (95 % interval over prompts {} to {}).",
                scores.len(),
                info.id,
                points(low),
                points(high),
                points(mean),
                points(mean - half),
                points(mean + half)
            ));
        }
    }
    if !sentences.is_empty() {
        let is_first = |(id, _, high): &(&str, f64, f64)| spans.iter().all(|(other, low, _)| other == id || high > low);
        let first: Vec<&str> = spans.iter().filter(|one| is_first(one)).map(|one| one.0).collect();
        if first.len() > 1 {
            sentences.push(format!(
                "The choice of prompts decides which encoder is first on the original texts: it can be {}.",
                first.join(" or ")
            ));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VariantInfo;

    #[test]
    fn prompts_can_put_another_encoder_first() {
        let mut report = crate::read(&std::fs::read("../../eval-svc/fixtures/report/report.json").unwrap()).unwrap();
        assert!(findings(&report).is_empty() && rows(&report).is_empty());
        // Two encoders, and a prompt of the second that scores above the first.
        report.encoders.truncate(3);
        report.profile.encoders.truncate(3);
        let second = report.encoders[1].id.clone();
        report.encoders[2].variant = Some(VariantInfo {
            encoder: second.clone(),
            form: None,
            prompts: Some("typos".to_owned()),
            bytes: 1536,
            overlap: None,
        });
        for (profile, score) in report.profile.encoders.iter_mut().zip([80.0, 78.0, 82.0]) {
            profile.original = score;
        }
        let said = findings(&report);
        // Mean 80, deviation √8, t of one degree of freedom 12.706: 80 ± 25.4.
        assert_eq!(said.len(), 2);
        assert!(
            said[0].contains("scores 78.0 to 82.0") && said[0].contains("54.6 to 105.4"),
            "{}",
            said[0]
        );
        let first = &report.encoders[0].id;
        assert!(
            said[1].ends_with(&format!("it can be {first} or {second}.")),
            "{}",
            said[1]
        );
        report.profile.encoders[2].original = 79.0;
        assert_eq!(findings(&report).len(), 1, "the first encoder stays first");
        let rows = rows(&report);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1][1..5], ["prompts: typos", "1,536", "79.0", "+1.0"]);
    }
}
