//! Reads vectors and labels from a request.

use std::collections::{BTreeMap, HashMap};

use isomer_proto::{
    common::v1::{Dtype, Matrix},
    eval::v1::{PairVectors, RetrievalVectors},
};
use isomer_service_kit::{
    Fault,
    vectors::{floats, widened},
};
use ndarray::{Array2, Axis};

use super::VectorInput;
use crate::{
    metric::{Similarity, vector_matrix},
    task::{Profile, RetrievalInput, ScoreError, Scores, SearchMode, TaskType, score_retrieval},
};

/// A packed matrix, unpacked. f16 widens to f32 without loss.
pub(super) fn matrix(field: &str, matrix: Option<Matrix>) -> Result<Array2<f32>, Fault> {
    let matrix = matrix.ok_or_else(|| Fault::invalid(field, "no vectors are given"))?;
    let (rows, cols) = (matrix.rows as usize, matrix.cols as usize);
    let data: Vec<f32> = match matrix.dtype() {
        Dtype::F32 => floats(whole(field, &matrix.data, 4)?).collect(),
        Dtype::F16 => widened(whole(field, &matrix.data, 2)?).collect(),
        other => {
            return Err(Fault::invalid(
                format!("{field}.dtype"),
                format!("{} cannot be scored", other.as_str_name()),
            )
            .hint("send DTYPE_F32 or DTYPE_F16"));
        }
    };
    vector_matrix(rows, cols, data).map_err(|error| Fault::invalid(field, error.to_string()))
}

/// The bytes, if they are a whole number of values of `size` bytes.
fn whole<'a>(field: &str, data: &'a [u8], size: usize) -> Result<&'a [u8], Fault> {
    if !data.len().is_multiple_of(size) {
        let message = format!("{} bytes are not a whole number of {size}-byte values", data.len());
        return Err(Fault::invalid(format!("{field}.data"), message));
    }
    Ok(data)
}

/// Vectors of pairs with a label each.
#[derive(Debug)]
pub(super) struct Pairs<L> {
    pub(super) first: Array2<f32>,
    pub(super) second: Array2<f32>,
    pub(super) labels: Vec<L>,
}

/// Reads the vectors of a pair task.
pub(super) fn pairs(task: TaskType, pairs: PairVectors) -> Result<VectorInput, Fault> {
    let first = matrix("pairs.first", pairs.first)?;
    let second = matrix("pairs.second", pairs.second)?;
    let labels = pairs.labels;
    if task == TaskType::Bitext {
        if !labels.is_empty() {
            return Err(Fault::invalid("pairs.labels", "bitext has no labels").hint("leave them out"));
        }
        if first.nrows() == 0 {
            return Err(Fault::invalid("pairs.first", "there are no pairs"));
        }
        return Ok(VectorInput::Bitext(first, second));
    }
    if labels.is_empty() {
        return Err(Fault::invalid("pairs.labels", "there are no pairs"));
    }
    for (field, rows) in [("pairs.first", first.nrows()), ("pairs.second", second.nrows())] {
        if rows != labels.len() {
            return Err(Fault::invalid(
                field,
                format!("{rows} vectors for {} labels", labels.len()),
            ));
        }
    }
    let bad_label = |index: usize, expected: &str| {
        Err(Fault::invalid(
            format!("pairs.labels[{index}]"),
            format!("{} where {expected} is expected", labels[index]),
        ))
    };
    match task {
        TaskType::Sts => match labels.iter().position(|label| !label.is_finite()) {
            Some(index) => bad_label(index, "a finite number"),
            None => Ok(VectorInput::Sts(Pairs { first, second, labels })),
        },
        TaskType::PairClassification => match labels.iter().position(|label| *label != 0.0 && *label != 1.0) {
            Some(index) => bad_label(index, "0 or 1"),
            None => {
                let labels = labels.iter().map(|label| *label == 1.0).collect();
                Ok(VectorInput::PairClassification(Pairs { first, second, labels }))
            }
        },
        _ => Err(Fault::invalid("input.pairs", format!("{task} is not a task of pairs"))),
    }
}

#[derive(Debug)]
pub(super) struct Retrieval {
    queries: Array2<f32>,
    query_ids: Vec<String>,
    documents: Array2<f32>,
    document_ids: Vec<String>,
    judgements: Vec<Vec<(usize, i32)>>,
    search: SearchMode,
}

impl Retrieval {
    pub(super) fn score(&self, profile: Profile, similarity: Similarity) -> Result<Scores, ScoreError> {
        let input = RetrievalInput {
            queries: self.queries.view(),
            query_ids: &self.query_ids,
            documents: self.documents.view(),
            document_ids: &self.document_ids,
            judgements: &self.judgements,
            ignore_identical_ids: false,
            search: self.search,
        };
        score_retrieval(&input, similarity, profile)
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.query_ids.clone()
    }
}

/// Reads the vectors of a retrieval task. Queries without a judgement are skipped, as in mteb.
pub(super) fn retrieval(task: TaskType, input: RetrievalVectors, search: SearchMode) -> Result<VectorInput, Fault> {
    if task != TaskType::Retrieval {
        return Err(Fault::invalid(
            "input.retrieval",
            format!("{task} is not scored from retrieval vectors"),
        ));
    }
    let queries = matrix("retrieval.queries", input.queries)?;
    let documents = matrix("retrieval.documents", input.documents)?;
    let query_rows = rows_by_id("retrieval.query_ids", &input.query_ids, queries.nrows())?;
    let document_rows = rows_by_id("retrieval.document_ids", &input.document_ids, documents.nrows())?;
    let mut judged: BTreeMap<usize, Vec<(usize, i32)>> = BTreeMap::new();
    for (index, judgement) in input.judgements.iter().enumerate() {
        let find = |rows: &HashMap<&str, usize>, id: &str, field: &str| {
            let unknown = || {
                let message = format!("`{id}` is not among the ids given");
                Fault::invalid(format!("retrieval.judgements[{index}].{field}"), message)
            };
            rows.get(id).copied().ok_or_else(unknown)
        };
        let query = find(&query_rows, &judgement.query_id, "query_id")?;
        let document = find(&document_rows, &judgement.document_id, "document_id")?;
        let of_query = judged.entry(query).or_default();
        if of_query.iter().any(|(row, _)| *row == document) {
            let message = format!(
                "`{}` and `{}` are judged twice",
                judgement.query_id, judgement.document_id
            );
            return Err(Fault::invalid(format!("retrieval.judgements[{index}]"), message));
        }
        of_query.push((document, judgement.relevance));
    }
    if judged.is_empty() {
        return Err(Fault::invalid("retrieval.judgements", "there are no judgements"));
    }
    let rows: Vec<usize> = judged.keys().copied().collect();
    let kept = queries.select(Axis(0), &rows);
    let query_ids = judged.keys().map(|row| input.query_ids[*row].clone()).collect();
    let judgements = judged.into_values().collect();
    let document_ids = input.document_ids;
    Ok(VectorInput::Retrieval(Retrieval {
        queries: kept,
        query_ids,
        documents,
        document_ids,
        judgements,
        search,
    }))
}

fn rows_by_id<'a>(field: &str, ids: &'a [String], rows: usize) -> Result<HashMap<&'a str, usize>, Fault> {
    if ids.len() != rows {
        return Err(Fault::invalid(field, format!("{} ids for {rows} vectors", ids.len())));
    }
    let mut by_id = HashMap::with_capacity(rows);
    for (row, id) in ids.iter().enumerate() {
        if by_id.insert(id.as_str(), row).is_some() {
            return Err(Fault::invalid(
                format!("{field}[{row}]"),
                format!("`{id}` occurs twice"),
            ));
        }
    }
    Ok(by_id)
}
