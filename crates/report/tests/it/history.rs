//! The history of an encoder over reports: the compared checks, and the result of each look.

use std::path::Path;

use isomer_report::{
    GateVerdict, Report,
    history::{History, HistoryError, HistoryOptions, HistoryQuantity, files, history, json_schema, keep},
    profile::DatasetProfile,
    read, renamed,
};
use isomer_stats::{Alternative, wilcoxon_signed_rank};

use crate::schema_check::faults;

/// The committed report, stretched to `GROUPS` data sets.
const GROUPS: usize = 14;

fn fixture() -> Report {
    let path = Path::new(".").join("../../eval-svc/fixtures/report/report.json");
    let mut report = read(&std::fs::read(path).unwrap()).unwrap();
    let (info, row) = (report.datasets[0].clone(), report.scores[0].clone());
    let names: Vec<String> = (0..GROUPS).map(|n| format!("set-{n:02}")).collect();
    report.datasets = names
        .iter()
        .map(|name| {
            let mut own = info.clone();
            (own.name, own.group) = (name.clone(), String::new());
            own
        })
        .collect();
    report.encoders.iter_mut().for_each(|one| one.baseline = false);
    let mut scores = Vec::new();
    for profile in &mut report.profile.encoders {
        let own: DatasetProfile = profile.datasets[0].clone();
        profile.datasets = names
            .iter()
            .enumerate()
            .map(|(n, name)| {
                let mut own = own.clone();
                (own.dataset, own.original) = (name.clone(), 70.0 + n as f64);
                let total = own.total.as_mut().unwrap();
                total.mean = 65.0 + n as f64;
                own
            })
            .collect();
        for name in &names {
            let mut row = row.clone();
            (row.encoder, row.dataset) = (profile.encoder.clone(), name.clone());
            scores.push(row);
        }
    }
    report.scores = scores;
    report
}

fn name() -> String {
    fixture().encoders[0].id.clone()
}

/// A check of release `number`, whose transformed scores differ from the fixture's by `shift`, with
/// a small variation over data sets.
fn release(number: i64, shift: f64) -> Report {
    let mut report = fixture();
    report.run.id = format!("run-{number:02}");
    report.run.finished += jiff::SignedDuration::from_hours(number * 24);
    report.encoders[0].weights_digest = format!("weights-{number}");
    for (n, own) in report.profile.encoders[0].datasets.iter_mut().enumerate() {
        own.total.as_mut().unwrap().mean += shift + 0.01 * n as f64;
    }
    report
}

fn of(reports: &[Report], options: HistoryOptions) -> History {
    history(&name(), reports, options).unwrap()
}

fn why<'a>(found: &'a History, run: &str) -> &'a str {
    &found.left_out.iter().find(|one| one.run == run).unwrap().why
}

#[test]
fn each_release_is_tested_at_its_share_of_alpha_and_good_and_bad_ones_are_told() {
    // The order is arbitrary; the others are compared with the first.
    let reports = [release(2, -5.0), release(0, 0.0), release(3, 0.2), release(1, 0.1)];
    let found = of(&reports, HistoryOptions::default());
    let runs: Vec<&str> = found.releases.iter().map(|one| one.run.as_str()).collect();
    assert_eq!(runs, ["run-00", "run-01", "run-02", "run-03"]);
    assert!(found.releases[0].test.is_none() && !found.reference.baseline);
    let tests: Vec<_> = found.releases[1..]
        .iter()
        .map(|one| one.test.as_ref().unwrap())
        .collect();
    let verdicts: Vec<GateVerdict> = tests.iter().map(|test| test.verdict).collect();
    assert_eq!(verdicts, [GateVerdict::Pass, GateVerdict::Fail, GateVerdict::Pass]);
    for (look, test) in (1_u32..).zip(&tests) {
        let k = f64::from(look);
        assert_eq!((test.look, test.alpha), (u64::from(look), 0.05 / (k * (k + 1.0))));
    }
    // The difference of the first: 0.1 on each data set (both have the same small steps).
    let moved: Vec<f64> = (0..GROUPS).map(|_| 0.1 + 1.0).collect();
    let wanted = wilcoxon_signed_rank(&moved, Alternative::Greater).unwrap().p_value;
    assert!((tests[0].shift - 0.1).abs() < 1e-9);
    assert!(
        (tests[0].p_value.unwrap() - 0.5_f64.powi(GROUPS as i32)).abs() < 1e-9,
        "{wanted}"
    );
    assert!(
        found
            .headline
            .iter()
            .any(|told| told.contains("Worse by the margin or more: run-02"))
    );
}

#[test]
fn a_release_has_a_name_of_its_own() {
    let mut reports = [release(0, 0.0), release(1, 0.1), release(2, 0.1), release(3, 0.2)];
    let commit = "0123456789abcdef0123456789abcdef01234567";
    reports[0].encoders[0].revision = commit.to_owned();
    reports[1].encoders[0].weights_digest = "weights-0".to_owned();
    for (report, space) in reports.iter_mut().zip(["aaaaaa", "bbbbbb", "cccccc", "dddddd"]) {
        report.encoders[0].vector_space = space.to_owned();
    }
    reports[2].encoders[0].weights_digest = "weights-0".to_owned();
    let found = of(&reports, HistoryOptions::default());
    let names: Vec<&str> = found.releases.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["01234567", "weights- bbbb", "weights- cccc", "weights- dddd"]);
}

#[test]
fn looks_that_are_no_longer_kept_have_spent_their_share() {
    let reports = [release(0, 0.0), release(1, 0.1)];
    let verdict = |earlier| {
        let options = HistoryOptions {
            earlier,
            ..HistoryOptions::default()
        };
        let found = of(&reports, options);
        let test = found.releases[1].test.clone().unwrap();
        (test.look, test.verdict, found.notes.join(" "))
    };
    let (look, passed, notes) = verdict(0);
    assert_eq!((look, passed), (1, GateVerdict::Pass));
    assert!(notes.contains("--earlier"));
    // 2^-14 is below 0.05 / (27 x 28), and above 0.05 / (41 x 42).
    assert_eq!((verdict(26).0, verdict(26).1), (27, GateVerdict::Pass));
    let (look, late, notes) = verdict(40);
    assert_eq!((look, late), (41, GateVerdict::Undecided));
    assert!(
        notes.contains("14 groups of data sets are too few to pass a release from look 41 on, which takes 16"),
        "{notes}"
    );
    assert!(!notes.contains("--earlier"));
}

#[test]
fn checks_that_cannot_be_compared_are_left_out_with_the_reason() {
    let changed = |number: i64, change: &dyn Fn(&mut Report)| {
        let mut report = release(number, 0.1);
        change(&mut report);
        report
    };
    let reports = [
        release(0, 0.0),
        changed(1, &|report| report.suite.digest = "another".to_owned()),
        changed(2, &|report| report.suite.metrics = "another".to_owned()),
        changed(3, &|report| report.datasets[2].digest = "another".to_owned()),
        changed(4, &|report| report.scores[3].texts_digest = "another".to_owned()),
        changed(5, &|report| {
            report.scores.remove(0);
        }),
        changed(6, &|report| report.encoders[0].weights_digest = "weights-0".to_owned()),
        changed(7, &|report| report.encoders[1].baseline = true),
        // The control: the same without any change.
        release(8, 0.1),
    ];
    let found = of(&reports, HistoryOptions::default());
    let runs: Vec<&str> = found.releases.iter().map(|one| one.run.as_str()).collect();
    assert_eq!(runs, ["run-00", "run-08"]);
    for (run, told) in [
        ("run-01", "another suite"),
        ("run-02", "another metric profile"),
        ("run-03", "set-02 has other content"),
        ("run-04", "its texts differ"),
        ("run-05", "other texts"),
        ("run-06", "checks the release of run run-00 again"),
        ("run-07", "it has the baseline"),
    ] {
        assert!(why(&found, run).contains(told), "{run}: {}", why(&found, run));
    }
    assert_eq!(
        found.releases[1].test.as_ref().unwrap().look,
        1,
        "what is left out spends nothing"
    );
    // Releases with unknown weights digests are not considered equal.
    let unstated = [1, 2, 3].map(|number| changed(number, &|report| report.encoders[0].weights_digest = String::new()));
    let found = of(&unstated, HistoryOptions::default());
    assert_eq!(found.releases.len(), 3);
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("does not state its weights"))
    );
    // An older suite is selected by a prefix of its digest.
    let options = HistoryOptions {
        suite: Some("anoth".to_owned()),
        ..HistoryOptions::default()
    };
    assert_eq!(of(&reports, options).releases[0].run, "run-01");
}

#[test]
fn a_baseline_of_every_check_is_what_releases_are_held_against() {
    let with = |number: i64, shift: f64| {
        let mut report = release(number, shift);
        report.encoders[1].baseline = true;
        report
    };
    let reports = [with(0, -5.0), with(1, 0.1)];
    let found = of(&reports, HistoryOptions::default());
    assert!(found.reference.baseline);
    assert_eq!(found.reference.encoder, reports[0].encoders[1].id);
    let verdicts: Vec<GateVerdict> = found
        .releases
        .iter()
        .map(|one| one.test.as_ref().unwrap().verdict)
        .collect();
    assert_eq!(verdicts, [GateVerdict::Fail, GateVerdict::Pass]);
    let first = HistoryOptions {
        against_first: true,
        ..HistoryOptions::default()
    };
    let found = of(&reports, first);
    assert!(found.releases[0].test.is_none() && !found.reference.baseline);
    // The scores of the original texts have not changed.
    let original = HistoryOptions {
        of: HistoryQuantity::Original,
        ..HistoryOptions::default()
    };
    assert_eq!(of(&reports, original).releases[0].test.as_ref().unwrap().shift, 0.0);
}

/// A check of version `number` of a registry's model, compared with a champion if there is one.
fn version(number: i64, shift: f64, champion: Option<u32>) -> Report {
    let mut report = release(number, shift);
    let baseline = report.encoders[1].id.clone();
    report.encoders[1].baseline = champion.is_some();
    let mut names = vec![(name(), format!("models:/enc/{number}"))];
    names.extend(champion.map(|champion| (baseline, format!("models:/enc/{champion}"))));
    renamed(&report, &names).unwrap()
}

#[test]
fn versions_of_a_registrys_model_are_releases_of_one_encoder() {
    let options = HistoryOptions::default;
    let reports = [version(10, 0.0, None), version(11, 0.1, None), version(12, -5.0, None)];
    let found = history("models:/enc", &reports, options()).unwrap();
    let verdicts: Vec<Option<GateVerdict>> = found
        .releases
        .iter()
        .map(|one| one.test.as_ref().map(|test| test.verdict))
        .collect();
    assert_eq!(verdicts, [None, Some(GateVerdict::Pass), Some(GateVerdict::Fail)]);
    assert_eq!(found.releases[2].weights_digest, "weights-12");

    // A version is compared with a champion of the same model, not with itself.
    let reports = [version(11, 0.1, Some(10)), version(12, -5.0, Some(10))];
    let found = history("models:/enc", &reports, options()).unwrap();
    assert_eq!(
        (found.reference.encoder.as_str(), found.reference.baseline),
        ("models:/enc/10", true)
    );
    assert_eq!(found.releases.len(), 2);

    // A model whose name has the same prefix is a different model, and so is a folder.
    for other in ["models:/en", "models:/enc/1", "models:/encoder"] {
        assert!(
            matches!(history(other, &reports, options()), Err(HistoryError::NoEncoder { .. })),
            "{other}"
        );
    }
    assert!(history("models:/enc/11", &reports, options()).is_ok());
}

#[test]
fn what_is_kept_of_a_report_gives_the_same_history() {
    let reports: Vec<Report> = (0..4).map(|number| release(number, 0.1)).collect();
    let mut kept = reports.clone();
    kept.iter_mut().for_each(keep);
    assert!(kept[0].examples.is_empty() && kept != reports);
    assert_eq!(
        of(&kept, HistoryOptions::default()),
        of(&reports, HistoryOptions::default())
    );
}

#[test]
fn what_cannot_be_told_is_refused_or_invalid() {
    let reports = [release(0, 0.0), release(1, 0.1)];
    let none = history("nobody", &reports, HistoryOptions::default()).unwrap_err();
    assert!(
        matches!(&none, HistoryError::NoEncoder { .. }) && none.to_string().contains("`nobody`"),
        "{none}"
    );
    let suite = HistoryOptions {
        suite: Some("zz".to_owned()),
        ..HistoryOptions::default()
    };
    assert!(matches!(
        history(&name(), &reports, suite),
        Err(HistoryError::NoSuite { .. })
    ));
    for (margin, alpha) in [(-1.0, 0.05), (f64::NAN, 0.05), (1.0, 0.0), (1.0, 0.5), (1.0, f64::NAN)] {
        let options = HistoryOptions {
            margin,
            alpha,
            ..HistoryOptions::default()
        };
        assert!(matches!(
            history(&name(), &reports, options),
            Err(HistoryError::Option { .. })
        ));
    }
    let mut bare = release(2, 0.1);
    bare.profile.encoders[0].datasets[3].total = None;
    let found = of(&[release(0, 0.0), bare], HistoryOptions::default());
    let test = found.releases[1].test.as_ref().unwrap();
    assert_eq!(test.verdict, GateVerdict::Invalid);
    assert!(
        test.note
            .as_ref()
            .unwrap()
            .contains("set-03 has no score of transformed texts")
    );
}

#[test]
fn every_form_has_the_releases_and_the_schema_is_that_of_the_types() {
    let derived = json_schema();
    let path = Path::new(".").join("../../eval-svc/schema/history-1.json");
    if std::env::var_os("ISOMER_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&derived).unwrap() + "\n").unwrap();
    }
    let published: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(published, derived, "write it anew with ISOMER_BLESS=1");
    let mut reports: Vec<Report> = (0..24).map(|number| release(number, -0.2 * number as f64)).collect();
    reports[3].suite.digest = "another".to_owned();
    reports[5].run.id = "<i>run</i>".to_owned();
    let found = of(&reports, HistoryOptions::default());
    let forms = files(&found).unwrap();
    let text = |name: &str| {
        let form = forms.iter().find(|(own, _)| *own == name).unwrap();
        String::from_utf8(form.1.clone()).unwrap()
    };
    if let Ok(folder) = std::env::var("ISOMER_KEEP_REPORTS") {
        for (name, content) in &forms {
            std::fs::write(format!("{folder}/{name}"), content).unwrap();
        }
    }
    let mut value: serde_json::Value = serde_json::from_str(&text("history.json")).unwrap();
    assert_eq!(serde_json::from_value::<History>(value.clone()).unwrap(), found);
    assert_eq!(faults(&derived, &value), Vec::<String>::new());
    value["releases"][0]["original"] = "high".into();
    assert!(!faults(&derived, &value).is_empty(), "the check can fail");
    let page = text("history.html");
    assert!(!page.contains("<i>run") && page.contains("&lt;i&gt;run"), "escaped");
    assert!(!page.contains("<script") && !page.contains("src=") && page.contains("releases-title"));
    assert_eq!(page.matches("<circle").count(), 2 * 23, "two dots a release");
    let markdown = text("history.md");
    for told in ["## Releases", "## Left out", "another suite", "run-23"] {
        assert!(
            markdown.contains(told) && page.contains(told.trim_start_matches("## ")),
            "{told}"
        );
    }
    assert!(!markdown.contains("NaN") && !page.contains("NaN"));
}
