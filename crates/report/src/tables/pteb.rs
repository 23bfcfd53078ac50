//! PTEB: original texts against their paraphrases.

use super::{Cell, Tables, column, continued, mean, plain, sum};
use crate::{
    Report,
    format::{fine, p_exact, signed_fine},
    profile::{Grid, LanguageGroup, adjust, shift},
    stats,
};

/// Names of the tables that need paraphrases.
const ALL: &str = "PTEB's tables 6 to 10 and 14";

pub(super) fn add(tables: &mut Tables, grid: &Grid, report: &Report) {
    let paraphrased = report
        .suite
        .transformations
        .iter()
        .position(|one| one.transformation.name() == "paraphrase");
    let Some(t) = paraphrased else {
        tables.lacks(ALL, "the run does not paraphrase; add the transformation `paraphrase`");
        return;
    };
    let english = grid.of_language(LanguageGroup::English);
    let multilingual = grid.of_language(LanguageGroup::Other);
    let sts = |among: &[usize]| -> Vec<usize> { among.iter().copied().filter(|d| grid.tasks[*d] == "sts").collect() };
    let similarity = sts(&english);
    if similarity.is_empty() {
        tables.lacks(
            "PTEB, tables 6 and 8",
            "no STS data set that is known to be in English is in the run",
        );
    } else {
        by_dataset(tables, grid, t, &similarity);
        sizes(tables, grid, t, &similarity);
    }
    if english.is_empty() {
        tables.lacks(
            "PTEB, table 9",
            "no data set that is known to be in English is in the run",
        );
    } else {
        by_task(tables, grid, t, &english, false);
    }
    if multilingual.is_empty() {
        tables.lacks("PTEB, table 10", "no data set names a language other than English");
    } else {
        by_task(tables, grid, t, &multilingual, true);
    }
    // As in the paper, on English STS only: other data would not be comparable under the paper's
    // name.
    if similarity.is_empty() {
        tables.lacks(
            "PTEB, tables 7 and 14",
            "no STS data set that is known to be in English is in the run",
        );
    } else {
        comparisons(tables, grid, report, t, &similarity);
    }
}

/// Mean over seeds of the scores on paraphrases.
fn paraphrased(grid: &Grid, e: usize, d: usize, t: usize) -> f64 {
    mean(grid.transformed[e][d][t].iter().copied())
}

/// Per seed, the mean over datasets.
fn per_seed(grid: &Grid, e: usize, datasets: &[usize], t: usize) -> Vec<f64> {
    (0..grid.seeds.len())
        .map(|s| mean(datasets.iter().map(|d| grid.transformed[e][*d][t][s])))
        .collect()
}

/// `−3.17 / ±2.23`, the second line of a row.
fn change(delta: f64, sd: Option<f64>) -> Cell {
    match sd {
        Some(sd) => Cell::shown(format!("{} / ±{}", signed_fine(delta), fine(sd)), delta),
        None => Cell::change(delta),
    }
}

/// Two lines for some datasets: the scores, then the change and the deviation over seeds.
fn pair(grid: &Grid, t: usize, names: [String; 2], datasets: &[usize]) -> [Vec<Cell>; 2] {
    let (mut scores, mut changes) = (vec![Cell::text(&names[0])], vec![Cell::text(&names[1])]);
    let mut deltas = Vec::new();
    for e in 0..grid.encoders.len() {
        let original = mean(datasets.iter().map(|d| grid.original[e][*d]));
        let runs = per_seed(grid, e, datasets, t);
        let now = mean(runs.iter().copied());
        scores.extend([Cell::score(original), Cell::score(now)]);
        changes.extend([Cell::default(), change(now - original, stats::sample_sd(&runs))]);
        deltas.push(now - original);
    }
    scores.push(Cell::default());
    changes.push(Cell::change(mean(deltas)));
    [scores, changes]
}

fn columns(grid: &Grid, first: &str) -> Vec<super::TableColumn> {
    let mut columns = vec![column("", first)];
    for encoder in &grid.encoders {
        columns.extend([column(encoder, "Orig."), column(encoder, "PTEB")]);
    }
    columns.push(column("", "Average"));
    columns
}

fn by_dataset(tables: &mut Tables, grid: &Grid, t: usize, datasets: &[usize]) {
    let mut rows = Vec::new();
    for d in datasets {
        let [scores, changes] = pair(grid, t, [grid.datasets[*d].clone(), String::new()], &[*d]);
        rows.extend([plain(scores), continued(changes)]);
    }
    let [scores, changes] = pair(grid, t, ["Average".to_owned(), String::new()], datasets);
    rows.extend([sum(scores), sum(changes)]);
    tables.add(
        "pteb-6",
        "PTEB, table 6",
        format!(
            "STS on original and paraphrased texts (score × 100, {} runs). Second line: PTEB less original / ± sample \
             standard deviation over runs. ± of the average is that of the runs' averages; the paper gives none.",
            grid.seeds.len()
        ),
        columns(grid, "Dataset"),
        rows,
    );
}

fn by_task(tables: &mut Tables, grid: &Grid, t: usize, datasets: &[usize], multilingual: bool) {
    let mut tasks: Vec<&str> = Vec::new();
    for d in datasets {
        if !tasks.contains(&grid.tasks[*d].as_str()) {
            tasks.push(&grid.tasks[*d]);
        }
    }
    let mut rows = Vec::new();
    let mut means = vec![(Vec::new(), Vec::new()); grid.encoders.len()];
    for task in tasks {
        let own: Vec<usize> = datasets.iter().copied().filter(|d| grid.tasks[*d] == task).collect();
        let under = match own.as_slice() {
            [one] => grid.datasets[*one].clone(),
            several => format!("{} data sets", several.len()),
        };
        let [scores, changes] = pair(grid, t, [task.to_owned(), under], &own);
        for (e, (originals, nows)) in means.iter_mut().enumerate() {
            originals.push(mean(own.iter().map(|d| grid.original[e][*d])));
            nows.push(mean(own.iter().map(|d| paraphrased(grid, e, *d, t))));
        }
        rows.extend([plain(scores), continued(changes)]);
    }
    // As in the paper, the average counts every task once.
    let (mut scores, mut changes, mut deltas) = (vec![Cell::text("Average")], vec![Cell::default()], Vec::new());
    for (originals, nows) in means {
        let (original, now) = (mean(originals), mean(nows));
        scores.extend([Cell::score(original), Cell::score(now)]);
        changes.extend([Cell::default(), Cell::change(now - original)]);
        deltas.push(now - original);
    }
    scores.push(Cell::default());
    changes.push(Cell::change(mean(deltas)));
    rows.extend([sum(scores), sum(changes)]);
    let (id, paper, which) = match multilingual {
        false => ("pteb-9", "PTEB, table 9", "English data sets"),
        true => ("pteb-10", "PTEB, table 10", "data sets in other languages"),
    };
    tables.add(
        id,
        paper,
        format!(
            "Tasks on original and paraphrased texts: {which}. A task's score is the mean of its data sets, its ± that of \
             the runs' means; the average counts every task once."
        ),
        columns(grid, "Task"),
        rows,
    );
}

fn sizes(tables: &mut Tables, grid: &Grid, t: usize, datasets: &[usize]) {
    let encoders = 0..grid.encoders.len();
    let row = |name: &str, of: &dyn Fn(usize) -> f64| {
        let mut cells = vec![Cell::text(name)];
        cells.extend(encoders.clone().map(|e| Cell::score(of(e))));
        plain(cells)
    };
    let rows = vec![
        row("Original STS Score", &|e| {
            mean(datasets.iter().map(|d| grid.original[e][*d]))
        }),
        row("PTEB STS Score", &|e| mean(per_seed(grid, e, datasets, t))),
    ];
    let mut columns = vec![column("", "")];
    columns.extend(grid.encoders.iter().map(|encoder| column("", encoder)));
    tables.add(
        "pteb-8",
        "PTEB, table 8",
        "STS scores side by side, for encoders of several sizes. The paper's lines on run time and memory are left out: a \
         run does not measure them per encoder."
            .to_owned(),
        columns,
        rows,
    );
}

/// Baseline minus encoder on paraphrases: pairs of dataset and run (table 7), then pairs of
/// datasets with runs averaged (table 14).
fn comparisons(tables: &mut Tables, grid: &Grid, report: &Report, t: usize, datasets: &[usize]) {
    let Some(baseline) = &report.profile.baseline else {
        tables.lacks(
            "PTEB, tables 7 and 14",
            if grid.encoders.len() < 2 {
                "one encoder: there is nothing to compare"
            } else {
                "no baseline was named; name one with --baseline"
            },
        );
        return;
    };
    let Some(b) = grid.encoders.iter().position(|encoder| *encoder == baseline.encoder) else {
        return;
    };
    let others: Vec<usize> = (0..grid.encoders.len()).filter(|e| *e != b).collect();
    let pooled = |e: usize| -> Vec<f64> {
        let runs = |d: &usize| {
            let (ours, theirs) = (&grid.transformed[b][*d][t], &grid.transformed[e][*d][t]);
            ours.iter()
                .zip(theirs)
                .map(|(ours, theirs)| ours - theirs)
                .collect::<Vec<f64>>()
        };
        datasets.iter().flat_map(runs).collect()
    };
    let averaged = |e: usize| -> Vec<f64> {
        let one = |d: &usize| paraphrased(grid, b, *d, t) - paraphrased(grid, e, *d, t);
        datasets.iter().map(one).collect()
    };
    let heading = format!("{} vs.", baseline.encoder);
    let forms: [(&str, &str, &dyn Fn(usize) -> Vec<f64>, &str); 2] = [
        (
            "pteb-7",
            "PTEB, table 7",
            &pooled,
            "one pair a data set and run, the less conservative form: runs of a data set are not independent",
        ),
        (
            "pteb-14",
            "PTEB, table 14",
            &averaged,
            "one pair a data set, runs averaged first",
        ),
    ];
    for (id, paper, differences, pairs) in forms {
        let mut family: Vec<_> = others.iter().filter_map(|e| shift(&differences(*e))).collect();
        adjust(&mut family);
        let rows = others.iter().zip(&family).map(|(e, shift)| {
            let interval = shift.interval.as_ref().map_or_else(
                || Cell::text("–"),
                |found| Cell::text(format!("[{}, {}]", signed_fine(found.low), signed_fine(found.high))),
            );
            let p = shift
                .p_holm
                .map_or_else(|| Cell::text("–"), |p| Cell::shown(p_exact(p), p));
            plain(vec![
                Cell::text(&grid.encoders[*e]),
                Cell::change(shift.hodges_lehmann),
                interval,
                p,
                Cell::text(shift.n.to_string()),
            ])
        });
        tables.add(
            id,
            paper,
            format!(
                "Baseline less encoder on paraphrased texts, STS in English (data sets: {}): Hodges–Lehmann shift in points with its \
                 95 % percentile bootstrap interval, Wilcoxon signed-rank test, Holm over encoders; {pairs}.",
                datasets.len()
            ),
            vec![
                column("", &heading),
                column("", "Shift"),
                column("", "95 % interval"),
                column("", "p (Holm)"),
                column("", "n"),
            ],
            rows.collect(),
        );
    }
}
