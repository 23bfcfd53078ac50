//! Rows with a label: classification and clustering.

use super::{
    DatasetError, DatasetText, Role,
    rows::{Lines, Row},
    source::Files,
};

/// Reads `text label` of the train file and of the split's. Every text is transformed, those trained on too, as HTEB does.
pub(super) fn read_classification(
    files: &Files<'_>,
    train: &str,
    test: &str,
    limit: Option<usize>,
) -> Result<(Vec<DatasetText>, [Vec<String>; 2]), DatasetError> {
    let (mut texts, train_labels) = read(files, train, None, "train")?;
    let (mut others, test_labels) = read(files, test, limit, "test")?;
    if train_labels.windows(2).all(|w| w[0] == w[1]) {
        let problem = format!(
            "all {} labels are `{}`: a classifier needs at least two classes",
            train_labels.len(),
            train_labels[0]
        );
        return Err(DatasetError::Undefined {
            file: files.label(train),
            problem,
        });
    }
    if let Some(row) = test_labels.iter().position(|label| !train_labels.contains(label)) {
        let problem = format!(
            "row {row} (from 0) has the label `{}`, which no row of {} has",
            test_labels[row],
            files.label(train)
        );
        return Err(DatasetError::Undefined {
            file: files.label(test),
            problem,
        });
    }
    texts.append(&mut others);
    Ok((texts, [train_labels, test_labels]))
}

fn read(
    files: &Files<'_>,
    name: &str,
    limit: Option<usize>,
    part: &str,
) -> Result<(Vec<DatasetText>, Vec<String>), DatasetError> {
    let mut lines = Lines::open(files, name)?;
    let (mut texts, mut labels) = (Vec::new(), Vec::new());
    while labels.len() < limit.unwrap_or(usize::MAX) {
        let Some(mut row) = lines.next_row()? else { break };
        let text = row.text("text")?;
        push(&mut texts, format!("{part}:{}", labels.len()), text);
        labels.push(row.label("label")?);
    }
    if labels.is_empty() {
        return Err(DatasetError::Empty {
            file: lines.file().to_owned(),
        });
    }
    Ok((texts, labels))
}

fn push(texts: &mut Vec<DatasetText>, id: String, text: String) {
    texts.push(DatasetText {
        id,
        text,
        role: Role::Labelled,
        transformable: true,
    });
}

/// What clustering is scored against: a label a document, and the documents of each set where rows are sets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClusteringLabels {
    pub(super) labels: Vec<String>,
    pub(super) sets: Vec<usize>,
}

/// Reads `text label` (a document a row) or `sentences[] labels[]` (a set a row); all rows of one form.
pub(super) fn read_clustering(
    files: &Files<'_>,
    name: &str,
    limit: Option<usize>,
) -> Result<(Vec<DatasetText>, ClusteringLabels), DatasetError> {
    let mut lines = Lines::open(files, name)?;
    let mut texts = Vec::new();
    let mut labels = ClusteringLabels {
        labels: Vec::new(),
        sets: Vec::new(),
    };
    let mut rows = 0;
    while rows < limit.unwrap_or(usize::MAX) {
        let Some(mut row) = lines.next_row()? else { break };
        let is_set = row.has("sentences");
        if rows > 0 && is_set == labels.sets.is_empty() {
            return Err(mixed(&row));
        }
        if is_set {
            let sentences = row.texts("sentences", 1)?;
            let own = row.labels("labels", sentences.len(), "sentences")?;
            for (i, text) in sentences.into_iter().enumerate() {
                push(&mut texts, format!("{rows}:sentences[{i}]"), text);
            }
            labels.sets.push(own.len());
            labels.labels.extend(own);
        } else {
            let text = row.text("text")?;
            push(&mut texts, format!("{rows}:text"), text);
            labels.labels.push(row.label("label")?);
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(DatasetError::Empty {
            file: lines.file().to_owned(),
        });
    }
    if labels.labels.windows(2).all(|w| w[0] == w[1]) {
        let problem = format!(
            "all {} labels are `{}`: nothing can be told apart",
            labels.labels.len(),
            labels.labels[0]
        );
        return Err(DatasetError::Undefined {
            file: files.label(name),
            problem,
        });
    }
    Ok((texts, labels))
}

fn mixed(row: &Row) -> DatasetError {
    row.error(
        "sentences",
        "some rows are sets (`sentences`, `labels`), others documents (`text`, `label`)",
    )
}
