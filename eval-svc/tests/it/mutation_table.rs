//! All known faults and their results: the table of docs/reference/gate.md, row by row, on one
//! harness.
//!
//! The first row is the positive control: with a correct generator, judge and encoder, the same
//! gate passes.

use isomer_eval::judging::ProbeKind;
use isomer_proto::{
    eval::v1::{Judge, ReportFormat, RunSpec, RunState, SuiteRef, Verdict, suite_ref},
    transform::v1::Outcome,
};

use crate::{
    mutations::hash,
    run_stubs::{
        Harness, Rewriter, create,
        encoder::{DIMENSIONS, vector},
        ended, report, spec, watch,
    },
};

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Pass,
    Fail,
    Invalid,
    /// Refused before anything is generated.
    Refused,
    /// The run fails.
    Stopped,
}

impl End {
    /// As in docs/reference/gate.md: verdict and exit code.
    fn cells(self) -> &'static str {
        match self {
            Self::Pass => "pass | 0",
            Self::Fail => "fail | 1",
            Self::Invalid => "invalid | 4",
            Self::Refused => "refused before it begins | 2",
            Self::Stopped => "none, the run fails | 3",
        }
    }
}

/// The fault of a row.
struct Row {
    what: &'static str,
    end: End,
    /// Text that the result must contain.
    says: &'static str,
    rewriter: Rewriter,
    encoder: &'static str,
    baseline: Option<&'static str>,
    judge: bool,
    mutate: fn(&Harness),
    gate: &'static str,
    /// Number of data sets, all in one group if there are several.
    sets: usize,
    /// Keys of the last data set, and further data sets.
    more: &'static str,
    /// Whether a pair gets a positive label, by its number and its true label.
    label: fn(usize, bool) -> bool,
}

/// Rules on a drop, on sensitivity, and on the drop on accepted rewrites alone.
const GATE: &str = "[[gate.rule]]\nmax_drop = 10\n[[gate.rule]]\nmin_separation = 0.8\n";
const ACCEPTED: &str = "[[gate.rule]]\nmax_drop = 10\n[[gate.rule]]\nmin_separation = 0.8\n[[gate.rule]]\nmax_drop = 10\ntexts = \"accepted\"\n";

/// The rules of the shipped suites.
const LEVEL: &str = "[[gate.rule]]\nmax_drop = 10\n[[gate.rule]]\nmin_separation = 0.8\n\
                     [[gate.rule]]\nmargin = 5\nof = \"original\"\nwhen = \"baseline\"\n";

/// Another text with the words reversed and an additional one: `stub-keen` ignores word order and
/// that word.
fn healthy(_: &str, _: u64, text: &str) -> (String, Outcome) {
    let words: Vec<&str> = text.split_whitespace().rev().collect();
    (format!("indeed {}", words.join(" ")), Outcome::Ok)
}

/// A sentence that is unrelated to the text.
fn unrelated(_: &str, _: u64, text: &str) -> (String, Outcome) {
    let rest = ["quietly", "in vain", "at dawn", "for hours", "by mistake"][(hash(text) % 5) as usize];
    (
        format!("Two clouds argued about geometry {rest}, {}.", hash(text)),
        Outcome::Ok,
    )
}

const HEALTHY: Row = Row {
    what: "nothing is broken",
    end: End::Pass,
    says: "",
    rewriter: healthy,
    encoder: "stub-keen",
    baseline: None,
    judge: true,
    mutate: |_| {},
    gate: ACCEPTED,
    sets: 1,
    more: "",
    label: |_, pair| pair,
};

fn rows() -> Vec<Row> {
    let generator = |what, rewriter: Rewriter| Row {
        what,
        end: End::Invalid,
        says: "robustness",
        rewriter,
        judge: false,
        gate: GATE,
        ..HEALTHY
    };
    let encoder = |what, encoder| Row {
        what,
        end: End::Fail,
        says: "separat",
        encoder,
        judge: false,
        gate: GATE,
        ..HEALTHY
    };
    vec![
        HEALTHY,
        Row {
            what: "nothing is broken, and there is no judge",
            says: "Rewrites not rated",
            judge: false,
            gate: GATE,
            ..HEALTHY
        },
        generator("generator: dead, every text comes back", |_, _, text| {
            (text.to_owned(), Outcome::Ok)
        }),
        generator("generator: three texts in ten fail", |name, seed, text| {
            match hash(text) % 10 {
                0..3 => (String::new(), Outcome::Failed),
                _ => healthy(name, seed, text),
            }
        }),
        generator("generator: appends a full stop", |_, _, text| {
            (format!("{text}."), Outcome::Ok)
        }),
        generator("generator: changes case", |_, _, text| {
            (text.to_uppercase(), Outcome::Ok)
        }),
        generator("generator: swaps one word", |_, _, text| {
            let (_, rest) = text.split_once(' ').unwrap_or((text, ""));
            (format!("swapped {rest}"), Outcome::Ok)
        }),
        generator("generator: puts the text into a frame", |_, _, text| {
            (format!("Well, as people say: {text} That is how it was."), Outcome::Ok)
        }),
        generator("generator: says the text twice", |_, _, text| {
            (format!("{text} {text}"), Outcome::Ok)
        }),
        generator("generator: lists alternatives, the text among them", |_, _, text| {
            let (made, outcome) = healthy("", 0, text);
            (format!("Option 1: {made} Option 2: {text}"), outcome)
        }),
        Row {
            says: "same rewrite",
            ..generator(
                "generator: refuses three texts in ten in one sentence",
                |name, seed, text| match hash(text) % 10 {
                    0..3 => ("Sorry, this cannot be reworded here.".to_owned(), Outcome::Ok),
                    _ => healthy(name, seed, text),
                },
            )
        },
        Row {
            says: "a meaning guard",
            mutate: |harness| *harness.transform.guarded.lock() = true,
            ..generator("generator: changes the meaning, and a guard fires", healthy)
        },
        // The transform service checks the language of generated texts: after the last attempt the
        // original is used.
        generator("generator: writes in the wrong language", |_, _, text| {
            (text.to_owned(), Outcome::KeptOriginal)
        }),
        Row {
            says: "invalid rewrites",
            judge: true,
            gate: GATE,
            ..generator("generator: writes unrelated sentences, with a judge", unrelated)
        },
        Row {
            end: End::Fail,
            says: "Rewrites not rated",
            ..generator("generator: writes unrelated sentences, without a judge", unrelated)
        },
        Row {
            what: "judge: rates everything alike",
            end: End::Invalid,
            says: "refused 0 of 16 unrelated texts",
            mutate: |harness| {
                *harness.transform.judge.probe.lock() = Some(|_| 4.0);
                *harness.transform.judge.rater.lock() = Some(|_, _| 4.0);
            },
            ..HEALTHY
        },
        Row {
            what: "judge: rates the wrong way round",
            end: End::Invalid,
            says: "it is not known which rewrites are accepted",
            mutate: |harness| {
                *harness.transform.judge.probe.lock() = Some(|kind| match kind {
                    ProbeKind::Unrelated => 5.0,
                    ProbeKind::Identical | ProbeKind::Paraphrase => 0.0,
                });
            },
            ..HEALTHY
        },
        Row {
            what: "judge: rates the wrong way round, and no rule asks for accepted texts",
            says: "Ratings do not count",
            mutate: |harness| {
                *harness.transform.judge.probe.lock() = Some(|kind| match kind {
                    ProbeKind::Unrelated => 5.0,
                    ProbeKind::Identical | ProbeKind::Paraphrase => 0.0,
                });
                *harness.transform.judge.rater.lock() = Some(|_, _| 0.0);
            },
            gate: GATE,
            ..HEALTHY
        },
        encoder("encoder: its vectors are all but one point", "stub-near"),
        Row {
            end: End::Invalid,
            says: "100 % of the original texts",
            ..encoder("encoder: one vector for every text", "stub-blind")
        },
        Row {
            mutate: |harness| {
                harness.manner().vectors = Some(|_, text| {
                    let mut state = hash(text) + 1;
                    [0; DIMENSIONS].map(|_| {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
                    })
                });
            },
            ..encoder("encoder: random vectors", "stub-keen")
        },
        Row {
            end: End::Invalid,
            says: "mixes up its answers",
            mutate: |harness| harness.manner().doubled = true,
            ..encoder("encoder: returns one vector twice", "stub-keen")
        },
        Row {
            end: End::Stopped,
            says: "another vector when it was asked again",
            mutate: |harness| {
                harness.manner().foreign = true;
                harness.manner().doubled = true;
            },
            ..encoder("provider: returns one vector twice", "stub-keen")
        },
        Row {
            end: End::Stopped,
            says: "another vector when it was asked again",
            mutate: |harness| {
                harness.manner().foreign = true;
                harness.manner().sociable = true;
            },
            ..encoder(
                "provider: a vector depends on the other texts of its request",
                "stub-keen",
            )
        },
        Row {
            end: End::Pass,
            says: "",
            mutate: |harness| harness.manner().foreign = true,
            ..encoder("provider: reports no settings, and is healthy", "stub-keen")
        },
        Row {
            end: End::Invalid,
            says: "vector of length 0",
            mutate: |harness| {
                harness.manner().vectors = Some(|encoder, text| match hash(text) % 20 {
                    0 => [0.0; DIMENSIONS],
                    _ => vector(encoder, text),
                });
            },
            ..encoder("encoder: no vector for one text in twenty", "stub-keen")
        },
        Row {
            end: End::Stopped,
            says: "not a number",
            mutate: |harness| harness.manner().vectors = Some(|_, _| [f32::NAN; DIMENSIONS]),
            ..encoder("encoder: NaN in its vectors", "stub-keen")
        },
        Row {
            end: End::Invalid,
            says: "the encoder cut 100 %",
            mutate: |harness| harness.manner().limit = Some(3),
            ..encoder("encoder: cuts every text", "stub-keen")
        },
        Row {
            end: End::Pass,
            says: "",
            mutate: |harness| harness.manner().limit = Some(3_000),
            ..encoder("encoder: cuts no text, and says so", "stub-keen")
        },
        Row {
            end: End::Fail,
            says: "original is at most 5 points below the baseline",
            baseline: Some("stub-keen"),
            gate: LEVEL,
            ..encoder("encoder: worse than the baseline", "stub-worse")
        },
        Row {
            end: End::Pass,
            says: "Level not compared: no baseline",
            gate: LEVEL,
            ..encoder("encoder: as bad, and no baseline is named", "stub-worse")
        },
        Row {
            what: "encoder: better than the baseline",
            baseline: Some("stub-worse"),
            judge: false,
            gate: LEVEL,
            ..HEALTHY
        },
        Row {
            what: "encoder: equal to the baseline",
            encoder: "stub-keen-again",
            baseline: Some("stub-keen"),
            judge: false,
            gate: LEVEL,
            ..HEALTHY
        },
        Row {
            what: "data: labels that say nothing",
            end: End::Invalid,
            says: "at chance level",
            label: |row, _| hash(&format!("row {row}")).is_multiple_of(2),
            ..HEALTHY
        },
        Row {
            what: "data: labels the wrong way round",
            end: End::Invalid,
            says: "may be inverted",
            label: |_, pair| !pair,
            ..HEALTHY
        },
        Row {
            what: "data: one data set, bounds over groups",
            end: End::Refused,
            says: "can never be decided",
            gate: "[[gate.rule]]\nmax_drop = 10\nunit = \"group\"\n",
            ..HEALTHY
        },
        Row {
            what: "data: languages of one data set, bounds over groups",
            end: End::Refused,
            says: "3 of one group count once",
            gate: "[[gate.rule]]\nmax_drop = 10\nbasis = \"student\"\n",
            sets: 3,
            ..HEALTHY
        },
        Row {
            what: "data: languages of one data set, bounds over items",
            sets: 3,
            ..HEALTHY
        },
        Row {
            what: "data: one data set under two names",
            end: End::Refused,
            says: "again",
            more: "[[dataset]]\ntask = \"pair-classification\"\npath = \"sold0.jsonl\"\nname = \"again\"\n",
            ..HEALTHY
        },
        Row {
            what: "data: nine items",
            end: End::Invalid,
            says: "has 9 items whose score can differ",
            more: "limit = 9\n",
            ..HEALTHY
        },
    ]
}

/// Pairs of sentences to which at least two kinds of change apply, in several data sets of one
/// group.
fn suite(harness: &Harness, row: &Row) -> SuiteRef {
    let folder = harness.home.path().join("data");
    std::fs::create_dir_all(&folder).unwrap();
    let things = [
        "books", "boats", "lamps", "chairs", "clocks", "coats", "drums", "plates",
    ];
    let mut text = format!(
        "name = \"mutations\"\nseeds = [1337]\ntransformations = [\"paraphrase\", \"summarisation\"]\n{}\n",
        row.gate
    );
    for set in 0..row.sets {
        let rows = (0..90).map(|i| {
            let (thing, number, pair) = (things[i % 8], 1_000 * set + i + 12, i % 2 == 1);
            let (other_thing, other_number) = if pair {
                (thing, number)
            } else {
                (things[(i + 3) % 8], number + 500)
            };
            let (one, two) = (
                format!("The shop sold {number} old {thing} to the mayor."),
                format!("A young man has bought {other_number} {other_thing} from the shop."),
            );
            let label = u8::from((row.label)(i, pair));
            serde_json::json!({ "sentence1": one, "sentence2": two, "label": label }).to_string()
        });
        let rows: Vec<String> = rows.collect();
        std::fs::write(folder.join(format!("sold{set}.jsonl")), rows.join("\n")).unwrap();
        text.push_str(&format!(
            "[[dataset]]\ntask = \"pair-classification\"\npath = \"sold{set}.jsonl\"\ngroup = \"sold\"\nlanguages = [\"en\"]\n"
        ));
    }
    text.push_str(row.more);
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "mutations.toml".to_owned(),
    }
}

/// A judge that recognises results of `healthy`: the same words in any order.
fn same_words(original: &str, transformed: &str) -> f64 {
    let words = |text: &str| -> Vec<String> {
        let mut words: Vec<String> = text
            .split_whitespace()
            .filter(|word| *word != "indeed")
            .map(str::to_owned)
            .collect();
        words.sort_unstable();
        words
    };
    if words(original) == words(transformed) {
        5.0
    } else {
        0.0
    }
}

/// The outcome, and all messages.
async fn outcome(row: &Row) -> (End, String) {
    let harness = Harness::new();
    *harness.transform.rewriter.lock() = Some(row.rewriter);
    *harness.transform.judge.rater.lock() = Some(same_words);
    (row.mutate)(&harness);
    let (_service, mut client) = harness.open().await;
    let asked = RunSpec {
        judge: row.judge.then(|| Judge {
            generator_id: "stub:judge".to_owned(),
            sample: Some(0),
            ..Judge::default()
        }),
        baseline_encoder_id: row.baseline.unwrap_or_default().to_owned(),
        ..spec(
            suite(&harness, row),
            &[Some(row.encoder), row.baseline]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>(),
        )
    };
    let run = match create(&mut client, asked).await {
        Ok(run) => ended(&watch(&mut client, &run.id, 0).await),
        Err(fault) => {
            assert!(
                harness.transform.ids.lock().is_empty(),
                "refused before anything is generated"
            );
            return (End::Refused, fault.to_string());
        }
    };
    if run.state() != RunState::Succeeded {
        return (End::Stopped, run.error);
    }
    let said = String::from_utf8(report(&mut client, &run.id, ReportFormat::Markdown).await).unwrap();
    let end = match run.verdict() {
        Verdict::Pass => End::Pass,
        Verdict::Fail => End::Fail,
        Verdict::Invalid => End::Invalid,
        other => panic!("{}: {other:?}: {said}", row.what),
    };
    assert_eq!(run.blocked, end != End::Pass, "{}", row.what);
    (end, said)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_ends_as_the_readme_says_and_says_why() {
    let mut wrong = Vec::new();
    for row in rows() {
        let (end, said) = outcome(&row).await;
        if end != row.end || !said.contains(row.says) {
            wrong.push(format!(
                "{}: {end:?}, should be {:?} with `{}`: {said}",
                row.what, row.end, row.says
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_of_the_gate_has_every_row() {
    let page = include_str!("../../../docs/reference/gate.md");
    let missing: Vec<String> = rows()
        .iter()
        .map(|row| format!("| {} | {} |", row.what, row.end.cells()))
        .filter(|line| !page.contains(line.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/reference/gate.md lacks\n{}",
        missing.join("\n")
    );
}
