//! The results of a check in the registry: metrics with their intervals, and the report in all
//! formats. Pure.

use isomer_report::{
    Report,
    profile::{EncoderProfile, Moved},
};

/// Prefix of all names that are written to a registry.
pub const PREFIX: &str = "isomer.";

/// The record of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Identifies the check: a second record of the same check has the same key.
    pub key: String,
    /// Title for people, e.g. `isomer check of enc version 3`.
    pub title: String,
    /// When the report was made, in milliseconds since 1970.
    pub time: i64,
    /// Settings and digests. They are not parameters, because those of a run never change, while
    /// the same check may be recorded again with another run.
    pub tags: Vec<(String, String)>,
    pub metrics: Vec<Metric>,
    /// Data sets of the check: name and digest of the content.
    pub datasets: Vec<(String, String)>,
    /// The report: file name and content.
    pub files: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name, e.g. `isomer.drop.total`.
    pub key: String,
    /// The value; finite.
    pub value: f64,
    /// The data set of the metric, by its index in [`Evidence::datasets`]; absent: all.
    pub dataset: Option<usize>,
}

/// The metrics of one encoder in a report. Points are scores x 100. A number with an interval has
/// two companions, `….low` and `….high`: the ends over items ("these data sets, other items").
pub fn metrics(report: &Report, encoder: &str) -> Vec<Metric> {
    let mut all = Metrics::default();
    let profile = report.profile.encoders.iter().find(|one| one.encoder == encoder);
    if let Some(profile) = profile {
        all.of_profile(report, profile);
    }
    let mut separation = report.separation.iter().flat_map(|found| &found.encoders);
    if let Some(found) = separation.find(|one| one.encoder == encoder) {
        let row = &found.overall;
        all.interval("separation", row.separation, row.low, row.high, None);
    }
    let compared = report
        .profile
        .baseline
        .iter()
        .flat_map(|baseline| &baseline.comparisons);
    for one in compared.filter(|one| one.encoder == encoder) {
        let shift = &one.shift;
        let ends = shift.interval.as_ref().map(|interval| (interval.low, interval.high));
        let name = format!("versus_baseline.{}", one.quantity);
        all.interval(
            &name,
            Some(shift.mean_difference),
            ends.map(|e| e.0),
            ends.map(|e| e.1),
            None,
        );
    }
    if let Some(gate) = &report.gate
        && let Some(judged) = gate.encoders.iter().find(|one| one.encoder == encoder)
    {
        let said = gate.rules.iter().zip(&judged.rules).enumerate();
        for (number, (rule, said)) in said.filter(|(_, (_, said))| !said.not_applicable) {
            let name = format!("rule.{}", number + 1);
            all.interval(&name, said.estimate, said.low, said.high, None);
            all.push(&format!("{name}.limit"), Some(rule.limit), None);
        }
    }
    all.0
}

/// The results of the rules for an encoder, as tags: `isomer.rule.1` = `drop, total ≤ 5.00: pass`.
pub fn rules(report: &Report, encoder: &str) -> Vec<(String, String)> {
    let Some(gate) = &report.gate else { return Vec::new() };
    let Some(judged) = gate.encoders.iter().find(|one| one.encoder == encoder) else {
        return Vec::new();
    };
    let rules = gate.rules.iter().zip(&judged.rules).enumerate();
    rules
        .filter(|(_, (_, said))| !said.not_applicable)
        .map(|(number, (rule, said))| {
            let words = format!("{} ({}): {}", rule.title, rule.limit_text(), said.verdict.name());
            (format!("{PREFIX}rule.{}", number + 1), words)
        })
        .collect()
}

/// The reason of the gate's verdict on an encoder, in one sentence; empty if there is nothing to
/// add.
pub fn reason(report: &Report, encoder: &str) -> String {
    let Some(gate) = &report.gate else { return String::new() };
    let Some(judged) = gate.encoders.iter().find(|one| one.encoder == encoder) else {
        return String::new();
    };
    let same = gate.rules_of(judged).filter(|(_, said)| said.verdict == judged.verdict);
    let told: Vec<String> = same
        .map(|(rule, said)| {
            let number = format!(
                "{} {}, limit {}",
                said.estimate_text(),
                said.bounds_text(),
                rule.limit_text()
            );
            let note = said.note.as_deref().map_or(String::new(), |note| format!("; {note}"));
            format!("{}: {number}{note}", rule.measured())
        })
        .collect();
    told.join(". ")
}

#[derive(Default)]
struct Metrics(Vec<Metric>);

impl Metrics {
    fn of_profile(&mut self, report: &Report, profile: &EncoderProfile) {
        self.push("score.original", Some(profile.original), None);
        if let Some(total) = &profile.total {
            self.moved("total", total, None);
        }
        for axis in &profile.axes {
            self.moved(axis.axis.name(), &axis.moved, None);
        }
        for one in &profile.transformations {
            self.moved(&one.transformation, &one.moved, None);
        }
        for dataset in &profile.datasets {
            let place = report.datasets.iter().position(|known| known.name == dataset.dataset);
            let name = &dataset.dataset;
            let ends = dataset.original_interval.as_ref();
            self.interval(
                &format!("score.original.{name}"),
                Some(dataset.original),
                ends.map(|e| e.low),
                ends.map(|e| e.high),
                place,
            );
            if let Some(total) = &dataset.total {
                self.moved(&format!("total.{name}"), total, place);
            }
            for one in &dataset.transformations {
                self.moved(&format!("{}.{name}", one.transformation), &one.moved, place);
            }
        }
    }

    /// A score and its drop from the original.
    fn moved(&mut self, of: &str, moved: &Moved, dataset: Option<usize>) {
        self.push(&format!("score.{of}"), Some(moved.mean), dataset);
        let ends = moved.intervals.items.as_ref();
        // A drop is the negative difference, so its ends are exchanged.
        let name = format!("drop.{of}");
        self.interval(
            &name,
            Some(-moved.delta),
            ends.map(|e| -e.high),
            ends.map(|e| -e.low),
            dataset,
        );
    }

    fn interval(
        &mut self,
        name: &str,
        value: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
        dataset: Option<usize>,
    ) {
        self.push(name, value, dataset);
        self.push(&format!("{name}.low"), low, dataset);
        self.push(&format!("{name}.high"), high, dataset);
    }

    fn push(&mut self, name: &str, value: Option<f64>, dataset: Option<usize>) {
        // A number that is not finite is left out, because registries refuse some of them.
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.push(Metric {
                key: format!("{PREFIX}{}", key(name)),
                // Avoids negative zero.
                value: value + 0.0,
                dataset,
            });
        }
    }
}

/// A name that registries accept: MLflow permits letters, digits, `_`, `-`, `.`, `/`, `:` and
/// blanks.
fn key(name: &str) -> String {
    let kept = |c: char| {
        if c.is_ascii_alphanumeric() || "_-./:".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().take(200).map(kept).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A report that is committed as a fixture of all formats.
    fn report() -> Report {
        let file = "../../eval-svc/fixtures/report/report.json";
        isomer_report::read(&std::fs::read(file).unwrap()).unwrap()
    }

    #[test]
    fn a_drop_is_the_difference_with_the_other_sign_and_lies_within_its_interval() {
        let report = report();
        let profile = &report.profile.encoders[0];
        let all = metrics(&report, &profile.encoder);
        let value = |name: &str| all.iter().find(|one| one.key == name).map(|one| one.value);
        assert_eq!(value("isomer.score.original"), Some(profile.original));
        let total = profile.total.as_ref().unwrap();
        assert_eq!(value("isomer.drop.total"), Some(-total.delta));
        let ends = total.intervals.items.as_ref().unwrap();
        assert_eq!(value("isomer.drop.total.low"), Some(-ends.high));
        assert_eq!(value("isomer.drop.total.high"), Some(-ends.low));
        for one in &all {
            let (low, high) = (value(&format!("{}.low", one.key)), value(&format!("{}.high", one.key)));
            if let (Some(low), Some(high)) = (low, high) {
                assert!(low <= high, "{}", one.key);
            }
        }
    }

    #[test]
    fn names_are_unique_and_plain_and_name_their_data_set() {
        let report = report();
        let all = metrics(&report, &report.profile.encoders[0].encoder);
        let mut names: Vec<&str> = all.iter().map(|one| one.key.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| name.starts_with(PREFIX) && !name.contains('(')));
        let of_one: Vec<&Metric> = all.iter().filter(|one| one.dataset.is_some()).collect();
        assert!(!of_one.is_empty());
        for one in of_one {
            let dataset = &report.datasets[one.dataset.unwrap()].name;
            assert!(one.key.contains(&key(dataset)), "{} {dataset}", one.key);
        }
        assert!(metrics(&report, "somebody else").is_empty());
    }
}
