//! The nearest neighbours by Euclidean distance, as `KNeighborsClassifier` finds them by brute
//! force.

use rayon::prelude::*;

use crate::{
    LearnError, Vectors,
    linalg::{BLOCK, GROUP, PANEL, RowBlocks, forward},
    metrics::LabelMatrix,
};

/// Test vectors that pass all train vectors together.
const TESTS: usize = 4 * PANEL;

/// For every test vector, the labels that more than half of its `neighbours` nearest train vectors
/// have; a tie does not give the label. `positions` are the train rows, `labels` has one row per
/// position.
///
/// # Errors
/// If there are fewer train vectors than neighbours, no neighbours, widths or numbers of labels
/// that do not match, or a position out of range.
pub fn predict_labels(
    train: Vectors<'_>,
    positions: &[usize],
    labels: &LabelMatrix,
    test: Vectors<'_>,
    neighbours: usize,
) -> Result<LabelMatrix, LearnError> {
    test.check_width("test vectors", train.cols())?;
    if neighbours == 0 {
        return Err(LearnError::Setting {
            name: "neighbours",
            value: "0".to_owned(),
            expected: "at least 1",
        });
    }
    if positions.len() < neighbours {
        return Err(LearnError::TooFew {
            what: "neighbours",
            needed: neighbours,
            found: positions.len(),
        });
    }
    if labels.has.len() != positions.len() * labels.width {
        return Err(LearnError::Labels {
            what: "train labels",
            expected: positions.len(),
            found: labels.has.len() / labels.width.max(1),
        });
    }
    if let Some(at) = positions.iter().position(|p| *p >= train.rows()) {
        return Err(LearnError::OutOfRange {
            what: "position",
            at,
            value: positions[at],
            limit: train.rows(),
        });
    }
    let rows = RowBlocks::gather(train, positions);
    let norms: Vec<f64> = positions
        .iter()
        .map(|p| train.row(*p).iter().map(|v| f64::from(*v).powi(2)).sum())
        .collect();
    let tests: Vec<usize> = (0..test.rows()).collect();
    let has: Vec<Vec<bool>> = tests
        .par_chunks(TESTS)
        .map(|some| {
            nearest(&rows, &norms, test, some, neighbours)
                .iter()
                .flat_map(|found| {
                    (0..labels.width).map(|label| {
                        let votes = found.iter().filter(|i| labels.has[*i * labels.width + label]).count();
                        votes * 2 > neighbours
                    })
                })
                .collect()
        })
        .collect();
    Ok(LabelMatrix {
        width: labels.width,
        has: has.concat(),
    })
}

/// Positions of the nearest rows to each of at most [`TESTS`] test vectors; the first among equally
/// near ones.
fn nearest(rows: &RowBlocks, norms: &[f64], test: Vectors<'_>, some: &[usize], neighbours: usize) -> Vec<Vec<usize>> {
    let panel_len = rows.groups() * GROUP * PANEL;
    let width = some.len().next_multiple_of(PANEL);
    let mut panels = vec![0.0; width / PANEL * panel_len];
    for (column, &at) in some.iter().enumerate() {
        for (d, value) in test.row(at).iter().enumerate() {
            panels[column / PANEL * panel_len + d * PANEL + column % PANEL] = f64::from(*value);
        }
    }
    let (mut products, mut room) = (vec![0.0; BLOCK * width], Vec::new());
    // ‖test‖² is the same for all rows, so it is left out.
    let mut best: Vec<Vec<(f64, usize)>> = vec![Vec::with_capacity(neighbours + 1); some.len()];
    for block in 0..rows.blocks() {
        let values = rows.widened(block, &mut room);
        forward(values, &panels, panel_len, |_| 0.0, &mut products);
        for row in 0..rows.rows_in(block) {
            let i = block * BLOCK + row;
            for (column, best) in best.iter_mut().enumerate() {
                let apart = norms[i] - 2.0 * products[row * width + column];
                if best.len() < neighbours || best.last().is_some_and(|worst| apart < worst.0) {
                    let at = best.partition_point(|b| b.0 <= apart);
                    best.insert(at, (apart, i));
                    best.truncate(neighbours);
                }
            }
        }
    }
    best.into_iter()
        .map(|b| b.into_iter().map(|(_, i)| i).collect())
        .collect()
}
