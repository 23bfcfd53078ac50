//! A report without a run: four encoders, six data sets, five transformations, three seeds, all
//! numbers by rule.

use std::collections::BTreeMap;

use isomer_datasets::Sample;
use isomer_report::{
    CheckRow, CopyCounts, DatasetInfo, DriftRating, DriftRow, EncoderInfo, EncoderSeparation, EncoderVerdict, Example,
    GateReport, GateRule, GateVerdict, GeneratorInfo, JudgeReport, JudgedScale, Picked, RatingRow, Report, RuleVerdict,
    RunInfo, SCHEMA, ScoreRow, SeparationCoverage, SeparationReport, SeparationRow, SubsetReport, SuiteInfo,
    TransformationInfo, complete,
    profile::{Axis, Column, Grid, LanguageGroup, Moved, RobustnessProfile, SubsetRow, profile},
    terms::{
        Adjust, Basis, Counters, JudgeCounters, Kind, OnUndecided, Outcome, ProbeKind, ProbeResult, RuleKind, Scale,
        Stratum, Texts, Transformation, Unit,
    },
};
use isomer_scoring::{
    evidence::interval::{DeltaInterval, DeltaIntervals},
    task::TaskType,
};
use isomer_stats::{clopper_pearson_lower, clopper_pearson_upper};

const ENCODERS: [(&str, f64, f64); 4] = [
    // Name, level, and the share of a transformation's effect on the encoder.
    ("all-MiniLM-L6-v2", 0.0, 1.0),
    ("paraphrase-MiniLM-L3-v2", -4.0, 0.8),
    ("all-mpnet-base-v2", 2.5, 1.1),
    ("multilingual-e5-small", 0.8, 0.35),
];
const DATASETS: [(&str, TaskType, Option<&str>, f64); 6] = [
    ("STSBenchmark", TaskType::Sts, Some("eng"), 82.0),
    ("STSBenchmark (deu)", TaskType::Sts, Some("deu"), 66.0),
    ("SICK-R", TaskType::Sts, Some("eng"), 77.5),
    ("Banking77Classification", TaskType::Classification, Some("eng"), 80.0),
    ("NFCorpus", TaskType::Retrieval, Some("eng"), 31.5),
    (
        "MasakhaNEWSClusteringS2S (fra)",
        TaskType::Clustering,
        Some("fra"),
        27.0,
    ),
];
const SEEDS: [u64; 3] = [1337, 1338, 1339];

fn transformations() -> Vec<(Transformation, &'static str, Axis, f64)> {
    [
        ("paraphrase", -4.0),
        ("backtranslation", -2.0),
        ("summarisation", -6.5),
        ("cross_translation", -26.0),
        ("random_keywords", -14.0),
    ]
    .map(|(name, drop)| {
        let transformation = Transformation::named(name).unwrap();
        let axis = transformation.declaration().axis;
        (transformation, name, axis, drop)
    })
    .to_vec()
}

/// Between −0.5 and 0.5, the same on every machine.
fn noise(parts: [usize; 4]) -> f64 {
    let mixed = parts.iter().fold(2_166_136_261_u32, |hash, part| {
        (hash ^ *part as u32).wrapping_mul(16_777_619)
    });
    f64::from((mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519) >> 8) / f64::from(1 << 24) - 0.5
}

fn grid() -> Grid {
    let columns: Vec<Column> = transformations()
        .into_iter()
        .map(|(_, label, axis, _)| Column::new(label, axis))
        .collect();
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut grid = Grid::new(
        names(&ENCODERS.map(|one| one.0)),
        names(&DATASETS.map(|one| one.0)),
        columns,
        SEEDS.to_vec(),
    );
    for (e, (_, level, feels)) in ENCODERS.iter().enumerate() {
        for (d, (_, _, language, base)) in DATASETS.iter().enumerate() {
            // A multilingual encoder is better in languages that the others hardly know.
            let abroad = if *language != Some("eng") && e == 3 { 9.0 } else { 0.0 };
            let original = base + level + abroad + 2.0 * noise([e, d, 90, 0]);
            grid.original[e][d] = original;
            for (t, (_, _, _, effect)) in transformations().iter().enumerate() {
                for s in 0..SEEDS.len() {
                    let size = effect * feels * original / 80.0;
                    // One data set gains from summaries.
                    let size = if d == 4 && t == 2 { -0.3 * size } else { size };
                    grid.transformed[e][d][t][s] = original + size + noise([e, d, t, s]) + 2.0 * noise([e, d, t, 77]);
                }
            }
        }
    }
    grid.tasks = DATASETS.map(|one| one.1.name().to_owned()).to_vec();
    grid.languages = DATASETS.map(|one| LanguageGroup::of(one.2.into_iter(), None)).to_vec();
    grid
}

fn checks() -> Vec<CheckRow> {
    let mut rows = Vec::new();
    for (t, (_, label, _, _)) in transformations().iter().enumerate() {
        for seed in SEEDS {
            for (d, (name, ..)) in DATASETS.iter().enumerate() {
                let texts = 160 + 40 * d as u64;
                let kept = if t == 4 { 0 } else { (d as u64 + 3 * t as u64) % 9 };
                let recovered = if t == 4 { 0 } else { 4 + d as u64 };
                let mut failed_checks = BTreeMap::new();
                if kept > 0 {
                    failed_checks.insert("wrong_language".to_owned(), kept);
                }
                if kept > 3 {
                    failed_checks.insert("truncated".to_owned(), kept - 3);
                }
                rows.push(CheckRow {
                    transformation: (*label).to_owned(),
                    seed,
                    dataset: (*name).to_owned(),
                    texts,
                    ok: texts - kept - recovered,
                    recovered,
                    kept_original: kept,
                    failed: 0,
                    unchanged: Some(kept),
                    near_copies: Some(recovered / 2),
                    failed_checks,
                    retried_checks: BTreeMap::new(),
                    first_checks: BTreeMap::from([("identical".to_owned(), recovered)]),
                    guards: BTreeMap::from([("numbers".to_owned(), 2), ("negation".to_owned(), 1)]),
                    guards_untold: BTreeMap::from([("names".to_owned(), if d == 1 { texts / 2 } else { 0 })]),
                    edit_distance: Some(0.4 + 0.1 * t as f64),
                    jaccard: Some(0.5 - 0.1 * t as f64),
                    length_ratio: Some([1.02, 0.98, 0.55, 1.1, 0.3][t]),
                });
            }
        }
    }
    rows
}

fn drift() -> Vec<DriftRow> {
    let mut rows = Vec::new();
    for (e, (encoder, _, feels)) in ENCODERS.iter().enumerate() {
        for (d, (dataset, ..)) in DATASETS.iter().enumerate() {
            for (t, (_, label, _, effect)) in transformations().iter().enumerate() {
                let mean = (0.05 - effect * feels * 0.018) * (1.0 + 0.2 * noise([e, d, t, 55]));
                // Cosines of the last encoder are closer together. On one data set the gap of
                // another is unknown.
                let known = e != 1 || d != 4;
                let gap = if e == 3 { 0.2 } else { 0.6 } + 0.1 * noise([e, d, 8, 2]);
                rows.push(DriftRow {
                    encoder: (*encoder).to_owned(),
                    dataset: (*dataset).to_owned(),
                    transformation: (*label).to_owned(),
                    pairs: 3 * (150 + 40 * d as u64),
                    undefined: 0,
                    mean: Some(mean),
                    sd: Some(0.004),
                    median: Some(mean * 0.9),
                    ninth_decile: Some(mean * 1.9),
                    parallel_gap: known.then_some(gap),
                    in_gaps: known.then(|| mean / gap),
                    gap_note: (!known).then(|| "the parallel gap is not known".to_owned()),
                });
            }
        }
    }
    rows
}

fn scores(grid: &Grid) -> Vec<ScoreRow> {
    let mut rows = Vec::new();
    for (e, encoder) in grid.encoders.iter().enumerate() {
        for (d, dataset) in grid.datasets.iter().enumerate() {
            let mut add = |transformation: Option<&str>, seed: Option<u64>, points: f64| {
                rows.push(ScoreRow {
                    encoder: encoder.clone(),
                    dataset: dataset.clone(),
                    transformation: transformation.map(str::to_owned),
                    seed,
                    texts_digest: String::new(),
                    unit: String::new(),
                    main_score_key: main_score(DATASETS[d].1).to_owned(),
                    main_score: points / 100.0,
                    scores: BTreeMap::new(),
                    items: 100,
                    cached: false,
                });
            };
            add(None, None, grid.original[e][d]);
            for (t, column) in grid.columns.iter().enumerate() {
                for (s, seed) in grid.seeds.iter().enumerate() {
                    add(Some(&column.label), Some(*seed), grid.transformed[e][d][t][s]);
                }
            }
        }
    }
    rows
}

fn main_score(task: TaskType) -> &'static str {
    match task {
        TaskType::Classification => "accuracy",
        TaskType::Retrieval => "ndcg_at_10",
        TaskType::Clustering => "v_measure",
        _ => "cosine_spearman",
    }
}

fn examples() -> Vec<Example> {
    let texts = [
        (
            "A man is playing a guitar.",
            [
                "A man plays the guitar.",
                "A guitar is being played by a man.",
                "Man plays guitar.",
                "Ein Mann spielt Gitarre.",
                "man guitar",
            ],
        ),
        (
            "The cat sat on the warm stone wall all afternoon.",
            [
                "All afternoon the cat rested on the warm stone wall.",
                "The cat was sitting on the hot stone wall the whole afternoon.",
                "The cat sat on the wall.",
                "قضت القطة فترة بعد الظهر كلها على الجدار الحجري الدافئ.",
                "cat warm afternoon",
            ],
        ),
        (
            "How do I block a card that was stolen <from my bag>?",
            [
                "My card was stolen from my bag: how can I block it?",
                "How can I block a stolen card?",
                "How do I block a stolen card?",
                "Çantamdan çalınan kartı nasıl bloke ederim?",
                "block stolen bag",
            ],
        ),
    ];
    let mut examples = Vec::new();
    for (d, (dataset, ..)) in DATASETS.iter().enumerate() {
        for (t, (_, label, _, effect)) in transformations().iter().enumerate() {
            for (i, (original, made)) in texts.iter().enumerate() {
                let drifts: BTreeMap<String, f64> = ENCODERS
                    .iter()
                    .enumerate()
                    .map(|(e, (name, _, feels))| {
                        (
                            (*name).to_owned(),
                            0.1 - effect * feels * 0.02 * (1.0 + noise([e, d, t, i])),
                        )
                    })
                    .collect();
                let kept = i == 2 && d == 1 && t == 3;
                let drift = drifts.values().sum::<f64>() / drifts.len() as f64;
                examples.push(Example {
                    dataset: (*dataset).to_owned(),
                    transformation: (*label).to_owned(),
                    seed: SEEDS[i],
                    original: (*original).to_owned(),
                    transformed: if kept { *original } else { made[t] }.to_owned(),
                    outcome: if kept { Outcome::KeptOriginal } else { Outcome::Ok },
                    failed_checks: if kept {
                        vec!["wrong_language".to_owned()]
                    } else {
                        vec![]
                    },
                    edit_distance: (!kept).then_some(0.6),
                    picked: if i == 1 { Picked::WorstMoved } else { Picked::Drawn },
                    drift: (!kept).then_some(drift),
                    drift_by_encoder: if kept { BTreeMap::new() } else { drifts },
                });
            }
        }
    }
    examples
}

fn suite() -> SuiteInfo {
    SuiteInfo {
        name: "fixture".to_owned(),
        description: "Numbers by rule, to look at every part of a report.".to_owned(),
        digest: "0f".repeat(32),
        seeds: SEEDS.to_vec(),
        generator: "stub:generator".to_owned(),
        temperature: 0.7,
        top_p: 1.0,
        top_k: None,
        attempts: 3,
        retry_identical: true,
        retry_temperature: 0.7,
        guards: "warn".to_owned(),
        on_failure: "keep_original".to_owned(),
        metrics: "mteb-v2 (mteb 2.20)".to_owned(),
        transformations: transformations()
            .into_iter()
            .map(|(transformation, label, axis, _)| TransformationInfo {
                label: label.to_owned(),
                axis,
                transformation,
                needs_generator: axis != Axis::Augmentation,
                prompt_version: if axis == Axis::Augmentation {
                    String::new()
                } else {
                    format!("{label}@2")
                },
                prompt_digest: if axis == Axis::Augmentation {
                    String::new()
                } else {
                    "ab".repeat(32)
                },
            })
            .collect(),
    }
}

fn encoder(e: usize) -> EncoderInfo {
    EncoderInfo {
        id: ENCODERS[e].0.to_owned(),
        revision: "main".to_owned(),
        weights_digest: format!("{e}c").repeat(32),
        vector_space: format!("{e}d").repeat(32),
        architecture: "bert".to_owned(),
        dimensions: 384,
        max_tokens: 256,
        pooling: "mean".to_owned(),
        normalised: true,
        prompt: String::new(),
        prompts: Vec::new(),
        unused_prompts: Vec::new(),
        baseline: e == 0,
        variant: None,
    }
}

fn dataset(d: usize) -> DatasetInfo {
    let (name, task, language, _) = DATASETS[d];
    DatasetInfo {
        name: name.to_owned(),
        group: name.to_owned(),
        task,
        source: format!("hub:mteb/{}", name.to_lowercase()),
        split: "test".to_owned(),
        language: language.map(str::to_owned),
        languages: language.map(str::to_owned).into_iter().collect(),
        items: 100,
        texts: 200,
        transformed_texts: 160 + 40 * d,
        digest: format!("{d}e").repeat(32),
        revision: None,
        // One data set is a sample of its rows.
        sample: (d == 2).then_some(Sample {
            rows: 100,
            of: 4906,
            seed: 1337,
            by: None,
        }),
        main_score: main_score(task).to_owned(),
    }
}

/// Ratings on one scale, worse for larger losses, and drift that approximately follows them.
fn separation() -> SeparationReport {
    let row = |share: f64, texts: u64| {
        let drawn = (share * texts as f64).round() as u64;
        SeparationRow {
            texts,
            comparisons: texts * 3,
            separation: Some(share),
            drawn_separated: drawn,
            low: Some(clopper_pearson_lower(drawn, texts, 0.025)),
            high: Some(clopper_pearson_upper(drawn, texts, 0.025)),
            tied: 2,
            margin: Some(share / 4.0 - 0.125),
            overlap_alone: Some(0.375),
            nearer_than_change: Some(0.0625),
            ..SeparationRow::default()
        }
    };
    let encoders = ENCODERS.iter().enumerate().map(|(e, (name, _, _))| {
        // The last encoder sees no differences.
        let share = if e == 3 { 0.25 } else { 0.875 - e as f64 / 16.0 };
        EncoderSeparation {
            encoder: (*name).to_owned(),
            overall: row(share, 320),
            kinds: Kind::ALL
                .into_iter()
                .map(|kind| SeparationRow {
                    kind: Some(kind),
                    ..row(share, 96)
                })
                .collect(),
            strata: Stratum::ALL
                .into_iter()
                .map(|stratum| SeparationRow {
                    stratum: Some(stratum),
                    ..row(share, 64)
                })
                .collect(),
            datasets: vec![SeparationRow {
                dataset: Some("SICK-R".to_owned()),
                ..row(share, 128)
            }],
            transformations: vec![SeparationRow {
                transformation: Some("paraphrase".to_owned()),
                ..row(share, 320)
            }],
            cells: Vec::new(),
        }
    });
    SeparationReport {
        kinds: Kind::ALL.to_vec(),
        seed: 1337,
        texts_per_dataset: 200,
        most_words: 60,
        resolution: 1e-6,
        transformations: vec!["paraphrase".to_owned()],
        coverage: vec![
            SeparationCoverage {
                dataset: "SICK-R".to_owned(),
                kind: Kind::Number,
                texts: 41,
                asked: None,
            },
            SeparationCoverage {
                dataset: "SICK-R".to_owned(),
                kind: Kind::Distractors,
                texts: 190,
                asked: Some(CopyCounts {
                    asked: 200,
                    failed: 8,
                    failed_checks: [("too_few".to_owned(), 8)].into(),
                    equal: 3,
                    unlike: 61,
                    copies: 704,
                    ..CopyCounts::default()
                }),
            },
        ],
        encoders: encoders.collect(),
    }
}

fn judge() -> JudgeReport {
    let scale = Scale::Similarity;
    let places = || std::iter::once(None).chain((0..DATASETS.len()).map(Some));
    let name = |d: Option<usize>| d.map(|d| DATASETS[d].0.to_owned());
    let mut ratings = Vec::new();
    let mut drift = Vec::new();
    for (t, (_, label, _, effect)) in transformations().iter().enumerate() {
        for d in places() {
            let many = if d.is_some() { 1 } else { 6 };
            let mean = 4.8 + effect * 0.06 + 0.3 * noise([d.unwrap_or(9), t, 3, 1]);
            ratings.push(RatingRow {
                accepted: Some((148 - 3 * t as u64) * many),
                scale,
                transformation: (*label).to_owned(),
                dataset: name(d),
                asked: 780 * many,
                unchanged: 12 * many,
                drawn: 150 * many,
                unreadable: if t == 3 { 2 * many } else { 0 },
                failed: 0,
                texts: 50 * many,
                mean: Some(mean),
                sd: Some(0.7),
            });
        }
    }
    for (e, (encoder, ..)) in ENCODERS.iter().enumerate() {
        for (t, (_, label, _, effect)) in transformations().iter().enumerate() {
            for d in places() {
                let many = if d.is_some() { 1 } else { 6 };
                // A row for which no correlation is defined.
                let flat = t == 4;
                let rho = -0.2 + 0.5 * noise([e, t, d.unwrap_or(9), 5]);
                let half = 1.9 / f64::from(50 * many).sqrt();
                if flat && d.is_some() {
                    continue;
                }
                drift.push(DriftRating {
                    scale,
                    encoder: (*encoder).to_owned(),
                    transformation: (*label).to_owned(),
                    dataset: name(d),
                    texts: 50 * u64::from(many as u32),
                    mean_rating: Some(4.8 + effect * 0.06),
                    mean_drift: Some(0.05 - effect * 0.018),
                    spearman: (!flat).then_some(rho),
                    low: (!flat).then_some(rho - half),
                    high: (!flat).then_some(rho + half),
                    undefined_resamples: 0,
                    note: flat.then(|| "every text is rated 5: no correlation is defined".to_owned()),
                });
            }
        }
    }
    JudgeReport {
        versions: BTreeMap::new(),
        accept: Some(3.0),
        probes: ProbeKind::ALL
            .map(|kind| ProbeResult {
                kind,
                asked: 8,
                right: 8,
                mean: Some(if kind == ProbeKind::Unrelated { 0.5 } else { 4.75 }),
            })
            .to_vec(),
        inseparable: None,
        id: "stub:judge".to_owned(),
        digest: "99".repeat(32),
        seed: 1337,
        attempts: 3,
        sample: 50,
        scales: vec![JudgedScale {
            scale,
            low: 1,
            high: 5,
            prompt_version: "judge_similarity@1".to_owned(),
            prompt_digest: "cd".repeat(32),
        }],
        own_texts: Vec::new(),
        ratings,
        drift,
    }
}

/// Changed texts and accepted rewrites of every encoder.
fn subsets() -> Vec<SubsetReport> {
    let row = |e: usize, of: &str, all: f64, chosen: f64| SubsetRow {
        encoder: ENCODERS[e].0.to_owned(),
        of: of.to_owned(),
        groups: DATASETS.len(),
        all: Some(all),
        chosen: Some(chosen),
        items: 5_400,
        of_items: 5_760,
    };
    vec![
        SubsetReport {
            texts: Texts::Changed,
            accept: None,
            refused: None,
            rows: (0..ENCODERS.len())
                .flat_map(|e| {
                    [
                        row(e, "total", -6.0 - e as f64, -6.5 - e as f64),
                        row(e, "lexical", -3.0, -3.25),
                    ]
                })
                .collect(),
        },
        SubsetReport {
            texts: Texts::Accepted,
            accept: Some(3.0),
            refused: None,
            rows: (0..ENCODERS.len())
                .map(|e| row(e, "total", -6.0 - e as f64, -4.5 - e as f64))
                .collect(),
        },
    ]
}

/// Two rules; the first has each of its three verdicts. The second is on the default basis, and its
/// estimate is that of the profile.
fn gate(profile: &RobustnessProfile) -> GateReport {
    let rule = GateRule {
        title: "total: drop of at most 9".to_owned(),
        kind: RuleKind::MaxDrop,
        limit: 9.0,
        fail_at: None,
        unit: "points".to_owned(),
        of: "total".to_owned(),
        task: None,
        dataset: None,
        form: None,
        datasets: DATASETS.map(|one| one.0.to_owned()).to_vec(),
        basis: Basis::SignedRank,
        over: Some(Unit::Group),
        max_unchanged: Some(0.1),
        max_near_copies: Some(0.5),
        texts: Texts::All,
        max_cut: Some(0.9),
        max_shared: Some(0.1),
        min_accepted: Some(0.5),
        validity: BTreeMap::from([("max_guarded".to_owned(), 0.3)]),
        origin: "fixture.toml:12".to_owned(),
    };
    let controls = GateRule {
        title: "augmentation: drop of at most 25".to_owned(),
        limit: 25.0,
        fail_at: Some(20.0),
        of: "augmentation".to_owned(),
        basis: Basis::Bounded,
        over: Some(Unit::Item),
        ..rule.clone()
    };
    let of_controls = |e: usize| {
        let drop = -profile.encoders[e].axes.last().unwrap().moved.delta;
        RuleVerdict {
            verdict: GateVerdict::Pass,
            estimate: Some(drop),
            low: Some(drop - 2.0),
            high: Some(drop + 2.5),
            units: 600,
            over: Some(Unit::Item),
            seeds: 3,
            alpha: 0.05,
            round: 1,
            ..RuleVerdict::default()
        }
    };
    let says = |e: usize, verdict: GateVerdict, [estimate, low, high]: [f64; 3]| EncoderVerdict {
        encoder: ENCODERS[e].0.to_owned(),
        verdict,
        attempts: None,
        rules: vec![
            RuleVerdict {
                verdict,
                estimate: Some(estimate),
                low: Some(low),
                high: Some(high),
                units: 6,
                seeds: 3,
                alpha: 0.05,
                round: 1,
                units_needed: (verdict == GateVerdict::Undecided).then_some(14),
                ..RuleVerdict::default()
            },
            of_controls(e),
        ],
    };
    GateReport {
        verdict: GateVerdict::Fail,
        blocked: true,
        undecided: OnUndecided::Warn,
        alpha: 0.05,
        max_unchanged: Some(0.1),
        adjust: Adjust::None,
        rewrites_rated: Some(true),
        ratings_refused: None,
        unit: "data sets, seeds averaged first".to_owned(),
        baseline: None,
        rules: vec![rule, controls],
        encoders: vec![
            says(0, GateVerdict::Undecided, [8.9, 4.8, 12.6]),
            says(1, GateVerdict::Pass, [6.1, 3.1, 8.7]),
            says(2, GateVerdict::Fail, [12.9, 9.4, 16.0]),
            says(3, GateVerdict::Pass, [3.2, 1.1, 4.6]),
        ],
        sequential: None,
    }
}

/// Intervals by rule, narrow over items and wide over data sets.
fn intervals(mut profile: RobustnessProfile) -> RobustnessProfile {
    let interval = |centre: f64, half: f64, units: usize, method: &str| DeltaInterval {
        low: centre - half,
        high: centre + 1.2 * half,
        level: 0.95,
        standard_error: half / 2.0,
        units,
        method: method.to_owned(),
        note: None,
    };
    let fill = |moved: &mut Moved, half: f64, many: bool| {
        moved.intervals = DeltaIntervals {
            items: Some(interval(moved.delta, half, 600, "bootstrap of items")),
            datasets: many.then(|| interval(moved.delta, 3.0 * half, 6, "Student's t over groups of data sets")),
        };
    };
    for encoder in &mut profile.encoders {
        let transformations = encoder.transformations.iter_mut().map(|one| &mut one.moved);
        let axes = encoder.axes.iter_mut().map(|one| &mut one.moved);
        transformations
            .chain(axes)
            .chain(&mut encoder.total)
            .for_each(|moved| fill(moved, 0.9, true));
        for dataset in &mut encoder.datasets {
            dataset.original_interval = Some(interval(dataset.original, 2.5, 100, "bootstrap of items"));
            let transformations = dataset.transformations.iter_mut().map(|one| &mut one.moved);
            let axes = dataset.axes.iter_mut().map(|one| &mut one.moved);
            transformations
                .chain(axes)
                .chain(&mut dataset.total)
                .for_each(|moved| fill(moved, 1.8, false));
        }
    }
    profile
}

pub fn report() -> Report {
    let grid = grid();
    let profile = intervals(profile(&grid, Some(0)));
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        headline: Vec::new(),
        run: RunInfo {
            id: "00000000-0000-7000-8000-000000000000".to_owned(),
            created: "2026-11-21T10:00:00Z".parse().unwrap(),
            started: "2026-11-21T10:00:01Z".parse().unwrap(),
            finished: "2026-11-21T10:12:31Z".parse().unwrap(),
            seconds: 750.0,
        },
        suite: suite(),
        encoders: (0..ENCODERS.len()).map(encoder).collect(),
        generators: vec![GeneratorInfo {
            id: "stub:generator".to_owned(),
            digest: "77".repeat(32),
            versions: BTreeMap::new(),
        }],
        datasets: (0..DATASETS.len()).map(dataset).collect(),
        drop_shares: Vec::new(),
        subsets: subsets(),
        gate: Some(gate(&profile)),
        profile,
        judge: Some(judge()),
        separation: Some(separation()),
        checks: checks(),
        languages: isomer_report::LanguageReport::default(),
        error_rates: Vec::new(),
        drift: drift(),
        truncation: Vec::new(),
        scores: scores(&grid),
        examples: examples(),
        tables: Vec::new(),
        counters: Counters {
            texts_planned: 23_400,
            texts_generated: 18_000,
            texts_cached: 720,
            texts_by_rule: 4_680,
            generator_calls: 19_212,
            generator_tokens: 2_412_000,
            generated_tokens: 401_000,
            texts_encoded: 61_000,
            tokens_encoded: 1_204_000,
            scores_computed: 384,
            judge: Some(JudgeCounters {
                ratings_planned: 3_600,
                ratings_made: 3_500,
                ratings_cached: 100,
                ratings_missing: 12,
                calls: 3_530,
                tokens: 910_000,
                generated_tokens: 7_100,
                tokens_estimated: false,
            }),
            ..Counters::default()
        },
        durations: BTreeMap::from([("transform".to_owned(), 611.0), ("encode_and_score".to_owned(), 131.5)]),
        notes: Vec::new(),
        not_computed: Vec::new(),
        isomer_version: "0.1.0".to_owned(),
    };
    complete(&mut report);
    report
}
