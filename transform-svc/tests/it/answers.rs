//! Accuracy of the checks on answers that are not a rewrite, on answers labelled by hand before the
//! checks were written (`tests/fixtures/answers/README.md`).
//!
//! `cargo test -p isomer-transform --test it answers:: -- --nocapture` prints the tables of
//! docs/reference/transformations.md, and the answers of the development half that a check gets
//! wrong.

use isomer_proto::ProtoEnum;
use std::collections::BTreeMap;

use isomer_transform::{
    checks::{self, Check},
    clean::clean,
    prompt::Purpose,
};
use isomer_transformations::{Declaration, declaration};
use serde::Deserialize;

#[derive(Deserialize)]
struct LabelledAnswer {
    language: String,
    half: String,
    transformation: String,
    original: String,
    answer: String,
    labels: Vec<String>,
    /// The answer without the Markdown around it, if the Markdown is its only fault.
    text: Option<String>,
}

impl LabelledAnswer {
    fn kind(&self) -> &'static Declaration {
        declaration(&self.transformation).unwrap()
    }

    fn cleaned(&self) -> String {
        clean(
            Purpose::of_id("paraphrase").unwrap(),
            &self.original,
            &self.answer,
            ("<text>", "</text>"),
        )
        .text
    }

    /// Names of the checks that fire, as used in labels: lead-ins are remarks too.
    fn fired(&self) -> Vec<&'static str> {
        let fired = checks::run(self.kind(), &self.original, &self.cleaned(), None);
        let label = |check: Check| match check {
            Check::InstructionPrefix | Check::ReasoningLeak => "remark",
            Check::Identical | Check::SummaryLonger => "",
            other => other.name(),
        };
        let mut labels: Vec<_> = fired.into_iter().map(label).filter(|label| !label.is_empty()).collect();
        labels.dedup();
        labels
    }
}

fn answers() -> Vec<LabelledAnswer> {
    include_str!("../fixtures/answers/answers.jsonl")
        .split('\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Findings of one check against labels.
#[derive(Default, Clone, Copy)]
struct Score {
    labelled: u32,
    fired: u32,
    right: u32,
}

impl Score {
    fn add(&mut self, labelled: bool, fired: bool) {
        self.labelled += u32::from(labelled);
        self.fired += u32::from(fired);
        self.right += u32::from(labelled && fired);
    }

    fn precision(self) -> f64 {
        f64::from(self.right) / f64::from(self.fired.max(1))
    }

    fn recall(self) -> f64 {
        f64::from(self.right) / f64::from(self.labelled.max(1))
    }
}

const LABELS: [&str; 6] = ["refusal", "remark", "alternatives", "note", "garbled", "placeholder"];
/// Checks that are about other things than an answer that is not a rewrite: HTEB's, those of lists,
/// and errors of a generator.
const OTHERS: [Check; 16] = [
    Check::Identical,
    Check::Empty,
    Check::Ellipsis,
    Check::Structured,
    Check::ReasoningLeak,
    Check::InstructionPrefix,
    Check::WrongLanguage,
    Check::Runaway,
    Check::Truncated,
    Check::SummaryLonger,
    Check::GeneratorError,
    Check::TooFew,
    Check::Duplicate,
    Check::Filtered,
    Check::ToolCall,
    Check::PromptCut,
];

#[test]
fn every_check_of_answers_has_a_label() {
    let of_answers = Check::all().filter(|check| !OTHERS.contains(check));
    assert_eq!(of_answers.map(ProtoEnum::name).collect::<Vec<_>>(), LABELS);
}

/// Scores of each check on the answers of one half.
#[derive(Default)]
struct HalfScores {
    pooled: BTreeMap<&'static str, Score>,
    by_language: BTreeMap<String, BTreeMap<&'static str, Score>>,
    /// Any check against any label.
    any: BTreeMap<String, Score>,
}

fn scores(half: &str) -> HalfScores {
    let mut scores = HalfScores::default();
    for answer in answers().into_iter().filter(|answer| answer.half == half) {
        let fired = answer.fired();
        for label in LABELS {
            let (labelled, fires) = (answer.labels.iter().any(|own| own == label), fired.contains(&label));
            scores.pooled.entry(label).or_default().add(labelled, fires);
            let own = scores.by_language.entry(answer.language.clone()).or_default();
            own.entry(label).or_default().add(labelled, fires);
            if half == "seen" && labelled != fires {
                println!("{label} {labelled}: {} => {:?}", answer.original, answer.cleaned());
            }
        }
        if answer.text.is_none() {
            let any = scores.any.entry(answer.language.clone()).or_default();
            any.add(!answer.labels.is_empty(), !fired.is_empty());
        }
    }
    scores
}

const README: &str = "tests/fixtures/answers/README.md";
const BEGIN: &str =
    "<!-- Measured. Renew with: ISOMER_RENEW=1 cargo test -p isomer-transform --test it answers:: -->\n";
const END: &str = "<!-- End of measured -->\n";

/// Precision and recall of a check.
fn cell(score: Score) -> String {
    format!("{:.2} {:.2}", score.precision(), score.recall())
}

#[test]
fn the_accuracy_for_each_language_is_that_of_the_readme() {
    let held = scores("held");
    let mut table = format!(
        "| language | {} | any |\n|---|{}\n",
        LABELS.join(" | "),
        "---|".repeat(LABELS.len() + 1)
    );
    for (language, own) in &held.by_language {
        let cells = LABELS.map(|label| cell(own[label]));
        table.push_str(&format!(
            "| {language} | {} | {} |\n",
            cells.join(" | "),
            cell(held.any[language])
        ));
    }
    let any = held.any.values().fold(Score::default(), |all, own| Score {
        labelled: all.labelled + own.labelled,
        fired: all.fired + own.fired,
        right: all.right + own.right,
    });
    let cells = LABELS.map(|label| cell(held.pooled[label]));
    table.push_str(&format!("| all | {} | {} |\n", cells.join(" | "), cell(any)));
    let readme = std::fs::read_to_string(README).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let renewed = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    if std::env::var_os("ISOMER_RENEW").is_some() {
        std::fs::write(README, &renewed).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(README).unwrap(),
        renewed,
        "renew it with ISOMER_RENEW=1"
    );
}

#[test]
fn answers_that_are_no_rewrite_are_found_and_named() {
    let (held, seen) = (scores("held"), scores("seen"));
    println!("| check | half | labelled | fired | right | precision | recall |");
    for label in LABELS {
        for (name, half) in [("held out", &held), ("seen", &seen)] {
            let score = half.pooled[label];
            let Score { labelled, fired, right } = score;
            let (precision, recall) = (score.precision(), score.recall());
            println!("| {label} | {name} | {labelled} | {fired} | {right} | {precision:.2} | {recall:.2} |");
        }
    }
    // The values measured on the held-out answers, minus 0.01. Refusals and remarks are confused
    // with each other.
    for (label, precision, recall) in [
        ("refusal", 0.88, 0.90),
        ("remark", 0.89, 0.81),
        ("alternatives", 0.96, 0.95),
        ("note", 0.93, 0.91),
        ("garbled", 0.99, 0.95),
        ("placeholder", 0.99, 0.89),
    ] {
        let score = held.pooled[label];
        assert!(
            score.precision() >= precision,
            "{label}: precision {}",
            score.precision()
        );
        assert!(score.recall() >= recall, "{label}: recall {}", score.recall());
    }
}

#[test]
fn nearly_every_answer_that_is_no_rewrite_fails_some_check() {
    let held = answers()
        .into_iter()
        .filter(|answer| answer.half == "held" && answer.text.is_none());
    let (good, bad): (Vec<_>, Vec<_>) = held.partition(|answer| answer.labels.is_empty());
    let failing = |answers: &[LabelledAnswer]| answers.iter().filter(|answer| !answer.fired().is_empty()).count();
    let (caught, alarms) = (failing(&bad), failing(&good));
    for answer in good.iter().filter(|answer| !answer.fired().is_empty()) {
        println!("{} {:?}", answer.language, answer.fired());
    }
    println!(
        "{caught} of {} bad answers and {alarms} of {} good ones fail a check",
        bad.len(),
        good.len()
    );
    assert!(caught as f64 >= 0.93 * bad.len() as f64, "{caught} of {}", bad.len());
    // Three quarters of the good answers resemble a failure.
    assert!(alarms as f64 <= 0.06 * good.len() as f64, "{alarms} of {}", good.len());
}

#[test]
fn markdown_around_a_whole_answer_is_removed() {
    let wrapped: Vec<LabelledAnswer> = answers().into_iter().filter(|answer| answer.text.is_some()).collect();
    assert!(wrapped.len() >= 40);
    for answer in &wrapped {
        assert_eq!(Some(answer.cleaned()), answer.text, "{}", answer.answer);
        assert_eq!(answer.fired(), Vec::<&str>::new(), "{}", answer.answer);
    }
}
