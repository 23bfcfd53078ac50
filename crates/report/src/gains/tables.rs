//! The result as tables of texts.

use super::{
    AverageGain, CosineRow, Gain, GainRow, GainStrata, GainWork, Gains, MeanCosine, Stratum, TaskGains, TimeRow,
};
use crate::{
    format::{count, ends, fine, signed, signed_fine},
    text_table::{TextTable, dash},
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
    let datasets = |row: &AverageGain| row.gain.as_ref()?.intervals.datasets.as_ref().map(ends);
    let mut table = TextTable::of(&task.rows)
        .words("Encoder", |row| row.encoder.clone())
        .words("Augmentation", |row| setting(row.setting.as_ref()))
        .number("k", |row| row.k.to_string())
        .number("Score", |row| {
            format!("{}{}", fine(row.score), if row.best { " *" } else { "" })
        })
        .number("Gain", |row| over_items(row.gain.as_ref()))
        .number("Other data sets", |row| datasets(row).unwrap_or_else(dash))
        .number("Tokens/text", |row| fine(row.tokens_per_text));
    if timed {
        table = table.number("ms/text", |row| row.milliseconds_per_text.map_or_else(dash, fine));
    }
    table = table.number("Front", |row| match (row.on_token_front, row.on_time_front) {
        (true, Some(true)) => "tokens, ms".to_owned(),
        (true, _) => "tokens".to_owned(),
        (false, Some(true)) => "ms".to_owned(),
        (false, _) => dash(),
    });
    table.titled(
        format!("Average: {} ({} x 100)", task.task, task.main_score),
        format!(
            "Mean over {} (GASE tables 1, 6, 9, 10). In brackets: 95 % intervals over other items of these data sets, \
             paired; then over other data sets. Front: no other row of the table has at least this score for no more \
             (generated tokens or milliseconds a text). *: highest score of the encoder.",
            crate::profile::counted(task.groups, task.datasets.len())
        ),
    )
}

fn by_dataset(gains: &Gains) -> TextTable {
    let mut rows: Vec<&GainRow> = gains.rows.iter().collect();
    let place = |name: &str| gains.datasets.iter().position(|dataset| dataset.name == name);
    rows.sort_by_key(|row| place(&row.dataset));
    let of_work = |row: &GainRow, shown: fn(&GainWork) -> String| row.work.as_ref().map_or_else(dash, shown);
    TextTable::of(rows)
        .words("Data set", |row| row.dataset.clone())
        .words("Encoder", |row| row.encoder.clone())
        .words("Augmentation", |row| setting(row.setting.as_ref()))
        .number("Score", |row| fine(row.score))
        .number("Gain", |row| over_items(row.gain.as_ref()))
        .number("Variants", |row| of_work(row, |work| work.variants.to_string()))
        .number("Missing", |row| of_work(row, |work| missing(work.missing, &work.missing_reasons)))
        .titled(
            "By data set",
            "Main score x 100 and gain over plain vectors (GASE tables 13, 15 to 19), with its 95 % interval over other \
             items of the data set, paired.",
        )
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
    TextTable::of(rows)
        .words("Data set", |row| row.dataset.clone())
        .words("Encoder", |row| row.encoder.clone())
        .words("Augmentation", |row| row.setting.clone())
        .number("Text 1 to variant", |row| shown(&row.original_variant_1))
        .number("Text 2 to variant", |row| shown(&row.original_variant_2))
        .number("Variant to variant", |row| shown(&row.variants))
        .number("Text to text", |row| shown(&row.originals))
        .number("Pairs", |row| count(row.variants.pairs))
        .titled(
            "Cosine of texts and their variants",
            "Mean over pairs x 100 (GASE table 5), with its 95 % interval over other pairs. A variant is taken by itself, \
             not pooled with its text; pairs that lack a variant are left out of the columns that take it.",
        )
}

fn times(rows: &[TimeRow]) -> TextTable {
    TextTable::of(rows)
        .words("Data set", |row| row.dataset.clone())
        .words("Encoder", |row| row.encoder.clone())
        .words("Augmentation", |row| setting(row.setting.as_ref()))
        .number("Runs", |row| row.runs.to_string())
        .number("Seconds", |row| format!("{:.3}", row.seconds))
        .number("SD", |row| row.sd.map_or_else(dash, |sd| format!("{sd:.3}")))
        .number("Interval", |row| {
            row.interval.map_or_else(dash, |own| format!("[{:.3}, {:.3}]", own.low, own.high))
        })
        .number("ms/text", |row| fine(row.milliseconds_per_text))
        .number("From caches", |row| row.cached.to_string())
        .titled(
            "Time",
            "Seconds to encode all texts of a run, generation included and no generated text from a cache (GASE table 20): \
             mean, sample standard deviation over runs, and 95 % interval of the mean. From caches: vectors that were not \
             computed, so that the time is too short.",
        )
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
    let gain = |one: &Stratum| {
        let gain = one.gain.map_or_else(dash, signed_fine);
        match &one.interval {
            Some(found) => format!("{gain} {}", ends(found)),
            None => gain,
        }
    };
    let table = TextTable::of(&own.strata)
        .number("From", |one| number(one.low))
        .number("To", |one| number(one.high))
        .number("Items", |one| count(one.items))
        .number("Plain", |one| one.plain.map_or_else(dash, fine))
        .number("Augmented", |one| one.augmented.map_or_else(dash, fine))
        .number("Gain", gain);
    let title = format!(
        "Gains by stratum: {}, {}, {}, by {}",
        own.dataset, own.encoder, own.setting, own.by
    );
    TextTable {
        detail: true,
        ..table.titled(title, note)
    }
}
