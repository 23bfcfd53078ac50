//! The sentences of a report: the findings, and caveats about them.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    CheckRow, JudgeReport, Report, encoding,
    format::{ends, percent, points, signed},
    noise_view, variant_view,
};
use crate::{
    profile::{EncoderProfile, SubsetRow},
    terms::{ChannelDose, Texts, ValidityLimit},
};

/// Maximum number of encoders that the headline describes individually.
const SPOKEN_OF: usize = 3;
/// Minimum share of unchanged texts for a warning.
const MANY_UNCHANGED: f64 = 0.10;
/// Minimum number of datasets for which a two-sided signed-rank test can reach 0.05.
const ENOUGH_DATASETS: usize = 6;

/// The findings, most important first. A score on texts that were not rewritten is not a finding;
/// the report says so instead.
pub fn headline(report: &Report) -> Vec<String> {
    // Variants of encoders have a section of their own.
    let encoders = report.encoders.iter().zip(&report.profile.encoders);
    let encoders = encoders.filter(|(info, _)| info.variant.is_none());
    let mut ranked: Vec<&EncoderProfile> = encoders.map(|(_, own)| own).collect();
    ranked.sort_by(|a, b| total(b).partial_cmp(&total(a)).unwrap_or(Ordering::Equal));
    // The lowest total first: a reader must not miss it.
    let spoken: Vec<&EncoderProfile> = ranked.iter().rev().copied().take(SPOKEN_OF).collect();
    let mut sentences: Vec<String> = spoken.iter().map(|encoder| sentence(report, encoder)).collect();
    if ranked.len() > SPOKEN_OF {
        sentences.push(match ranked.len() - SPOKEN_OF {
            1 => "One more encoder is in the tables.".to_owned(),
            more => format!("{more} more encoders are in the tables."),
        });
    }
    sentences.extend(spoken.iter().filter_map(|encoder| bad_rewrites(report, encoder)));
    sentences.extend(spoken.iter().filter_map(|encoder| noise_view::finding(encoder)));
    if let Some(sentence) = rank_change(&ranked) {
        sentences.push(sentence);
    }
    sentences.extend(variant_view::findings(report));
    sentences.extend(report.judge.as_ref().and_then(JudgeReport::finding));
    sentences.extend(encoding::headline(report));
    sentences
}

/// Contribution of rewrites that the judge does not accept to the change of the total, if it is at
/// least a point.
fn bad_rewrites(report: &Report, encoder: &EncoderProfile) -> Option<String> {
    let accepted = report.subsets.iter().find(|one| one.texts == Texts::Accepted)?;
    let of_total = |row: &&SubsetRow| row.encoder == encoder.encoder && row.of == "total";
    let row = accepted.rows.iter().find(of_total)?;
    let added = row.contribution().filter(|added| added.abs() >= 1.0)?;
    Some(format!(
        "On rewrites that the judge accepts, the total of {} moves by {} points; the others add {}, which is the generator's.",
        encoder.encoder,
        signed(row.chosen?),
        signed(added)
    ))
}

fn total(encoder: &EncoderProfile) -> f64 {
    encoder.total.as_ref().map_or(f64::NEG_INFINITY, |total| total.mean)
}

fn sentence(report: &Report, encoder: &EncoderProfile) -> String {
    let name = &encoder.encoder;
    let unchanged = report.unchanged_share_of_total();
    let limit = report
        .gate
        .as_ref()
        .and_then(|gate| gate.max_unchanged)
        .unwrap_or(ValidityLimit::MaxUnchanged.default_share());
    if let Some(total) = encoder.total.as_ref().filter(|_| unchanged > limit) {
        return format!(
            "Nothing can be said about the robustness of {name}: {} of the texts stayed as they were (it scores {} on the original texts, {} \
             on these).",
            percent(unchanged),
            points(encoder.original),
            points(total.mean)
        );
    }
    let but = match unchanged {
        0.0 => String::new(),
        share => format!(" ({} of the texts stayed as they were)", percent(share)),
    };
    let Some(total) = &encoder.total else {
        let changes = encoder.axes.iter().map(|axis| {
            let sure = axis
                .moved
                .intervals
                .items
                .as_ref()
                .map(|items| format!(", {}", ends(items)));
            format!(
                "{} on the axis {} ({}{})",
                points(axis.moved.mean),
                axis.axis.name(),
                signed(axis.moved.delta),
                sure.unwrap_or_default()
            )
        });
        return format!(
            "{name} scores {} on the original texts and {}; no axis of the total was run.",
            points(encoder.original),
            changes.collect::<Vec<_>>().join(" and ")
        );
    };
    let sure = match &total.intervals.items {
        Some(items) => format!(", {} with other items of these data sets", ends(items)),
        None => String::new(),
    };
    let verb = if total.delta <= -0.05 {
        "falls"
    } else if total.delta >= 0.05 {
        "rises"
    } else {
        return format!(
            "{name} holds its {} points when the texts are transformed ({}{sure}){but}.",
            points(encoder.original),
            signed(total.delta)
        );
    };
    let change = format!(
        "{name} {verb} from {} to {} points ({}{sure}) when the texts are transformed{but}",
        points(encoder.original),
        points(total.mean),
        signed(total.delta)
    );
    let worst = encoder
        .axes
        .iter()
        .filter(|axis| axis.axis.in_total())
        .min_by(|a, b| a.moved.delta.partial_cmp(&b.moved.delta).unwrap_or(Ordering::Equal));
    match worst {
        Some(axis) if encoder.axes.iter().filter(|axis| axis.axis.in_total()).count() > 1 && axis.moved.delta < 0.0 => {
            format!(
                "{change}; most on the axis {} ({}).",
                axis.axis.title(),
                signed(axis.moved.delta)
            )
        }
        _ => format!("{change}."),
    }
}

/// Whether the encoder that is best on the originals is also best under transformation.
fn rank_change(by_total: &[&EncoderProfile]) -> Option<String> {
    let robust = by_total
        .first()
        .filter(|first| by_total.len() > 1 && first.total.is_some())?;
    let best = by_total
        .iter()
        .max_by(|a, b| a.original.partial_cmp(&b.original).unwrap_or(Ordering::Equal))?;
    (best.encoder != robust.encoder).then(|| {
        format!(
            "The order changes: {} leads on the original texts, {} on the transformed ones.",
            best.encoder, robust.encoder
        )
    })
}

/// A caveat about texts or ratings of several versions of a model.
fn of_versions(what: &str, model: &str, versions: &BTreeMap<String, u64>) -> Option<String> {
    if versions.len() < 2 {
        return None;
    }
    let mut counts: Vec<(&String, &u64)> = versions.iter().collect();
    counts.sort_by_key(|(version, count)| (std::cmp::Reverse(**count), *version));
    let counts: Vec<String> = counts
        .iter()
        .map(|(version, count)| format!("{count} of {version}"))
        .collect();
    Some(format!(
        "{model} gave {what} of several versions of its model ({}). on_fingerprint_change = \"regenerate\" requests those \
         of other versions again.",
        counts.join(", ")
    ))
}

/// Caveats about ratings.
fn of_judge(judge: &JudgeReport) -> Vec<String> {
    let mut notes: Vec<String> = of_versions("ratings", &format!("The judge {}", judge.id), &judge.versions)
        .into_iter()
        .collect();
    if !judge.own_texts.is_empty() {
        notes.push(format!(
            "The judge {} is a generator of the texts too ({}): models rate their own words higher (self-preference). Ratings \
             by another model say more.",
            judge.id,
            judge.own_texts.join(", ")
        ));
    }
    if let Some(why) = &judge.inseparable {
        notes.push(format!(
            "The judge {} cannot be relied on: on pairs whose rating is known, {why}. Use another model.",
            judge.id
        ));
    }
    let all = judge.ratings.iter().filter(|row| row.dataset.is_none());
    let (drawn, unreadable, failed) = all.fold((0, 0, 0), |(drawn, unreadable, failed), row| {
        (drawn + row.drawn, unreadable + row.unreadable, failed + row.failed)
    });
    if unreadable + failed > 0 {
        notes.push(format!(
            "The judge gave no rating on {} of {drawn} questions ({unreadable} answers were not ratings, {failed} failed): those \
             pairs are left out of its means and correlations, nothing stands in for them.",
            unreadable + failed
        ));
    }
    notes
}

/// Notes that scores of samples have a sampling error. The data sets' own notes say which data sets
/// are samples.
fn sampled(report: &Report) -> Option<String> {
    let samples = report.datasets.iter().filter(|one| one.sample.is_some()).count();
    let which = match (samples, report.datasets.len()) {
        (1, 1) => "The data set is a sample of its rows.".to_owned(),
        (1, all) => format!("1 of {all} data sets is a sample of its rows."),
        (_, all) => format!("{samples} of {all} data sets are samples of their rows."),
    };
    (samples > 0).then(|| {
        format!("{which} Another sample would have other scores: the 95 % intervals beside the original scores say by how much.")
    })
}

/// Caveats about numbers.
pub fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for planned in &report.suite.transformations {
        let rows = || report.checks.iter().filter(|row| row.transformation == planned.label);
        let texts: u64 = rows().map(|row| row.texts).sum();
        let unchanged: u64 = rows().map(CheckRow::unchanged_texts).sum();
        if texts == 0 || (unchanged as f64 / texts as f64) < MANY_UNCHANGED {
            continue;
        }
        let share = percent(unchanged as f64 / texts as f64);
        let (of, remedy) = match ChannelDose::of(&planned.transformation) {
            // At every dose, the same texts have nothing that could change.
            Some(noise) => (
                format!("noise({})", noise.channel),
                "The channel finds nothing in them that it could change.",
            ),
            None => (planned.label.clone(), "A stronger generator helps."),
        };
        let note = format!(
            "{of}: {share} of the texts stayed as they were. The change on these is not measured: the true change is likely larger. {remedy}"
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    if report.judge.is_none()
        && report
            .suite
            .transformations
            .iter()
            .any(|planned| planned.needs_generator)
    {
        notes.push(
            "Rewrites not rated: no judge was named, so whether the rewrites keep the meaning of the texts is not known. --judge SPEC names one."
                .to_owned(),
        );
    }
    let generators = report.generators.iter();
    notes
        .extend(generators.filter_map(|one| of_versions("texts", &format!("The generator {}", one.id), &one.versions)));
    notes.extend(sampled(report));
    notes.extend(encoding::notes(report));
    notes.extend(report.judge.iter().flat_map(of_judge));
    if let Some(sequential) = report.gate.as_ref().and_then(|gate| gate.sequential.as_ref())
        && let (Some(last), Some(full)) = (
            sequential
                .taken
                .checked_sub(1)
                .and_then(|round| sequential.rounds.get(round)),
            sequential.rounds.last(),
        )
        && sequential.taken < sequential.rounds.len()
    {
        let rounds = format!("{} of {} rounds", sequential.taken, sequential.rounds.len());
        let of = match sequential.items() {
            Some((last, all)) => format!("at most {last} of {all} items of each data set"),
            None => format!(
                "{} of {} data sets and {} of {} seeds",
                last.datasets, full.datasets, last.seeds, full.seeds
            ),
        };
        notes.push(format!(
            "The gate was decided after {rounds}, and the run stopped: every number here is of {of}."
        ));
    }
    match report.profile.n() {
        1 if report.profile.n_datasets > 1 => notes.push(format!(
            "One group of {} data sets: differences are shown, but there is nothing to test them with.",
            report.profile.n_datasets
        )),
        1 => notes.push("One data set: differences are shown, but there is nothing to test them with.".to_owned()),
        n if n < ENOUGH_DATASETS => notes.push(format!(
            "{}: a two-sided signed-rank test cannot give a p-value under {}. Read the sizes and intervals rather \
             than the p-values.",
            report.profile.counted(),
            2.0 / 2f64.powi(i32::try_from(n).unwrap_or(i32::MAX))
        )),
        _ => {}
    }
    let seeds = report.suite.seeds.len();
    let varied = report
        .profile
        .encoders
        .iter()
        .flat_map(|e| &e.datasets)
        .flat_map(|d| &d.transformations);
    let same = varied
        .clone()
        .filter(|t| {
            t.moved
                .sd_note
                .as_deref()
                .is_some_and(|note| note.contains("same texts"))
        })
        .count();
    if seeds == 1 {
        notes.push("One seed: there is no standard deviation over seeds.".to_owned());
    } else if same > 0 {
        let how_many = if same == varied.count() {
            "Every"
        } else {
            "In some rows every"
        };
        notes.push(format!(
            "{how_many} seed gave the same texts, as greedy decoding does: the standard deviation is 0 there because nothing \
             varied. A temperature above 0 shows the spread."
        ));
    }
    notes
}
