//! The result as tables of texts.

use super::{AverageGain, CosineRow, Gain, GainRow, GainStrata, Gains, MeanCosine, TaskGains, TimeRow};
use crate::{
    format::{count, ends, fine, signed, signed_fine},
    text_table::{TextTable, dash, heads},
};

/// All tables that have rows.
pub fn tables(gains: &Gains) -> Vec<TextTable> {
    let mut all: Vec<TextTable> = gains.tasks.iter().map(averages).collect();
    all.push(by_dataset(gains));
    all.push(cosines(&gains.cosines));
    all.push(times(&gains.times));
    all.extend(gains.strata.iter().map(strata));
    all.retain(|table| !table.rows.is_empty());
    all
}

fn setting(name: Option<&String>) -> String {
    name.map_or_else(|| "none".to_owned(), Clone::clone)
}

/// The gain with its interval over items.
fn over_items(gain: Option<&Gain>) -> String {
    gain.map_or_else(dash, |gain| match &gain.intervals.items {
        Some(found) => format!("{} {}", signed_fine(gain.value), ends(found)),
        None => signed_fine(gain.value),
    })
}

fn averages(task: &TaskGains) -> TextTable {
    let timed = task.rows.iter().any(|row| row.milliseconds_per_text.is_some());
    let mut head = vec![
        "Encoder",
        "Augmentation",
        "k",
        "Score",
        "Gain",
        "Other data sets",
        "Tokens/text",
    ];
    if timed {
        head.push("ms/text");
    }
    head.push("Front");
    let row = |row: &AverageGain| {
        let datasets = row.gain.as_ref().and_then(|gain| gain.intervals.datasets.as_ref());
        let mut cells = vec![
            row.encoder.clone(),
            setting(row.setting.as_ref()),
            row.k.to_string(),
            format!("{}{}", fine(row.score), if row.best { " *" } else { "" }),
            over_items(row.gain.as_ref()),
            datasets.map_or_else(dash, ends),
            fine(row.tokens_per_text),
        ];
        if timed {
            cells.push(row.milliseconds_per_text.map_or_else(dash, fine));
        }
        cells.push(match (row.on_token_front, row.on_time_front) {
            (true, Some(true)) => "tokens, ms".to_owned(),
            (true, _) => "tokens".to_owned(),
            (false, Some(true)) => "ms".to_owned(),
            (false, _) => dash(),
        });
        cells
    };
    TextTable {
        title: format!("Average: {} ({} x 100)", task.task, task.main_score),
        note: format!(
            "Mean over {} (GASE tables 1, 6, 9, 10). In brackets: 95 % intervals over other items of these data sets, \
             paired; then over other data sets. Front: no other row of the table has at least this score for no more \
             (generated tokens or milliseconds a text). *: highest score of the encoder.",
            crate::profile::counted(task.groups, task.datasets.len())
        ),
        head: heads(&head),
        words: 2,
        rows: task.rows.iter().map(row).collect(),
        detail: false,
    }
}

fn by_dataset(gains: &Gains) -> TextTable {
    let row = |row: &GainRow| {
        let work = row.work.as_ref();
        vec![
            row.dataset.clone(),
            row.encoder.clone(),
            setting(row.setting.as_ref()),
            fine(row.score),
            over_items(row.gain.as_ref()),
            work.map_or_else(dash, |work| work.variants.to_string()),
            work.map_or_else(dash, |work| missing(work.missing, &work.missing_reasons)),
        ]
    };
    let mut rows: Vec<&GainRow> = gains.rows.iter().collect();
    let place = |name: &str| gains.datasets.iter().position(|dataset| dataset.name == name);
    rows.sort_by_key(|row| place(&row.dataset));
    TextTable {
        title: "By data set".to_owned(),
        note: "Main score x 100 and gain over plain vectors (GASE tables 13, 15 to 19), with its 95 % interval over other \
               items of the data set, paired."
            .to_owned(),
        head: heads(&["Data set", "Encoder", "Augmentation", "Score", "Gain", "Variants", "Missing"]),
        words: 3,
        rows: rows.into_iter().map(row).collect(),
        detail: false,
    }
}

fn missing(missing: u64, reasons: &std::collections::BTreeMap<String, u64>) -> String {
    if missing == 0 {
        return "0".to_owned();
    }
    let reasons: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    format!("{missing} ({})", reasons.join(", "))
}

fn cosines(rows: &[CosineRow]) -> TextTable {
    let shown = |mean: &MeanCosine| match &mean.interval {
        Some(found) => format!("{} [{}, {}]", fine(mean.value), fine(found.low), fine(found.high)),
        None => fine(mean.value),
    };
    TextTable {
        title: "Cosine of texts and their variants".to_owned(),
        note: "Mean over pairs x 100 (GASE table 5), with its 95 % interval over other pairs. A variant is taken by itself, \
               not pooled with its text; pairs that lack a variant are left out of the columns that take it."
            .to_owned(),
        head: heads(&[
            "Data set",
            "Encoder",
            "Augmentation",
            "Text 1 to variant",
            "Text 2 to variant",
            "Variant to variant",
            "Text to text",
            "Pairs",
        ]),
        words: 3,
        rows: rows
            .iter()
            .map(|row| {
                vec![
                    row.dataset.clone(),
                    row.encoder.clone(),
                    row.setting.clone(),
                    shown(&row.original_variant_1),
                    shown(&row.original_variant_2),
                    shown(&row.variants),
                    shown(&row.originals),
                    count(row.variants.pairs),
                ]
            })
            .collect(),
        detail: false,
    }
}

fn times(rows: &[TimeRow]) -> TextTable {
    TextTable {
        title: "Time".to_owned(),
        note: "Seconds to encode all texts of a run, generation included and no generated text from a cache (GASE table 20): \
               mean, sample standard deviation over runs, and 95 % interval of the mean. From caches: vectors that were not \
               computed, so that the time is too short."
            .to_owned(),
        head: heads(&[
            "Data set",
            "Encoder",
            "Augmentation",
            "Runs",
            "Seconds",
            "SD",
            "Interval",
            "ms/text",
            "From caches",
        ]),
        words: 3,
        rows: rows
            .iter()
            .map(|row| {
                vec![
                    row.dataset.clone(),
                    row.encoder.clone(),
                    setting(row.setting.as_ref()),
                    row.runs.to_string(),
                    format!("{:.3}", row.seconds),
                    row.sd.map_or_else(dash, |sd| format!("{sd:.3}")),
                    row.interval
                        .map_or_else(dash, |own| format!("[{:.3}, {:.3}]", own.low, own.high)),
                    fine(row.milliseconds_per_text),
                    row.cached.to_string(),
                ]
            })
            .collect(),
        detail: false,
    }
}

fn strata(own: &GainStrata) -> TextTable {
    let by = match own.by.as_str() {
        "words" => "words of the text",
        "gap" => "similarity of the best document less the second, plain",
        _ => "similarity of the pair, plain",
    };
    let number = |value: f64| {
        if own.by == "words" {
            fine(value).trim_end_matches(".00").to_owned()
        } else {
            format!("{value:.4}").replacen('-', "−", 1)
        }
    };
    let mut note =
        format!("Scores x 100 of the items of each part alone, by {by}; 95 % intervals over other items, paired.");
    if let Some(contrast) = &own.upper_less_lower {
        let found = contrast
            .intervals
            .items
            .as_ref()
            .map_or_else(String::new, |found| format!(" {}", ends(found)));
        note.push_str(&format!(
            " Gain on the upper half less gain on the lower half: {}{found}.",
            signed(contrast.value)
        ));
    }
    if let Some(more) = &own.note {
        note.push_str(&format!(" There are {more}."));
    }
    TextTable {
        title: format!(
            "Gains by stratum: {}, {}, {}, by {}",
            own.dataset, own.encoder, own.setting, own.by
        ),
        note,
        head: heads(&["From", "To", "Items", "Plain", "Augmented", "Gain"]),
        words: 0,
        rows: own
            .strata
            .iter()
            .map(|one| {
                let gain = one.gain.map_or_else(dash, signed_fine);
                vec![
                    number(one.low),
                    number(one.high),
                    count(one.items),
                    one.plain.map_or_else(dash, fine),
                    one.augmented.map_or_else(dash, fine),
                    match &one.interval {
                        Some(found) => format!("{gain} {}", ends(found)),
                        None => gain,
                    },
                ]
            })
            .collect(),
        detail: true,
    }
}
