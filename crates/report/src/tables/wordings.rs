//! PTEB, table 12: the influence of the wording of the paraphrase prompt.

use super::{Cell, Tables, column, mean, plain};
use crate::{
    Report,
    format::fine,
    profile::{Grid, LanguageGroup},
};

/// Adds a row for each paraphrase wording of the run; no table if there is only one.
pub(super) fn add(tables: &mut Tables, grid: &Grid, report: &Report) {
    let wordings: Vec<usize> = report
        .suite
        .transformations
        .iter()
        .enumerate()
        .filter(|(_, one)| one.transformation.name() == "paraphrase")
        .map(|(t, _)| t)
        .collect();
    if wordings.len() < 2 {
        return;
    }
    let english = grid.of_language(LanguageGroup::English);
    let similarity: Vec<usize> = english.into_iter().filter(|d| grid.tasks[*d] == "sts").collect();
    if similarity.is_empty() {
        tables.lacks("PTEB, table 12", "no STS data set in English is in the run");
        return;
    }
    let mut columns = vec![column("", "Prompt")];
    columns.extend(grid.encoders.iter().map(|encoder| column("Score", encoder)));
    columns.extend([column("", "Average"), column("", "Edit distance")]);
    let rows = wordings.into_iter().map(|t| {
        let worded = &report.suite.transformations[t];
        let name = if worded.prompt_version.is_empty() {
            &worded.label
        } else {
            &worded.prompt_version
        };
        let scores: Vec<f64> = (0..grid.encoders.len())
            .map(|e| {
                mean(
                    similarity
                        .iter()
                        .map(|d| mean(grid.transformed[e][*d][t].iter().copied())),
                )
            })
            .collect();
        let mut cells = vec![Cell::text(name)];
        cells.extend(scores.iter().map(|score| Cell::score(*score)));
        cells.push(Cell::score(mean(scores)));
        let names: Vec<&str> = similarity.iter().map(|d| grid.datasets[*d].as_str()).collect();
        cells.push(match edit_distance(report, &worded.label, &names) {
            Some(distance) => Cell::shown(fine(distance), distance),
            None => Cell::default(),
        });
        plain(cells)
    });
    tables.add(
        "pteb-12",
        "PTEB, table 12",
        format!(
            "Sensitivity to the wording of the paraphrase prompt: score × 100 on paraphrases by each prompt, mean over seeds and the {} \
             STS data sets in English, and mean word-level edit distance of the texts that were paraphrased.",
            similarity.len()
        ),
        columns,
        rows.collect(),
    );
}

/// Mean edit distance over the texts of some data sets, weighted by the number of transformed
/// texts.
fn edit_distance(report: &Report, transformation: &str, datasets: &[&str]) -> Option<f64> {
    let rows = || {
        let own = report.checks.iter().filter(|row| row.transformation == transformation);
        let own = own.filter(|row| datasets.contains(&row.dataset.as_str()));
        own.filter_map(|row| Some(((row.ok + row.recovered) as f64, row.edit_distance?)))
    };
    let weight: f64 = rows().map(|(weight, _)| weight).sum();
    (weight > 0.0).then(|| rows().map(|(weight, distance)| weight * distance).sum::<f64>() / weight)
}
