//! Encodes and searches a shard of a corpus; its vectors are then dropped. This is the work of a
//! unit, whether this process or a worker does it.

use std::{collections::HashMap, sync::Arc};

use ndarray::Axis;

use super::{
    BatchLimits, WorkEngine,
    encoding::{self, EncodedTexts, EncodingError, PromptedEncoder},
    shard::{DocumentFacts, Shard, ShardHits, ShardSearch, digest_of_vector},
};
use crate::{
    compute::Compute,
    metric::{
        MatrixError,
        search::{self, Hit},
        vector_matrix,
    },
};

/// Encodes the documents with `work` and searches them.
pub(super) async fn search(
    work: &dyn WorkEngine,
    own: BatchLimits,
    compute: &Compute,
    shard: &Shard,
    wanted: Arc<ShardSearch>,
) -> Result<ShardHits, EncodingError> {
    let documents = shard.documents();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut distinct: Vec<&str> = Vec::new();
    let mut firsts = Vec::new();
    let rows: Vec<usize> = documents
        .texts
        .iter()
        .enumerate()
        .map(|(row, text)| {
            *places.entry(text).or_insert_with(|| {
                distinct.push(text);
                firsts.push(row);
                distinct.len() - 1
            })
        })
        .collect();
    let prompted = PromptedEncoder {
        work,
        encoder: &wanted.encoder,
        prompt: wanted.prompt.as_ref(),
    };
    let encoded = encoding::encode(prompted, own, &distinct, |_, _| ());
    let encoded = encoded.await.map_err(|error| match error {
        EncodingError::Text { index, message } => EncodingError::Text {
            index: firsts.get(index).copied().unwrap_or_default(),
            message,
        },
        other => other,
    })?;
    let (texts, usage) = (distinct.len() as u64, encoded.usage);
    let ids = documents.ids.clone();
    let searched = compute.batch(move || find(encoded, &rows, &ids, &wanted));
    let (hits, facts) = searched
        .await
        .map_err(|error| EncodingError::Unusable(format!("searching its vectors stopped: {error}")))??;
    Ok(ShardHits {
        hits,
        facts,
        encoded: texts,
        usage,
    })
}

type HitsAndFacts = (Vec<Vec<Hit>>, Vec<DocumentFacts>);

/// Searches documents, given the row of each among distinct vectors.
fn find(
    encoded: EncodedTexts,
    rows: &[usize],
    ids: &[String],
    wanted: &ShardSearch,
) -> Result<HitsAndFacts, EncodingError> {
    let EncodedTexts { data, cols, cut, .. } = encoded;
    let bad = |error: MatrixError| EncodingError::Unusable(error.to_string());
    let queries = wanted.queries.matrix().view();
    if queries.ncols() != cols {
        let message = format!(
            "answered documents of {cols} columns after queries of {}",
            queries.ncols()
        );
        return Err(EncodingError::Unusable(message));
    }
    let distinct = data.len() / cols.max(1);
    let facts: Vec<DocumentFacts> = data
        .chunks_exact(cols.max(1))
        .zip(cut)
        .map(|(vector, cut)| DocumentFacts {
            cut,
            vector: digest_of_vector(vector),
        })
        .collect();
    let matrix = vector_matrix(distinct, cols, data).map_err(bad)?;
    // If no text occurs twice, rows are in the order of their documents.
    let matrix = match distinct == rows.len() {
        true => matrix,
        false => matrix.select(Axis(0), rows),
    };
    let hits = search::top_k(
        queries,
        matrix.view(),
        &search::id_order(ids),
        encoding::similarity(&wanted.encoder),
        wanted.terms.k,
        wanted.terms.ties,
    );
    let facts = rows.iter().filter_map(|row| facts.get(*row).copied()).collect();
    Ok((hits, facts))
}
