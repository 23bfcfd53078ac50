//! The results of the tests, as a table and as a document. A missing number is a dash in the table
//! and null in the document.

use isomer_proto::{
    ProtoEnum,
    eval::v1::{
        AdjustPValuesResponse, AgreementResponse, BootstrapResponse, ComparePairsResponse, CompareRanksResponse,
        Comparison, CorrelateResponse, Interval, PlanDesignResponse, RankStabilityResponse, ReliabilityResponse,
        WilcoxonMethod, correlate_response::Coefficient,
    },
};
use serde::Serialize;
use serde_json::json;

use super::TestOutput;
use crate::table::{Records, Table, TextTable};

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

/// An interval in a document. An infinite end is null.
#[derive(Serialize)]
struct Bounds<'a> {
    low: f64,
    high: f64,
    level: f64,
    method: &'a str,
}

fn bounds(given: Option<&Interval>) -> Option<Bounds<'_>> {
    given.map(|own| Bounds {
        low: own.low,
        high: own.high,
        level: own.level,
        method: &own.method,
    })
}

fn interval(given: Option<Bounds<'_>>) -> String {
    given.map_or_else(
        || "–".to_owned(),
        |own| format!("[{}, {}]", number(own.low), number(own.high)),
    )
}

fn method(comparison: &Comparison) -> Option<&'static str> {
    WilcoxonMethod::given(comparison.method)
        .ok()
        .flatten()
        .map(ProtoEnum::name)
}

pub(super) fn compare(reference: &str, comparisons: &[Comparison]) -> TestOutput {
    let records = Records::of(comparisons)
        .name("", "name", |one| one.name.clone())
        .value("n", "n", |one| one.n, |n| n.to_string())
        .value("mean difference", "mean_difference", |one| one.mean_difference, number)
        .key("sd_difference", |one| one.sd_difference)
        .value("HL shift", "hodges_lehmann", |one| one.hodges_lehmann, number)
        .value("signed-rank CI", "signed_rank_interval", by_signed_ranks, interval)
        .value("bootstrap CI", "bootstrap_interval", by_bootstrap, interval)
        .key("statistic", |one| one.wilcoxon_statistic)
        .key("method", method)
        .value("p", "p_value", |one| one.p_value, p_value)
        .value("p Holm", "p_holm", |one| one.p_holm, p_value)
        .value("p BH", "p_benjamini_hochberg", |one| one.p_benjamini_hochberg, p_value)
        .value("p sign flip", "p_sign_flip", |one| one.p_sign_flip, p_value)
        .value(
            "p bootstrap",
            "p_paired_bootstrap",
            |one| one.p_paired_bootstrap,
            p_value,
        )
        .key("note", |one| &one.note);
    let document = json!({ "reference": reference, "comparisons": records.document() });
    let mut text = format!("Each against {reference}:\n{}", records.table());
    for one in comparisons {
        let p = method(one).map(|name| format!("p-value {name}"));
        let statistics: Vec<String> = p
            .into_iter()
            .chain((!one.note.is_empty()).then(|| one.note.clone()))
            .collect();
        text.push_str(&format!("\n* {}: {}", one.name, statistics.join("; ")));
    }
    (text, document)
}

fn by_signed_ranks(comparison: &Comparison) -> Option<Bounds<'_>> {
    bounds(comparison.signed_rank_interval.as_ref())
}

fn by_bootstrap(comparison: &Comparison) -> Option<Bounds<'_>> {
    bounds(comparison.hodges_lehmann_interval.as_ref())
}

pub(super) fn pairs(answer: &ComparePairsResponse) -> TestOutput {
    let systems = Records::of(&answer.systems)
        .name("", "name", |system| system.name.clone())
        .value("mean", "mean", |system| system.mean, number)
        .value(
            "interval",
            "interval",
            |system| bounds(system.interval.as_ref()),
            interval,
        )
        .value("letters", "letters", |system| &system.letters, String::clone);
    let name = |at: u32| {
        answer
            .systems
            .get(at as usize)
            .map_or("", |system| system.name.as_str())
    };
    let pairs = Records::of(&answer.pairs)
        .words("pair", |pair| format!("{} − {}", name(pair.first), name(pair.second)))
        .key("first", |pair| name(pair.first))
        .key("second", |pair| name(pair.second))
        .value(
            "mean difference",
            "mean_difference",
            |pair| pair.mean_difference,
            number,
        )
        .value("p", "p_value", |pair| Some(pair.p_value), p_value)
        .value("p Holm", "p_holm", |pair| Some(pair.p_holm), p_value);
    let document = json!({ "systems": systems.document(), "pairs": pairs.document() });
    let text = format!(
        "{}\nSystems that share a letter do not differ.\n{}",
        systems.table(),
        pairs.table()
    );
    (text, document)
}

pub(super) fn ranks(answer: &CompareRanksResponse) -> TestOutput {
    let systems = Records::of(&answer.systems)
        .name("", "name", |system| system.name.clone())
        .value("average rank", "average_rank", |system| system.average_rank, number)
        .value("letters", "letters", |system| &system.letters, String::clone);
    let document = json!({
        "systems": systems.document(),
        "datasets": answer.datasets,
        "friedman": { "statistic": answer.statistic, "p_value": answer.p_value },
        "iman_davenport": { "statistic": answer.f_statistic, "p_value": answer.f_p_value },
        "critical_difference": answer.critical_difference,
    });
    let text = format!(
        "{}\nFriedman over {} data sets: chi-squared {}, p {}; Iman and Davenport: F {}, p {}.\n\
         Nemenyi: ranks further apart than {} differ; systems that share a letter do not.",
        systems.table(),
        answer.datasets,
        number(answer.statistic),
        p_value(Some(answer.p_value)),
        number(answer.f_statistic),
        p_value(Some(answer.f_p_value)),
        number(answer.critical_difference),
    );
    (text, document)
}

pub(super) fn stability(rows: &[String], answer: &RankStabilityResponse) -> TestOutput {
    let each = Records::of(rows.iter().zip(&answer.tau_b))
        .name("", "name", |(name, _)| name.clone())
        .value("tau-b", "tau_b", |(_, tau)| *tau, number);
    let document = json!({ "data_sets": each.document(), "mean": answer.mean, "sd": answer.sd });
    let sd = answer
        .sd
        .map_or_else(|| "no SD of one data set".to_owned(), |sd| format!("SD {}", number(sd)));
    let text = format!("{}\nmean {}, {sd}", each.table(), number(answer.mean));
    (text, document)
}

pub(super) fn reliability(answer: &ReliabilityResponse) -> TestOutput {
    let quantiles = answer.interval.as_ref();
    let text = format!(
        "Spearman between halves: median {}; {}",
        number(answer.median),
        quantiles.map_or_else(String::new, |own| format!(
            "{} {} ({} of them: no confidence interval)",
            own.method,
            interval(bounds(Some(own))),
            own.level
        ))
    );
    (text, json!({ "median": answer.median, "quantiles": bounds(quantiles) }))
}

pub(super) fn adjusted(names: &[String], p_values: &[f64], answer: &AdjustPValuesResponse) -> TestOutput {
    let adjusted = answer.holm.iter().zip(&answer.benjamini_hochberg);
    let records = Records::of(names.iter().zip(p_values).zip(adjusted))
        .name("", "name", |((name, _), _)| name.clone())
        .value("p", "p_value", |((_, p), _)| Some(*p), p_value)
        .value("Holm", "holm", |(_, (holm, _))| Some(*holm), p_value)
        .value(
            "Benjamini–Hochberg",
            "benjamini_hochberg",
            |(_, (_, found))| Some(*found),
            p_value,
        );
    let document = records.document();
    (records.table().to_string(), document)
}

pub(super) fn bootstrap(answers: &[(String, BootstrapResponse)]) -> TestOutput {
    let how = |answer: &BootstrapResponse| {
        let left_out = match answer.undefined {
            0 => String::new(),
            n => format!(", {n} resamples undefined"),
        };
        let how = answer.interval.as_ref().map_or("", |own| own.method.as_str());
        format!("{how}{left_out}")
    };
    let records = Records::of(answers)
        .name("", "name", |(name, _)| name.clone())
        .value("estimate", "estimate", |(_, own)| own.estimate, number)
        .value(
            "interval",
            "interval",
            |(_, own)| bounds(own.interval.as_ref()),
            interval,
        )
        .key("undefined", |(_, own)| own.undefined)
        .number("how", |(_, own)| how(own));
    let document = records.document();
    (records.table().to_string(), document)
}

pub(super) fn correlation(answer: &CorrelateResponse) -> TestOutput {
    let all = [
        ("Pearson", "pearson", &answer.pearson),
        ("Spearman", "spearman", &answer.spearman),
        ("Kendall tau-b", "kendall_tau_b", &answer.kendall_tau_b),
    ];
    let missing = Coefficient::default();
    let found = all.map(|(name, key, found)| (name, key, found.as_ref().unwrap_or(&missing)));
    let how = |own: &Coefficient| own.interval.as_ref().map_or_else(String::new, |own| own.method.clone());
    let records = Records::of(found)
        .words("", |(name, ..)| name.to_owned())
        .value("value", "value", |(.., own)| own.value, number)
        .value("p", "p_value", |(.., own)| own.p_value, p_value)
        .value(
            "interval",
            "interval",
            |(.., own)| bounds(own.interval.as_ref()),
            interval,
        )
        .number("how", |(.., own)| how(own));
    let mut document = json!({ "n": answer.n });
    for ((_, key, _), own) in found.iter().zip(records.objects()) {
        document[*key] = own;
    }
    (format!("n = {}\n{}", answer.n, records.table()), document)
}

pub(super) fn agreement(weights: &str, answer: &AgreementResponse) -> TestOutput {
    let name = if weights == "identity" { "AC1" } else { "AC2" };
    let gwet = (format!("Gwet's {name}, {weights} weights"), answer.ac2, true);
    let krippendorff = ("Krippendorff's alpha".to_owned(), answer.alpha, false);
    let of_gwet = |own: bool, shown: String| if own { shown } else { String::new() };
    let shown: Table = TextTable::of([&gwet, &krippendorff])
        .words("", |(name, ..)| name.clone())
        .number("value", |(_, value, _)| number(*value))
        .number("SE", |(.., own)| of_gwet(*own, number(answer.standard_error)))
        .number("interval", |(.., own)| {
            of_gwet(*own, interval(bounds(answer.interval.as_ref())))
        })
        .number("p", |(.., own)| of_gwet(*own, p_value(Some(answer.p_value))))
        .into();
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
        "interval": bounds(answer.interval.as_ref()),
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
