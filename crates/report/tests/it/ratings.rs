//! Ratings of rewrites by people: what a sheet shows and draws, what its numbers are, and what is
//! refused.

use std::{collections::BTreeMap, path::Path};

use isomer_report::{
    ITEMS_SCHEMA, ItemsOfScore, JudgedRewrite, Report, RunItems,
    ratings::{HumanRatings, JudgedRun, RatingOptions, RatingsError, SheetOptions, files, json_schema, ratings, sheet},
    read,
    terms::Scale,
    thresholds::ThresholdTarget,
};
use isomer_stats::{
    prediction_powered::{LabelledStratum, StratifiedShare},
    spearman,
};
use serde_json::Value;

use crate::schema_check::faults;

const REWRITES: usize = 400;
const ENCODER: &str = "all-MiniLM-L6-v2";

/// Every tenth rewrite is not faithful.
fn is_faithful(n: usize) -> bool {
    !n.is_multiple_of(10)
}

/// The judge is wrong about one of twenty faithful rewrites and one of three others; it has no
/// rating of one rewrite.
fn judged(n: usize) -> Option<f64> {
    match n {
        11 => None,
        _ if is_faithful(n) => Some(if n % 20 == 7 { 2.0 } else { 4.0 + (n % 3) as f64 / 2.0 }),
        _ => Some(if n.is_multiple_of(30) { 4.0 } else { 1.5 }),
    }
}

/// The rating of a careful rater.
fn human(n: usize) -> f64 {
    if is_faithful(n) { 4.0 + (n % 2) as f64 } else { 1.0 }
}

fn drift(n: usize) -> f64 {
    0.5 - human(n) / 20.0 + (n * 7 % 13) as f64 / 100.0
}

fn run() -> (Report, RunItems) {
    let path = Path::new(".").join("../../eval-svc/fixtures/report/report.json");
    let report = read(&std::fs::read(path).unwrap()).unwrap();
    let scores = report.scores.iter().map(|row| ItemsOfScore {
        encoder: row.encoder.clone(),
        dataset: row.dataset.clone(),
        transformation: row.transformation.clone(),
        seed: row.seed,
        unit: row.unit.clone(),
        evidence: None,
        lists: None,
    });
    let rewrite = |n: usize| JudgedRewrite {
        transformation: ["paraphrase", "backtranslation"][n % 2].to_owned(),
        original: (n / 2) as u32,
        rewrite: (REWRITES / 2 + n) as u32,
        ratings: judged(n)
            .map(|rating| (Scale::Similarity, rating))
            .into_iter()
            .collect(),
        drift: BTreeMap::from([(ENCODER.to_owned(), drift(n))]),
    };
    let originals = (0..REWRITES / 2).map(|n| format!("=original {n}, as it was"));
    let texts = originals.chain((0..REWRITES).map(|n| format!("rewrite <b>{n}</b>")));
    let items = RunItems {
        schema: ITEMS_SCHEMA.to_owned(),
        run: report.run.id.clone(),
        texts: texts.collect(),
        scores: scores.collect(),
        judged: (0..REWRITES).map(rewrite).collect(),
        ..RunItems::default()
    };
    (report, items)
}

fn of((report, items): &(Report, RunItems)) -> JudgedRun<'_> {
    JudgedRun { report, items }
}

fn sheet_options() -> SheetOptions {
    SheetOptions {
        scale: Scale::Similarity,
        accept: None,
        rewrites: 30,
        raters: 2,
    }
}

fn options() -> RatingOptions {
    RatingOptions {
        scale: Scale::Similarity,
        accept: None,
        confidence: 0.95,
        drawn_elsewhere: false,
    }
}

/// Rows of a sheet: id and number of the rewrite.
fn rows(csv: &[u8]) -> Vec<(String, usize)> {
    let mut reader = csv::Reader::from_reader(csv);
    let number = |text: &str| text.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    let rows = reader.records().map(|row| row.unwrap());
    rows.map(|row| (row[0].to_owned(), number(&row[2]))).collect()
}

/// A file with ratings by two people for these rows; an absent one is empty.
fn rated(rows: &[(String, usize)], rating: impl Fn(usize) -> [Option<f64>; 2]) -> Vec<u8> {
    let cell = |rating: Option<f64>| rating.map_or_else(String::new, |rating| rating.to_string());
    let lines = rows.iter().map(|(id, n)| {
        let [first, second] = rating(*n).map(cell);
        format!("{id},{first},{second}\n")
    });
    format!("id,ann,bob\n{}", lines.collect::<String>()).into_bytes()
}

fn careful(n: usize) -> [Option<f64>; 2] {
    [Some(human(n)), Some((human(n) - 1.0).max(0.0))]
}

fn message(found: Result<HumanRatings, RatingsError>) -> RatingsError {
    found.unwrap_err()
}

#[test]
fn a_sheet_hides_the_judge_and_draws_the_same_rewrites_again() {
    let made = run();
    let found = sheet(of(&made), &sheet_options()).unwrap();
    assert_eq!(found, sheet(of(&made), &sheet_options()).unwrap());
    let accepted = (0..REWRITES)
        .filter(|n| judged(*n).is_some_and(|rating| rating >= 3.0))
        .count() as u64;
    assert_eq!(found.rewrites, [accepted, REWRITES as u64 - accepted]);
    // Five of the 46 rewrites that the judge rejects.
    assert_eq!(found.drawn, [25, 5]);
    let drawn = rows(&found.csv);
    let rejected = drawn
        .iter()
        .filter(|(_, n)| judged(*n).is_none_or(|rating| rating < 3.0))
        .count();
    assert_eq!((drawn.len(), rejected), (30, 5));
    let text = String::from_utf8(found.csv).unwrap();
    assert_eq!(text.lines().next(), Some("id,original,rewrite,rater_1,rater_2"));
    assert!(text.contains("\"'=original "), "no cell is a formula: {text}");
    assert!(!text.contains("4.5") && !text.contains("paraphrase"));
    // A longer sheet continues a shorter one of the same verdict.
    let longer = SheetOptions {
        rewrites: 60,
        ..sheet_options()
    };
    let longer = rows(&sheet(of(&made), &longer).unwrap().csv);
    assert!(drawn.iter().all(|row| longer.contains(row)));
    // The order is not that of the run.
    let numbers: Vec<usize> = drawn.iter().map(|(_, n)| *n).collect();
    assert!(!numbers.is_sorted());
}

#[test]
fn the_share_and_its_bound_are_those_of_the_counts() {
    let made = run();
    let drawn = rows(&sheet(of(&made), &sheet_options()).unwrap().csv);
    let found = ratings(of(&made), &rated(&drawn, careful), &options()).unwrap();
    let all = &found.rows[0];
    assert_eq!((all.transformation.as_deref(), all.rated, all.ratings), (None, 30, 60));
    let accepts = |n: usize| judged(n).is_some_and(|rating| rating >= 3.0);
    let stratum = |accepted: bool| {
        let own = drawn.iter().filter(|(_, n)| accepts(*n) == accepted);
        LabelledStratum {
            units: (0..REWRITES).filter(|n| accepts(*n) == accepted).count() as u64,
            labelled: own.clone().count() as u64,
            positive: own.filter(|(_, n)| is_faithful(*n)).count() as u64,
        }
    };
    let expected = StratifiedShare::of([stratum(true), stratum(false)], 0.05).unwrap();
    assert_eq!(
        (all.share.estimate, all.share.low),
        (expected.estimate, Some(expected.low))
    );
    assert!(expected.low > 0.7 && expected.low < 0.9, "{expected:?}");
    let faithful = drawn.iter().filter(|(_, n)| is_faithful(*n)).count() as u64;
    assert_eq!(all.faithful, faithful);
    let agreement = &all.agreement;
    assert_eq!(
        agreement.both + agreement.raters_only + agreement.neither + agreement.judge_only,
        30
    );
    assert_eq!(agreement.both + agreement.raters_only, faithful);
    let (judge, people): (Vec<f64>, Vec<f64>) = drawn
        .iter()
        .filter_map(|(_, n)| Some((judged(*n)?, (human(*n) + (human(*n) - 1.0).max(0.0)) / 2.0)))
        .unzip();
    let rho = spearman(&judge, &people).unwrap();
    assert!((agreement.spearman.unwrap() - rho).abs() < 1e-12);
    assert!(all.ac2.is_some_and(|ac2| ac2 > 0.5 && ac2 < 1.0), "{all:?}");
    // The mean weights the five that the judge rejects by their number.
    let mean = |accepted: bool| {
        let own = drawn.iter().filter(|(_, n)| accepts(*n) == accepted);
        let ratings: Vec<f64> = own.flat_map(|(_, n)| careful(*n)).flatten().collect();
        ratings.iter().sum::<f64>() / ratings.len() as f64
    };
    let [accepted, others] = [true, false].map(|own| (stratum(own).units as f64, mean(own)));
    let expected = (accepted.0 * accepted.1 + others.0 * others.1) / REWRITES as f64;
    assert!((all.mean.unwrap() - expected).abs() < 1e-12);
    // Each transformation has its own row, and its rewrites sum to all.
    let parts = &found.rows[1..];
    assert_eq!(parts.iter().map(|own| own.rated).sum::<u64>(), 30);
    let rewrites = |own: &isomer_report::ratings::FaithfulShare| own.accepted.rewrites + own.not_accepted.rewrites;
    assert_eq!(
        parts.iter().map(|own| rewrites(&own.share)).sum::<u64>(),
        REWRITES as u64
    );
    assert!(parts.iter().all(|own| own.share.low < all.share.low));
    let drift = found.drift.iter().find(|own| own.encoder == ENCODER).unwrap();
    assert!(drift.spearman.is_some_and(|rho| rho < 0.0), "{drift:?}");
    let f1 = found
        .thresholds
        .iter()
        .find(|own| own.target == ThresholdTarget::F1)
        .unwrap();
    assert!(f1.recall.is_some_and(|recall| recall > 0.8), "{f1:?}");
}

#[test]
fn a_rewrite_that_was_passed_over_counts_as_not_faithful_unless_the_draw_was_another() {
    let made = run();
    let drawn = rows(&sheet(of(&made), &sheet_options()).unwrap().csv);
    let low = |csv: &[u8], drawn_elsewhere: bool| {
        let options = RatingOptions {
            drawn_elsewhere,
            ..options()
        };
        let found = ratings(of(&made), csv, &options).unwrap();
        let share = &found.rows[0].share;
        (
            share.low.unwrap(),
            share.accepted.unrated + share.not_accepted.unrated,
            found.notes.len(),
        )
    };
    let full = low(&rated(&drawn, careful), false);
    // Only the faithful ones are rated: each of the others is skipped.
    let picked: Vec<_> = drawn.iter().filter(|(_, n)| is_faithful(*n)).cloned().collect();
    let skipped = drawn.len() - picked.len();
    assert!(skipped > 0);
    let (bound, unrated, notes) = low(&rated(&picked, careful), false);
    assert!(bound <= full.0 && unrated <= skipped as u64 && notes == full.2 + usize::from(unrated > 0));
    let (elsewhere, unrated, _) = low(&rated(&picked, careful), true);
    assert!(elsewhere > full.0 && unrated == 0);
    // Rating the sheet from the top down to some row is a draw of its own.
    let (_, unrated, _) = low(&rated(&drawn[..20], careful), false);
    assert_eq!(unrated, 0);
    // Rows may come in another order.
    let turned: Vec<_> = drawn.iter().rev().cloned().collect();
    assert_eq!(low(&rated(&turned, careful), false), full);
}

#[test]
fn raters_may_leave_cells_empty_and_an_empty_column_is_not_a_rater() {
    let made = run();
    let drawn = rows(&sheet(of(&made), &sheet_options()).unwrap().csv);
    let one = ratings(of(&made), &rated(&drawn, |n| [Some(human(n)), None]), &options()).unwrap();
    assert_eq!(
        (one.raters.as_slice(), one.rows[0].ratings),
        (&["ann".to_owned()][..], 30)
    );
    assert_eq!(one.rows[0].ac2, None);
    let half = ratings(
        of(&made),
        &rated(&drawn, |n| [Some(human(n)), (n % 2 == 0).then_some(human(n))]),
        &options(),
    );
    let half = half.unwrap();
    assert_eq!(half.raters.len(), 2);
    assert_eq!(half.rows[0].ac2, Some(1.0), "they agree on each that both rated");
}

#[test]
fn what_cannot_be_used_is_refused_with_its_line() {
    let made = run();
    let drawn = rows(&sheet(of(&made), &sheet_options()).unwrap().csv);
    let of_text = |text: String| message(ratings(of(&made), text.as_bytes(), &options()));
    let line = |error: RatingsError| match error {
        RatingsError::Line { line, .. } => line,
        other => panic!("{other:?}"),
    };
    let (first, second) = (&drawn[0].0, &drawn[1].0);
    assert_eq!(line(of_text(format!("id,ann\n{first},4\nrewrite-0,4\n"))), 3);
    assert_eq!(line(of_text(format!("id,ann\n{first},4\n{second},3\n{first},4\n"))), 4);
    assert_eq!(line(of_text(format!("id,ann\n{first},5.5\n"))), 2);
    assert_eq!(line(of_text(format!("id,ann\n{first},good\n"))), 2);
    assert_eq!(line(of_text(format!("id,ann\n{first},NaN\n"))), 2);
    for text in [
        format!("name,ann\n{first},4\n"),
        format!("id,ann,ann\n{first},4,4\n"),
        format!("id,ann\n{first},\n"),
        format!("id,original\n{first},4\n"),
        format!("id,ann\n{first},4,4\n"),
    ] {
        assert!(matches!(of_text(text.clone()), RatingsError::File(_)), "{text}");
    }
    let csv = rated(&drawn, careful);
    let with = |options: RatingOptions| message(ratings(of(&made), &csv, &options));
    for (option, wrong) in [
        (
            "confidence",
            RatingOptions {
                confidence: 1.0,
                ..options()
            },
        ),
        (
            "accept",
            RatingOptions {
                accept: Some(0.0),
                ..options()
            },
        ),
        (
            "accept",
            RatingOptions {
                accept: Some(f64::NAN),
                ..options()
            },
        ),
    ] {
        assert!(matches!(with(wrong), RatingsError::Option { option: own, .. } if own == option));
    }
    let fluency = RatingOptions {
        scale: Scale::Fluency,
        ..options()
    };
    assert!(matches!(with(fluency), RatingsError::Scale { scale: "fluency", .. }));
    for change in [
        (|(report, _)| report.judge = None) as fn(&mut (Report, RunItems)),
        |(_, items)| items.judged.clear(),
        |(_, items)| items.run.push('x'),
        |(_, items)| items.texts.truncate(3),
    ] {
        let mut made = made.clone();
        change(&mut made);
        assert!(matches!(
            message(ratings(of(&made), &csv, &options())),
            RatingsError::Run(_)
        ));
        assert!(matches!(sheet(of(&made), &sheet_options()), Err(RatingsError::Run(_))));
    }
}

#[test]
fn the_published_schema_is_that_of_the_types_and_the_files_are_valid() {
    let derived = json_schema();
    let path = Path::new(".").join("../../eval-svc/schema/ratings-1.json");
    if std::env::var_os("ISOMER_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&derived).unwrap() + "\n").unwrap();
    }
    let published: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(published, derived, "write it anew with ISOMER_BLESS=1");
    assert_eq!(published["properties"]["schema"]["const"], "isomer.ratings/1");
    let made = run();
    let drawn = rows(&sheet(of(&made), &sheet_options()).unwrap().csv);
    let csv = String::from_utf8(rated(&drawn, careful))
        .unwrap()
        .replace("ann", "<i>ann</i>");
    let found = ratings(of(&made), csv.as_bytes(), &options()).unwrap();
    let forms = files(&found).unwrap();
    let text = |name: &str| {
        let form = forms.iter().find(|(own, _)| *own == name).unwrap();
        String::from_utf8(form.1.clone()).unwrap()
    };
    let mut value: Value = serde_json::from_str(&text("ratings.json")).unwrap();
    assert_eq!(serde_json::from_value::<HumanRatings>(value.clone()).unwrap(), found);
    assert_eq!(faults(&derived, &value), Vec::<String>::new());
    value["rows"][0]["share"]["low"] = "high".into();
    assert!(!faults(&derived, &value).is_empty(), "the check can fail");
    let (markdown, html) = (text("ratings.md"), text("ratings.html"));
    for heading in [
        "Ratings by people",
        "Share of faithful rewrites",
        "Drift against ratings",
    ] {
        assert!(
            markdown.contains(&format!("## {heading}")) && html.contains(heading),
            "{heading}"
        );
    }
    assert!(html.contains("<svg") && html.contains("&lt;i&gt;ann") && !html.contains("<i>ann"));
}
