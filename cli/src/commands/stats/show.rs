//! The results of the tests, as a table and as a document. A missing number is a dash in the table
//! and null in the document.

use comfy_table::{Cell, CellAlignment};
use isomer_proto::{
    ProtoEnum,
    eval::v1::{
        AdjustPValuesResponse, AgreementResponse, BootstrapResponse, ComparePairsResponse, CompareRanksResponse,
        Comparison, CorrelateResponse, Interval, PlanDesignResponse, RankStabilityResponse, ReliabilityResponse,
        WilcoxonMethod, correlate_response::Coefficient,
    },
};
use serde_json::{Value, json};

use super::TestOutput;
use crate::table::Table;

fn table(header: &[&str]) -> Table {
    let mut table = crate::table::new();
    table.set_header(header);
    table
}

/// A row: its name, followed by numbers.
fn row(name: &str, numbers: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let numbers = numbers
        .into_iter()
        .map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
    std::iter::once(Cell::new(name)).chain(numbers).collect()
}

fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    format!("{value:.4}")
}

fn p_value(p: Option<f64>) -> String {
    match p {
        None => "–".to_owned(),
        Some(p) if p < 0.0001 => format!("{p:.1e}"),
        Some(p) => format!("{p:.4}"),
    }
}

fn interval(given: Option<&Interval>) -> String {
    given.map_or_else(
        || "–".to_owned(),
        |i| format!("[{}, {}]", number(i.low), number(i.high)),
    )
}

fn interval_json(given: Option<&Interval>) -> Value {
    given.map_or(
        Value::Null,
        |i| json!({ "low": finite(i.low), "high": finite(i.high), "level": i.level, "method": i.method }),
    )
}

/// JSON has no infinity.
fn finite(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

fn method(comparison: &Comparison) -> Option<&'static str> {
    WilcoxonMethod::given(comparison.method)
        .ok()
        .flatten()
        .map(ProtoEnum::name)
}

pub(super) fn compare(reference: &str, comparisons: &[Comparison]) -> TestOutput {
    let mut shown = table(&[
        "",
        "n",
        "mean difference",
        "HL shift",
        "signed-rank CI",
        "bootstrap CI",
        "p",
        "p Holm",
        "p BH",
        "p sign flip",
        "p bootstrap",
    ]);
    for one in comparisons {
        shown.add_row(row(
            &one.name,
            [
                one.n.to_string(),
                number(one.mean_difference),
                number(one.hodges_lehmann),
                interval(one.signed_rank_interval.as_ref()),
                interval(one.hodges_lehmann_interval.as_ref()),
                p_value(one.p_value),
                p_value(one.p_holm),
                p_value(one.p_benjamini_hochberg),
                p_value(one.p_sign_flip),
                p_value(one.p_paired_bootstrap),
            ],
        ));
    }
    let mut text = format!("Each against {reference}:\n{shown}");
    for one in comparisons {
        let p = method(one).map(|name| format!("p-value {name}"));
        let statistics: Vec<String> = p
            .into_iter()
            .chain((!one.note.is_empty()).then(|| one.note.clone()))
            .collect();
        text.push_str(&format!("\n* {}: {}", one.name, statistics.join("; ")));
    }
    let documents: Vec<Value> = comparisons
        .iter()
        .map(|one| {
            json!({
                "name": one.name,
                "n": one.n,
                "mean_difference": one.mean_difference,
                "sd_difference": one.sd_difference,
                "hodges_lehmann": one.hodges_lehmann,
                "signed_rank_interval": interval_json(one.signed_rank_interval.as_ref()),
                "bootstrap_interval": interval_json(one.hodges_lehmann_interval.as_ref()),
                "statistic": one.wilcoxon_statistic,
                "method": method(one),
                "p_value": one.p_value,
                "p_holm": one.p_holm,
                "p_benjamini_hochberg": one.p_benjamini_hochberg,
                "p_sign_flip": one.p_sign_flip,
                "p_paired_bootstrap": one.p_paired_bootstrap,
                "note": one.note,
            })
        })
        .collect();
    (text, json!({ "reference": reference, "comparisons": documents }))
}

pub(super) fn pairs(answer: &ComparePairsResponse) -> TestOutput {
    let mut systems = table(&["", "mean", "interval", "letters"]);
    for system in &answer.systems {
        systems.add_row(row(
            &system.name,
            [
                number(system.mean),
                interval(system.interval.as_ref()),
                system.letters.clone(),
            ],
        ));
    }
    let name = |at: u32| {
        answer
            .systems
            .get(at as usize)
            .map_or("", |system| system.name.as_str())
    };
    let mut pairs = table(&["pair", "mean difference", "p", "p Holm"]);
    for pair in &answer.pairs {
        pairs.add_row(row(
            &format!("{} − {}", name(pair.first), name(pair.second)),
            [
                number(pair.mean_difference),
                p_value(Some(pair.p_value)),
                p_value(Some(pair.p_holm)),
            ],
        ));
    }
    let text = format!("{systems}\nSystems that share a letter do not differ.\n{pairs}");
    let document = json!({
        "systems": answer.systems.iter().map(|system| json!({
            "name": system.name,
            "mean": system.mean,
            "interval": interval_json(system.interval.as_ref()),
            "letters": system.letters,
        })).collect::<Vec<_>>(),
        "pairs": answer.pairs.iter().map(|pair| json!({
            "first": name(pair.first),
            "second": name(pair.second),
            "mean_difference": pair.mean_difference,
            "p_value": pair.p_value,
            "p_holm": pair.p_holm,
        })).collect::<Vec<_>>(),
    });
    (text, document)
}

pub(super) fn ranks(answer: &CompareRanksResponse) -> TestOutput {
    let mut shown = table(&["", "average rank", "letters"]);
    for system in &answer.systems {
        shown.add_row(row(&system.name, [number(system.average_rank), system.letters.clone()]));
    }
    let text = format!(
        "{shown}\nFriedman over {} data sets: chi-squared {}, p {}; Iman and Davenport: F {}, p {}.\n\
         Nemenyi: ranks further apart than {} differ; systems that share a letter do not.",
        answer.datasets,
        number(answer.statistic),
        p_value(Some(answer.p_value)),
        number(answer.f_statistic),
        p_value(Some(answer.f_p_value)),
        number(answer.critical_difference),
    );
    let document = json!({
        "systems": answer.systems.iter().map(|system| json!({
            "name": system.name,
            "average_rank": system.average_rank,
            "letters": system.letters,
        })).collect::<Vec<_>>(),
        "datasets": answer.datasets,
        "friedman": { "statistic": answer.statistic, "p_value": answer.p_value },
        "iman_davenport": { "statistic": finite(answer.f_statistic), "p_value": answer.f_p_value },
        "critical_difference": answer.critical_difference,
    });
    (text, document)
}

pub(super) fn stability(rows: &[String], answer: &RankStabilityResponse) -> TestOutput {
    let mut shown = table(&["", "tau-b"]);
    for (name, tau) in rows.iter().zip(&answer.tau_b) {
        shown.add_row(row(name, [number(*tau)]));
    }
    let sd = answer
        .sd
        .map_or_else(|| "no SD of one data set".to_owned(), |sd| format!("SD {}", number(sd)));
    let text = format!("{shown}\nmean {}, {sd}", number(answer.mean));
    let each: Vec<Value> = rows
        .iter()
        .zip(&answer.tau_b)
        .map(|(name, tau)| json!({ "name": name, "tau_b": tau }))
        .collect();
    (text, json!({ "data_sets": each, "mean": answer.mean, "sd": answer.sd }))
}

pub(super) fn reliability(answer: &ReliabilityResponse) -> TestOutput {
    let text = format!(
        "Spearman between halves: median {}; {}",
        number(answer.median),
        answer.interval.as_ref().map_or_else(String::new, |i| format!(
            "{} {} ({} of them: no confidence interval)",
            i.method,
            interval(Some(i)),
            i.level
        ))
    );
    (
        text,
        json!({ "median": answer.median, "quantiles": interval_json(answer.interval.as_ref()) }),
    )
}

pub(super) fn adjusted(names: &[String], p_values: &[f64], answer: &AdjustPValuesResponse) -> TestOutput {
    let mut shown = table(&["", "p", "Holm", "Benjamini–Hochberg"]);
    let mut documents = Vec::new();
    let adjusted = answer.holm.iter().zip(&answer.benjamini_hochberg);
    for ((name, p), (holm, discovery)) in names.iter().zip(p_values).zip(adjusted) {
        shown.add_row(row(name, [*p, *holm, *discovery].map(|p| p_value(Some(p)))));
        documents.push(json!({ "name": name, "p_value": p, "holm": holm, "benjamini_hochberg": discovery }));
    }
    (shown.to_string(), Value::Array(documents))
}

pub(super) fn bootstrap(answers: &[(String, BootstrapResponse)]) -> TestOutput {
    let mut shown = table(&["", "estimate", "interval", "how"]);
    let mut documents = Vec::new();
    for (name, answer) in answers {
        let left_out = match answer.undefined {
            0 => String::new(),
            n => format!(", {n} resamples undefined"),
        };
        let how = answer.interval.as_ref().map_or("", |i| i.method.as_str());
        shown.add_row(row(
            name,
            [
                number(answer.estimate),
                interval(answer.interval.as_ref()),
                format!("{how}{left_out}"),
            ],
        ));
        documents.push(json!({
            "name": name,
            "estimate": answer.estimate,
            "interval": interval_json(answer.interval.as_ref()),
            "undefined": answer.undefined,
        }));
    }
    (shown.to_string(), Value::Array(documents))
}

pub(super) fn correlation(answer: &CorrelateResponse) -> TestOutput {
    let all = [
        ("Pearson", "pearson", &answer.pearson),
        ("Spearman", "spearman", &answer.spearman),
        ("Kendall tau-b", "kendall_tau_b", &answer.kendall_tau_b),
    ];
    let mut shown = table(&["", "value", "p", "interval", "how"]);
    let mut document = json!({ "n": answer.n });
    for (name, key, found) in all {
        let Coefficient {
            value,
            p_value: p,
            interval: around,
        } = found.clone().unwrap_or_default();
        let how = around.as_ref().map_or(String::new(), |i| i.method.clone());
        shown.add_row(row(name, [number(value), p_value(p), interval(around.as_ref()), how]));
        document[key] = json!({ "value": value, "p_value": p, "interval": interval_json(around.as_ref()) });
    }
    (format!("n = {}\n{shown}", answer.n), document)
}

pub(super) fn agreement(weights: &str, answer: &AgreementResponse) -> TestOutput {
    let name = if weights == "identity" { "AC1" } else { "AC2" };
    let mut shown = table(&["", "value", "SE", "interval", "p"]);
    shown.add_row(row(
        &format!("Gwet's {name}, {weights} weights"),
        [
            number(answer.ac2),
            number(answer.standard_error),
            interval(answer.interval.as_ref()),
            p_value(Some(answer.p_value)),
        ],
    ));
    shown.add_row(row("Krippendorff's alpha", [number(answer.alpha)]));
    let text = format!(
        "{shown}\nobserved agreement {}, by chance {}",
        number(answer.observed_agreement),
        number(answer.chance_agreement)
    );
    let document = json!({
        "weights": weights,
        "coefficient": name,
        "value": answer.ac2,
        "standard_error": answer.standard_error,
        "interval": interval_json(answer.interval.as_ref()),
        "p_value": answer.p_value,
        "observed_agreement": answer.observed_agreement,
        "chance_agreement": answer.chance_agreement,
        "krippendorff_alpha": answer.alpha,
    });
    (text, document)
}

pub(super) fn design(effect: Option<f64>, aimed: f64, answer: &PlanDesignResponse) -> TestOutput {
    let mut text = format!(
        "{} data sets x {} seeds; SD between data sets {}, over seeds {}; standard error of the mean difference {}.\n\
         Smallest mean difference detected with power {aimed}: {}.",
        answer.datasets,
        answer.seeds,
        number(answer.sd_between),
        number(answer.sd_seeds),
        number(answer.standard_error),
        number(answer.minimal_detectable_effect),
    );
    if let (Some(effect), Some(power)) = (effect, answer.power) {
        let datasets = answer
            .datasets_needed
            .map_or_else(|| "more than a million".to_owned(), |n| n.to_string());
        let seeds = answer.seeds_needed.map_or_else(
            || "no number of seeds would do with these data sets".to_owned(),
            |n| format!("{n} seeds with these data sets"),
        );
        text.push_str(&format!(
            "\nAn effect of {effect} is detected with power {power:.3}; for {aimed} it takes {datasets} data sets with these \
             seeds; {seeds}."
        ));
    }
    let document = json!({
        "datasets": answer.datasets,
        "seeds": answer.seeds,
        "sd_between": answer.sd_between,
        "sd_seeds": answer.sd_seeds,
        "standard_error": answer.standard_error,
        "minimal_detectable_effect": answer.minimal_detectable_effect,
        "power": answer.power,
        "datasets_needed": answer.datasets_needed,
        "seeds_needed": answer.seeds_needed,
    });
    (text, document)
}
