//! Rows of the pair tasks.

use super::{
    DatasetError, DatasetText, Role,
    rows::{Lines, Row},
    source::Files,
};
use crate::metric::VectorMatrix;

/// Reads `sentence1 sentence2 score`.
pub(super) fn read_sts(
    files: &Files<'_>,
    name: &str,
    limit: Option<usize>,
) -> Result<(Vec<DatasetText>, Vec<f64>), DatasetError> {
    let (texts, gold) = read(files, name, limit, |row| row.number("score"))?;
    if gold.windows(2).all(|w| w[0] == w[1]) {
        let problem = match gold.as_slice() {
            [_] => "one pair only: a correlation needs at least two".to_owned(),
            _ => format!(
                "all {} gold scores are {}: a correlation with a constant is undefined; take more rows or other data",
                gold.len(),
                gold[0]
            ),
        };
        return Err(DatasetError::Undefined {
            file: files.label(name),
            problem,
        });
    }
    Ok((texts, gold))
}

/// Reads `sentence1 sentence2 label`.
pub(super) fn read_pair_classification(
    files: &Files<'_>,
    name: &str,
    limit: Option<usize>,
) -> Result<(Vec<DatasetText>, Vec<bool>), DatasetError> {
    let (texts, labels) = read(files, name, limit, |row| row.binary("label"))?;
    if labels.windows(2).all(|w| w[0] == w[1]) {
        let problem = format!(
            "all {} labels are {}: average precision needs both classes; take more rows or other data",
            labels.len(),
            u8::from(labels[0])
        );
        return Err(DatasetError::Undefined {
            file: files.label(name),
            problem,
        });
    }
    Ok((texts, labels))
}

/// Reads `sentence1 sentence2`, translations of each other. Only the first side is transformed: it does the asking.
pub(super) fn read_bitext(
    files: &Files<'_>,
    name: &str,
    limit: Option<usize>,
) -> Result<(Vec<DatasetText>, usize), DatasetError> {
    let (mut texts, rows) = read(files, name, limit, |_| Ok(()))?;
    for text in &mut texts {
        text.transformable = text.role == Role::First;
    }
    Ok((texts, rows.len()))
}

fn read<L>(
    files: &Files<'_>,
    name: &str,
    limit: Option<usize>,
    label: impl Fn(&Row) -> Result<L, DatasetError>,
) -> Result<(Vec<DatasetText>, Vec<L>), DatasetError> {
    let mut lines = Lines::open(files, name)?;
    let (mut texts, mut labels) = (Vec::new(), Vec::new());
    while labels.len() < limit.unwrap_or(usize::MAX) {
        let Some(mut row) = lines.next_row()? else { break };
        for (field, role) in [("sentence1", Role::First), ("sentence2", Role::Second)] {
            let id = format!("{}:{field}", labels.len());
            texts.push(DatasetText {
                id,
                text: row.text(field)?,
                role,
                transformable: true,
            });
        }
        labels.push(label(&row)?);
    }
    if labels.is_empty() {
        return Err(DatasetError::Empty {
            file: lines.file().to_owned(),
        });
    }
    Ok((texts, labels))
}

/// Vectors of the first texts and of the second, from vectors in the order of the texts.
pub(super) fn split(vectors: &VectorMatrix) -> (VectorMatrix, VectorMatrix) {
    let rows = vectors.iter();
    let (first, second): (Vec<_>, Vec<_>) = rows.enumerate().partition(|(i, _)| i % 2 == 0);
    let take = |rows: Vec<(usize, &[f32])>| {
        let data = rows.iter().flat_map(|(_, row)| row.iter().copied()).collect();
        VectorMatrix::of_checked(rows.len(), vectors.cols(), data)
    };
    (take(first), take(second))
}
