//! The nearest neighbours by Euclidean distance, as in the brute-force search of
//! `KNeighborsClassifier`.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use crate::{
    LearnError,
    linalg::{BLOCK, GROUP, PANEL, RowBlocks, forward},
    vectors::{FiniteMatrix, Vectors},
};

/// Number of test vectors that are compared with all train vectors together.
const TESTS: usize = 4 * PANEL;

/// For every test vector, the labels of more than half of its `neighbours` nearest train vectors; a
/// tie does not give the label. `positions` are the train rows, `labels` has one row per position.
///
/// # Errors
/// If there are fewer train vectors than neighbours, no neighbours, different widths or numbers of
/// labels, or a position out of range.
pub fn predict_labels(
    train: ArrayView2<'_, f32>,
    positions: &[usize],
    labels: ArrayView2<'_, bool>,
    test: ArrayView2<'_, f32>,
    neighbours: usize,
) -> Result<Array2<bool>, LearnError> {
    let (train, test) = (
        FiniteMatrix::new("train vectors", train)?,
        FiniteMatrix::new("test vectors", test)?,
    );
    predict_of(train.vectors(), positions, labels, test.vectors(), neighbours)
}

/// [`predict_labels`] for vectors that were checked.
pub(crate) fn predict_of(
    train: Vectors<'_>,
    positions: &[usize],
    labels: ArrayView2<'_, bool>,
    test: Vectors<'_>,
    neighbours: usize,
) -> Result<Array2<bool>, LearnError> {
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
    if labels.nrows() != positions.len() {
        return Err(LearnError::Labels {
            what: "train labels",
            expected: positions.len(),
            found: labels.nrows(),
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
    let found: Vec<Vec<usize>> = tests
        .par_chunks(TESTS)
        .flat_map_iter(|some| nearest(&rows, &norms, test, some, neighbours))
        .collect();
    Ok(Array2::from_shape_fn((test.rows(), labels.ncols()), |(row, label)| {
        let votes = found[row].iter().filter(|i| labels[[**i, label]]).count();
        votes * 2 > neighbours
    }))
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
    // ‖test‖² is the same for all rows, so it is omitted.
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
