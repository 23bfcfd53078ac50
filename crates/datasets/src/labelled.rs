//! Rows with a label: classification and clustering.

use super::{
    DatasetError, DatasetText, Role,
    files::Files,
    row::Row,
    rows::Rows,
    sample::{RowSelection, Stratum},
};

/// Reads `text label` of the train file and of the split's. Every text is transformed, including
/// train texts, as in HTEB.
pub(super) fn read_classification(
    files: &Files<'_>,
    [train, test]: [&str; 2],
    [of_train, of_test]: [RowSelection; 2],
) -> Result<(Vec<DatasetText>, [Vec<String>; 2]), DatasetError> {
    let (mut texts, train_labels) = read(files, train, of_train, "train")?;
    let (mut others, test_labels) = read(files, test, of_test, "test")?;
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
    mut selection: RowSelection,
    part: &str,
) -> Result<(Vec<DatasetText>, Vec<String>), DatasetError> {
    let mut rows = Rows::open(files, name)?;
    let (mut texts, mut labels) = (Vec::new(), Vec::new());
    while let Some(mut row) = rows.next_row()? {
        match selection.takes() {
            Some(true) => {}
            Some(false) => continue,
            None => break,
        }
        let text = row.text("text")?;
        push(&mut texts, format!("{part}:{}", labels.len()), text);
        labels.push(row.label("label")?);
    }
    if labels.is_empty() {
        return Err(DatasetError::Empty {
            file: rows.file().to_owned(),
        });
    }
    Ok((texts, labels))
}

fn push(texts: &mut Vec<DatasetText>, id: String, text: String) {
    texts.push(DatasetText {
        id: id.into(),
        text: text.into(),
        role: Role::Labelled,
        transformable: true,
    });
}

/// The labels that clustering is scored against: one per document, and the documents of each set if
/// rows are sets.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct ClusteringLabels {
    pub(super) labels: Vec<String>,
    pub(super) sets: Vec<usize>,
    /// Whether single documents were cut into the sets.
    #[serde(default)]
    cut: bool,
}

impl ClusteringLabels {
    pub(super) fn rows_are_sets(&self) -> bool {
        !self.sets.is_empty() && !self.cut
    }

    /// Cuts single documents, in their order, into sets whose sizes differ by at most one.
    ///
    /// # Errors
    /// If there are fewer documents than sets.
    pub(super) fn cut_into(&mut self, sets: usize) -> Result<(), String> {
        let documents = self.labels.len();
        if !self.sets.is_empty() || sets < 2 {
            return Ok(());
        }
        if documents < sets {
            return Err(format!(
                "{documents} documents cannot be cut into {sets} sets; give fewer `sets`"
            ));
        }
        self.sets = (0..sets)
            .map(|set| documents / sets + usize::from(set < documents % sets))
            .collect();
        self.cut = true;
        Ok(())
    }
}

/// Reads `text label` (a document a row) or `sentences[] labels[]` (a set a row). All rows must
/// have the same form.
pub(super) fn read_clustering(
    files: &Files<'_>,
    name: &str,
    mut selection: RowSelection,
) -> Result<(Vec<DatasetText>, ClusteringLabels), DatasetError> {
    let mut rows_of = Rows::open(files, name)?;
    let mut texts = Vec::new();
    let mut labels = ClusteringLabels::default();
    let mut rows = 0;
    while let Some(mut row) = rows_of.next_row()? {
        match selection.takes() {
            Some(true) => {}
            Some(false) => continue,
            None => break,
        }
        let is_set = row.is_list("sentences");
        if !is_set {
            as_document(&mut row);
        }
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
            file: rows_of.file().to_owned(),
        });
    }
    if labels.labels.windows(2).all(|w| w[0] == w[1]) {
        let problem = format!(
            "all {} labels are `{}`: there is nothing to separate",
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

/// In mteb, the columns of single documents are called `sentences` and `labels` too.
fn as_document(row: &mut Row) {
    row.also_called("text", "sentences");
    row.also_called("label", "labels");
}

/// The stratum of a labelled text in a sample: its label, or none if rows are sets.
pub(super) fn stratum(row: &mut Row) -> Result<Stratum, DatasetError> {
    if row.is_list("sentences") {
        return Ok(Stratum::None);
    }
    as_document(row);
    row.label("label").map(Stratum::Label)
}

fn mixed(row: &Row) -> DatasetError {
    row.error(
        "sentences",
        "some rows are sets (`sentences`, `labels`), others documents (`text`, `label`)",
    )
}
