//! Gains by augmentation against numpy and scipy (`fixtures/gains/golden.py`), the published
//! schema, and the output formats.

use std::path::Path;

use isomer_report::gains::{
    GainCell, GainDataset, GainInput, GainSetting, GainTiming, Gains, files, gains, json_schema, tables,
};
use isomer_scoring::task::TaskType;
use serde_json::Value;

use crate::schema_check::faults;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../../eval-svc/fixtures/gains/golden.json")).unwrap()
}

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

fn input(golden: &Value) -> GainInput {
    let dataset = |own: &Value| GainDataset {
        name: own["name"].as_str().unwrap().to_owned(),
        group: own["group"].as_str().unwrap().to_owned(),
        language: String::new(),
        task: TaskType::Sts,
        main_score: "cosine_spearman".to_owned(),
        digest: "d".to_owned(),
        items: 0,
        clusters: 0,
    };
    let setting = |name: String| GainSetting {
        transformations: vec![name.clone()],
        generators: vec![String::new()],
        k: 1,
        pooling: "mean".to_owned(),
        queries_only: false,
        name,
    };
    let cells: Vec<GainCell> = serde_json::from_value(golden["cells"].clone()).unwrap();
    GainInput {
        encoders: texts(&golden["encoders"]),
        datasets: golden["datasets"].as_array().unwrap().iter().map(dataset).collect(),
        settings: texts(&golden["settings"]).into_iter().map(setting).collect(),
        cells,
        timings: vec![GainTiming {
            encoder: "weak".to_owned(),
            dataset: "other".to_owned(),
            setting: None,
            seconds: serde_json::from_value(golden["timing"]["seconds"].clone()).unwrap(),
            texts: serde_json::from_value(golden["timing"]["texts"].clone()).unwrap(),
            cached: 0,
        }],
        profile: "mteb-v2".to_owned(),
        notes: vec!["a note".to_owned()],
    }
}

/// Without the columns by which items are divided, which take most of the time.
fn without_columns(mut input: GainInput) -> GainInput {
    input.cells.iter_mut().for_each(|cell| cell.columns.clear());
    input
}

#[track_caller]
fn near(found: f64, expected: &Value, tolerance: f64, what: &str) {
    let expected = expected.as_f64().unwrap();
    assert!(
        (found - expected).abs() <= tolerance,
        "{what}: {found}, expected {expected}"
    );
}

fn all(golden: &Value, name: &str) -> Vec<Value> {
    golden["expected"][name].as_array().unwrap().clone()
}

#[test]
fn gains_means_and_standard_errors_are_those_of_numpy_and_scipy() {
    let golden = golden();
    let found = gains(&input(&golden)).unwrap();
    let expected = all(&golden, "gains");
    assert_eq!(expected.len(), 12);
    for one in expected {
        let row = found
            .rows
            .iter()
            .find(|row| {
                row.encoder == one["encoder"]
                    && row.dataset == one["dataset"]
                    && row.setting.as_deref() == one["setting"].as_str()
            })
            .unwrap();
        let gain = row.gain.as_ref().unwrap();
        near(gain.value, &one["gain"], 1e-9, "gain");
        let interval = gain.intervals.items.as_ref().unwrap();
        let error = one["standard_error"].as_f64().unwrap();
        // Two independent bootstraps, of 1,000 and 4,000 resamples.
        assert!(
            (interval.standard_error / error - 1.0).abs() < 0.1,
            "{} against {error}",
            interval.standard_error
        );
        assert!(interval.low < gain.value && gain.value < interval.high);
        let width = interval.high - interval.low;
        assert!((3.4..4.6).contains(&(width / error)), "{width} of {error}");
    }
    let task = &found.tasks[0];
    assert_eq!((task.groups, task.datasets.len(), found.tasks.len()), (2, 3, 1));
    for one in all(&golden, "means") {
        let row = task
            .rows
            .iter()
            .find(|row| row.encoder == one["encoder"] && row.setting.as_deref() == one["setting"].as_str())
            .unwrap();
        let gain = row.gain.as_ref().unwrap();
        near(gain.value, &one["gain"], 1e-9, "mean gain");
        let error = one["standard_error"].as_f64().unwrap();
        let items = gain.intervals.items.as_ref().unwrap();
        assert!((items.standard_error / error - 1.0).abs() < 0.1);
        let over = gain.intervals.datasets.as_ref().unwrap();
        let half = one["over_groups"].as_f64().unwrap();
        // By the spread of the groups the half width is exact; otherwise its error is that of the
        // bootstrap.
        let tolerance = if one["over_groups_by_spread"] == true {
            1e-6
        } else {
            0.1
        };
        let own = (over.high - over.low) / 2.0;
        assert!((own / half - 1.0).abs() < tolerance, "{own} against {half}");
        assert_eq!(over.units, 2);
    }
}

#[test]
fn which_texts_gain_and_cosines_and_times_are_those_of_numpy_and_scipy() {
    let golden = golden();
    let found = gains(&input(&golden)).unwrap();
    for one in all(&golden, "strata") {
        let own = found
            .strata
            .iter()
            .find(|own| {
                own.by == "words"
                    && own.encoder == one["encoder"]
                    && own.dataset == one["dataset"]
                    && own.setting == one["setting"]
            })
            .unwrap();
        let contrast = own.upper_less_lower.as_ref().unwrap();
        near(contrast.value, &one["upper_less_lower"], 1e-9, "upper less lower half");
        let items: usize = own.strata.iter().map(|part| part.items).sum();
        let pairs = found.datasets.iter().find(|set| set.name == own.dataset).unwrap().items;
        assert_eq!(items, pairs);
        // Paraphrases of this data help only texts of more than 20 words.
        if own.setting == "paraphrase" {
            assert!(contrast.intervals.items.as_ref().unwrap().low > 0.0);
            let last = own.strata.last().unwrap();
            assert!(last.low > 20.0 && last.interval.as_ref().unwrap().low > 0.0);
            let first = own.strata.first().unwrap();
            let interval = first.interval.as_ref().unwrap();
            assert!(
                first.high <= 20.0 && interval.low < 1.0 && interval.high > -1.0,
                "{first:?}"
            );
        }
    }
    for one in all(&golden, "cosines") {
        let row = found
            .cosines
            .iter()
            .find(|row| row.encoder == "weak" && row.dataset == one["dataset"] && row.setting == one["setting"])
            .unwrap();
        for (mean, name) in [
            (&row.original_variant_1, "cosine_original_variant_1"),
            (&row.original_variant_2, "cosine_original_variant_2"),
            (&row.variants, "cosine_variants"),
            (&row.originals, "cosine_originals"),
        ] {
            near(mean.value, &one[name], 1e-9, name);
            let interval = mean.interval.as_ref().unwrap();
            assert!(interval.low < mean.value && mean.value < interval.high);
        }
        // Pairs that lack a variant are excluded from every mean that needs it.
        assert!(row.variants.pairs < row.originals.pairs);
        assert_eq!(row.original_variant_2.pairs, row.originals.pairs);
    }
    let (time, expected) = (&found.times[0], &golden["expected"]["time"]);
    near(time.seconds, &expected["seconds"], 1e-12, "seconds");
    near(time.sd.unwrap(), &expected["sd"], 1e-12, "sd");
    near(time.interval.unwrap().low, &expected["low"], 1e-7, "low");
    near(time.interval.unwrap().high, &expected["high"], 1e-7, "high");
    near(
        time.milliseconds_per_text,
        &expected["milliseconds"],
        1e-9,
        "ms per text",
    );
}

#[test]
fn fronts_take_tokens_of_all_texts_and_times_only_where_they_are_whole() {
    let golden = golden();
    let mut input = without_columns(input(&golden));
    let found = gains(&input).unwrap();
    let rows = &found.tasks[0].rows;
    let row = |encoder: &str, setting: Option<&str>| {
        rows.iter()
            .find(|row| row.encoder == encoder && row.setting.as_deref() == setting)
            .unwrap()
    };
    assert_eq!(row("weak", Some("paraphrase")).tokens_per_text, 12.0);
    assert_eq!(row("weak", None).tokens_per_text, 0.0);
    // The strong encoder's plain vectors cost nothing and score higher than the weak one's.
    assert!(row("strong", None).on_token_front && !row("weak", None).on_token_front);
    assert!(row("strong", Some("paraphrase")).on_token_front);
    assert!(
        !row("strong", Some("keywords")).on_token_front,
        "it costs tokens and loses"
    );
    assert!(row("strong", Some("paraphrase")).best && !row("strong", None).best);
    // One data set of three was timed, so there is no mean time and no front.
    assert_eq!(
        (row("weak", None).milliseconds_per_text, row("weak", None).on_time_front),
        (None, None)
    );
    let timing = input.timings[0].clone();
    input.timings.clear();
    for dataset in &input.datasets {
        for encoder in &input.encoders {
            for setting in [None, Some("paraphrase"), Some("keywords")] {
                input.timings.push(GainTiming {
                    encoder: encoder.clone(),
                    dataset: dataset.name.clone(),
                    setting: setting.map(str::to_owned),
                    ..timing.clone()
                });
            }
        }
    }
    let timed = gains(&input).unwrap();
    let plain = &timed.tasks[0].rows[0];
    assert!((plain.milliseconds_per_text.unwrap() - 61.0).abs() < 1e-9 && plain.on_time_front.is_some());
    // With a cached vector, the time is too short to be reported.
    input.timings[0].cached = 1;
    let cached = gains(&input).unwrap();
    assert_eq!(cached.tasks[0].rows[0].milliseconds_per_text, None);
    assert_eq!(cached.times[0].cached, 1);
}

#[test]
fn a_score_that_does_not_follow_from_its_items_has_no_interval_and_says_why() {
    let golden = golden();
    let mut input = without_columns(input(&golden));
    assert!(gains(&input).unwrap().rows.iter().all(|row| row.no_interval.is_none()));
    input.cells[1].score += 0.01;
    let found = gains(&input).unwrap();
    let row = found.rows.iter().find(|row| row.setting.is_some()).unwrap();
    assert!(row.gain.as_ref().unwrap().intervals.items.is_none());
    assert!(row.no_interval.as_ref().unwrap().contains("its items give"), "{row:?}");
    // Then this encoder has none over data sets either; the other one keeps its own.
    let of = |encoder: &str| {
        let rows = found.tasks[0].rows.iter();
        rows.filter(|row| row.encoder == encoder)
            .filter_map(|row| row.gain.as_ref())
            .all(|gain| gain.intervals.items.is_some())
    };
    assert!(!of("weak") && of("strong"));
    // A missing plain score is an error that names it.
    input.cells.remove(0);
    let error = gains(&input).unwrap_err().to_string();
    assert!(error.contains("weak on many (en), plain"), "{error}");
}

#[test]
fn the_published_schema_is_that_of_the_types_and_the_files_are_valid() {
    let derived = json_schema();
    let path = Path::new(".").join("../../eval-svc/schema/gains-1.json");
    if std::env::var_os("ISOMER_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&derived).unwrap() + "\n").unwrap();
    }
    let published: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(published, derived, "write it anew with ISOMER_BLESS=1");
    assert_eq!(published["properties"]["schema"]["const"], "isomer.gains/1");
    let mut input = input(&golden());
    input.settings[0].name = "<b>paraphrase</b>".to_owned();
    for cell in &mut input.cells {
        if cell.setting.as_deref() == Some("paraphrase") {
            cell.setting = Some("<b>paraphrase</b>".to_owned());
        }
    }
    let found = gains(&input).unwrap();
    let forms = files(&found).unwrap();
    let text = |name: &str| {
        let form = forms.iter().find(|(own, _)| *own == name).unwrap();
        String::from_utf8(form.1.clone()).unwrap()
    };
    let mut value: Value = serde_json::from_str(&text("gains.json")).unwrap();
    assert_eq!(serde_json::from_value::<Gains>(value.clone()).unwrap(), found);
    assert_eq!(faults(&derived, &value), Vec::<String>::new());
    value["rows"][0]["score"] = "high".into();
    assert!(!faults(&derived, &value).is_empty(), "the check can fail");
    for form in ["gains.md", "gains.html"] {
        let page = text(form);
        for part in [
            "Average: sts",
            "By data set",
            "Cosine of texts",
            "Gains by stratum",
            "a note",
        ] {
            assert!(page.contains(part), "{part} in {form}");
        }
        assert!(!page.contains("<b>paraphrase"), "{form} escapes names");
    }
    let page = text("gains.html");
    let charts = found.tasks.len() * found.encoders.len();
    assert!(charts > 0 && !page.contains("NaN"));
    assert_eq!(page.matches("class=\"chart\"").count(), charts);
    for row in &found.tasks[0].rows {
        let name = row
            .setting
            .as_deref()
            .unwrap_or("plain")
            .replace("<b>", "&lt;b&gt;")
            .replace("</b>", "&lt;/b&gt;");
        assert!(page.contains(&format!(">\n{name}\n</text>")), "{name}");
    }
    assert_eq!(
        tables(&found).iter().filter(|table| table.detail).count(),
        found.strata.len()
    );
    assert!(
        found
            .headline
            .iter()
            .any(|sentence| sentence.contains("longer texts gain more"))
    );
}
