//! Rows that hold lists of texts: reranking, summarisation, graded ranking.

use super::{DatasetError, DatasetText, Role, files::Files, row::Row, rows::Rows, sample::RowSelection};
use isomer_scoring::task::{Candidates, SummarisedText, lexical_overlap};

/// Reads the selected rows.
pub(super) fn rows(
    files: &Files<'_>,
    name: &str,
    mut selection: RowSelection,
    mut take: impl FnMut(&mut Row) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let mut rows = Rows::open(files, name)?;
    let mut seen = false;
    while let Some(mut row) = rows.next_row()? {
        seen = true;
        match selection.takes() {
            Some(true) => take(&mut row)?,
            Some(false) => {}
            None => break,
        }
    }
    if !seen {
        return Err(DatasetError::Empty {
            file: rows.file().to_owned(),
        });
    }
    Ok(())
}

pub(super) fn push(
    texts: &mut Vec<DatasetText>,
    row: usize,
    field: &str,
    added: Vec<String>,
    role: Role,
    transformable: bool,
) {
    let many = added.len() > 1;
    for (i, text) in added.into_iter().enumerate() {
        let id = if many {
            format!("{row}:{field}[{i}]")
        } else {
            format!("{row}:{field}")
        };
        texts.push(DatasetText {
            id: id.into(),
            text: text.into(),
            role,
            transformable,
        });
    }
}

/// The labels that reranking is scored against.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct RerankingLabels {
    pub(super) items: Vec<Candidates>,
    /// Ids of the candidates, item by item; empty if rows are lists, whose candidates have no ids.
    pub(super) document_ids: Vec<String>,
}

/// Reads `query positive[] negative[]`, where the query may be a list of texts with the same
/// meaning. Rows without a positive or a negative are left out, as in every reference
/// implementation, and a note gives their number.
pub(super) fn read_reranking(
    files: &Files<'_>,
    name: &str,
    selection: RowSelection,
) -> Result<(Vec<DatasetText>, Vec<Candidates>, Vec<String>), DatasetError> {
    let (mut queries, mut documents, mut items, mut dropped) = (Vec::new(), Vec::new(), Vec::new(), 0_usize);
    rows(files, name, selection, |row| {
        let query = row.one_or_more_texts("query")?;
        let (positive, negative) = (row.texts("positive", 0)?, row.texts("negative", 0)?);
        if positive.is_empty() || negative.is_empty() {
            dropped += 1;
            return Ok(());
        }
        let item = items.len();
        items.push(Candidates {
            queries: query.len(),
            positives: positive.len(),
            negatives: negative.len(),
        });
        push(&mut queries, item, "query", query, Role::Query, true);
        push(&mut documents, item, "positive", positive, Role::Candidate, false);
        push(&mut documents, item, "negative", negative, Role::Candidate, false);
        Ok(())
    })?;
    if items.is_empty() {
        return Err(DatasetError::Undefined {
            file: files.label(name),
            problem: format!("none of the {dropped} queries has both a positive and a negative: nothing can be ranked"),
        });
    }
    let notes =
        (dropped > 0).then(|| format!("{dropped} queries without a positive or a negative are left out, as mteb does"));
    queries.append(&mut documents);
    Ok((queries, items, notes.into_iter().collect()))
}

/// Whether a query has something to rank: a positive and a negative.
pub(super) fn can_be_ranked(row: &mut Row) -> Result<bool, DatasetError> {
    Ok(!row.texts("positive", 0)?.is_empty() && !row.texts("negative", 0)?.is_empty())
}

/// Reads `human_summaries[] machine_summaries[] relevance[]`; the text itself is not encoded.
pub(super) fn read_summarisation(
    files: &Files<'_>,
    name: &str,
    selection: RowSelection,
) -> Result<(Vec<DatasetText>, Vec<SummarisedText>), DatasetError> {
    let (mut human, mut machine, mut labels) = (Vec::new(), Vec::new(), Vec::<SummarisedText>::new());
    rows(files, name, selection, |row| {
        let humans = row.texts("human_summaries", 1)?;
        let machines = row.texts("machine_summaries", 1)?;
        let relevance = row.numbers("relevance", machines.len(), "machine_summaries")?;
        let item = labels.len();
        labels.push(SummarisedText {
            human: humans.len(),
            relevance,
        });
        push(&mut human, item, "human_summaries", humans, Role::HumanSummary, true);
        push(
            &mut machine,
            item,
            "machine_summaries",
            machines,
            Role::MachineSummary,
            true,
        );
        Ok(())
    })?;
    let mut all = labels.iter().flat_map(|text| &text.relevance);
    let first = all.next();
    if all.all(|relevance| Some(relevance) == first) {
        return Err(DatasetError::Undefined {
            file: files.label(name),
            problem: "all relevances are equal: a correlation with a constant is undefined; take other data".to_owned(),
        });
    }
    human.append(&mut machine);
    Ok((human, labels))
}

/// Reads `anchor candidates[]`, best first. The third value is the mean word overlap of anchors and
/// best candidates.
pub(super) fn read_graded_ranking(
    files: &Files<'_>,
    name: &str,
    selection: RowSelection,
) -> Result<(Vec<DatasetText>, Vec<usize>, f64), DatasetError> {
    let (mut anchors, mut candidates, mut counts, mut overlap) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    rows(files, name, selection, |row| {
        let anchor = row.text("anchor")?;
        let graded = row.texts("candidates", 2)?;
        overlap += graded.first().map_or(0.0, |best| lexical_overlap(&anchor, best));
        let item = counts.len();
        counts.push(graded.len());
        push(&mut anchors, item, "anchor", vec![anchor], Role::First, true);
        push(&mut candidates, item, "candidates", graded, Role::Candidate, false);
        Ok(())
    })?;
    overlap /= counts.len() as f64;
    anchors.append(&mut candidates);
    Ok((anchors, counts, overlap))
}
