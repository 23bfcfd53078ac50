//! Rows of the tasks on pairs.

use super::{
    DatasetError, DatasetText, Role,
    files::Files,
    row::Row,
    rows::Rows,
    sample::{RowSelection, Stratum},
};
use isomer_scoring::task::TaskType;
use ndarray::{ArrayView2, s};

/// Reads `sentence1 sentence2 score`.
pub(super) fn read_sts(
    files: &Files<'_>,
    name: &str,
    selection: RowSelection,
) -> Result<(Vec<DatasetText>, Vec<f64>), DatasetError> {
    let (texts, gold) = read(files, name, selection, |row| row.number("score"))?;
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
    selection: RowSelection,
) -> Result<(Vec<DatasetText>, Vec<bool>), DatasetError> {
    let (texts, labels) = read(files, name, selection, binary)?;
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

/// Reads `sentence1 sentence2`, translations of each other. Only the first side is transformed,
/// because it acts as the query.
pub(super) fn read_bitext(
    files: &Files<'_>,
    name: &str,
    selection: RowSelection,
) -> Result<(Vec<DatasetText>, usize), DatasetError> {
    let (mut texts, rows) = read(files, name, selection, |_| Ok(()))?;
    for text in &mut texts {
        text.transformable = text.role == Role::First;
    }
    Ok((texts, rows.len()))
}

/// `label`, or `labels`, which is mteb's name of the column.
fn binary(row: &mut Row) -> Result<bool, DatasetError> {
    row.also_called("label", "labels");
    row.binary("label")
}

/// The stratum of a row in a sample: its gold score, its label, or none.
pub(super) fn stratum(task: TaskType, row: &mut Row) -> Result<Stratum, DatasetError> {
    match task {
        TaskType::Sts => Ok(Stratum::Gold(row.number("score")?)),
        TaskType::PairClassification => Ok(Stratum::Label(u8::from(binary(row)?).to_string())),
        _ => Ok(Stratum::None),
    }
}

fn read<L>(
    files: &Files<'_>,
    name: &str,
    mut selection: RowSelection,
    label: impl Fn(&mut Row) -> Result<L, DatasetError>,
) -> Result<(Vec<DatasetText>, Vec<L>), DatasetError> {
    let mut rows = Rows::open(files, name)?;
    let (mut texts, mut labels) = (Vec::new(), Vec::new());
    'rows: while let Some(row) = rows.next_row()? {
        for mut row in row.pairs() {
            match selection.takes() {
                Some(true) => {}
                Some(false) => continue,
                None => break 'rows,
            }
            for (field, role) in [("sentence1", Role::First), ("sentence2", Role::Second)] {
                let id = format!("{}:{field}", labels.len());
                texts.push(DatasetText {
                    id: id.into(),
                    text: row.text(field)?.into(),
                    role,
                    transformable: true,
                });
            }
            labels.push(label(&mut row)?);
        }
    }
    if labels.is_empty() {
        return Err(DatasetError::Empty {
            file: rows.file().to_owned(),
        });
    }
    Ok((texts, labels))
}

/// Vectors of the first texts and of the second texts, from vectors in the order of the texts.
pub(super) fn split(vectors: ArrayView2<'_, f32>) -> (ArrayView2<'_, f32>, ArrayView2<'_, f32>) {
    let second = vectors.nrows().min(1);
    (vectors.slice_move(s![..;2, ..]), vectors.slice_move(s![second..;2, ..]))
}
