//! Lists rated by a language model, in place of or in addition to judgements.
//!
//! The judge rates the similarity in meaning of query and document, from 0 to 5 (PTEB's scale).
//! That is not relevance, and the judge makes errors. So its ratings are not judgements, and no
//! rule of the gate uses them. If there are judgements too, [`RelevanceRatings::agreement`] shows
//! how often the judge rates a relevant document above another one.

use std::collections::{BTreeSet, HashMap};

use isomer_client::Channel;
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{JudgeRequest, JudgeScale, judge_request::Pair, transform_service_client::TransformServiceClient},
};
use isomer_service_kit::limits::INNER_MESSAGE;

use super::{
    Lists, Measure, Qrels, Query, Settings,
    estimate::{Estimate, clusters_of, estimate},
    relevant,
};
use crate::{
    error::{IndexError, Result},
    store::VectorStore,
};

/// Number of pairs per request.
const BATCH: usize = 32;
const HIGHEST: f64 = 5.0;

/// The model that rates, and its service.
#[derive(Debug, Clone)]
pub struct Judge {
    /// The transform service.
    pub channel: Channel,
    /// The model, by a generator's name; empty: the server's default.
    pub generator: String,
    /// Seed of its answers.
    pub seed: Option<u64>,
}

/// The result of the ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct RelevanceRatings {
    /// The model.
    pub judge: String,
    /// Number of rated pairs of query and document.
    pub pairs: usize,
    /// Number of pairs whose answer was not a rating. Queries with such a pair are left out.
    pub unrated: usize,
    /// Number of queries over which the measures are averaged.
    pub queries: usize,
    /// Mean rating (0 to 5) of the lists' documents, and nDCG with ratings as gains, with an ideal
    /// list from both lists.
    pub measures: Vec<Measure>,
    /// Among the rated pairs of a relevant and another document for the same query, the share in
    /// which the relevant one is rated higher, with ties as half; 0.5 is chance. `None` without
    /// judgements, or without such pairs. Unjudged documents count as not relevant.
    pub agreement: Option<Estimate>,
}

/// The texts of documents, from the collection that keeps them.
///
/// # Errors
/// If a document is missing, or the collection does not keep texts.
pub async fn texts_of(store: &dyn VectorStore, documents: &[String]) -> Result<HashMap<String, String>> {
    let mut texts: HashMap<String, String> = HashMap::new();
    for some in documents.chunks(500) {
        let mut rows = store.rows_of(some).await?;
        // Pieces of a document in their order: KEY#2 before KEY#10.
        rows.sort_by_key(|row| {
            let number = row
                .key
                .rsplit_once('#')
                .and_then(|(_, number)| number.parse::<u64>().ok());
            (row.document.clone(), number, row.key.clone())
        });
        let keys: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
        let kept: HashMap<String, Option<String>> = store
            .vectors(&keys)
            .await?
            .into_iter()
            .map(|row| (row.key, row.text))
            .collect();
        for row in rows {
            let text = kept
                .get(&row.key)
                .and_then(Option::as_deref)
                .ok_or_else(|| IndexError::Setting {
                    field: "judge",
                    message: format!("{} keeps no text of `{}`", store.name(), row.document),
                    hint: "give the texts (--documents), or fill the collection with --with-text",
                })?;
            let own = texts.entry(row.document).or_default();
            if !own.is_empty() {
                own.push(' ');
            }
            own.push_str(text);
        }
    }
    Ok(texts)
}

/// Every document of two results, without duplicates.
pub fn documents(one: &Lists, other: &Lists) -> Vec<String> {
    let all = one.hits.iter().chain(&other.hits).flatten();
    let distinct: BTreeSet<&str> = all.map(|hit| hit.document.as_str()).collect();
    distinct.into_iter().map(str::to_owned).collect()
}

/// Rates the documents of both lists of each query.
///
/// # Errors
/// If a document has no text, the judge cannot be reached, or none of its answers is a rating.
pub async fn rate(
    judge: &Judge,
    (one, other): (&Lists, &Lists),
    queries: &[Query],
    texts: &HashMap<String, String>,
    qrels: Option<&Qrels>,
    settings: Settings,
) -> Result<RelevanceRatings> {
    let mut asked: Vec<(usize, &str, &str)> = Vec::new();
    for at in 0..queries.len() {
        let all = one.hits[at].iter().chain(&other.hits[at]);
        let distinct: BTreeSet<&str> = all.map(|hit| hit.document.as_str()).collect();
        for document in distinct {
            let text = texts.get(document).ok_or_else(|| IndexError::Setting {
                field: "documents",
                message: format!("there is no text of `{document}`"),
                hint: "give a row with `id` and `text` for each document of the collections",
            })?;
            asked.push((at, document, text));
        }
    }
    let mut ratings: Vec<HashMap<&str, Option<f64>>> = vec![HashMap::new(); queries.len()];
    let mut unrated = 0;
    let mut named = judge.generator.clone();
    for batch in asked.chunks(BATCH) {
        let request = JudgeRequest {
            pairs: batch
                .iter()
                .map(|(at, _, text)| Pair {
                    id: String::new(),
                    original: queries[*at].text.clone(),
                    transformed: (*text).to_owned(),
                })
                .collect(),
            scale: JudgeScale::Similarity.into(),
            generator_id: judge.generator.clone(),
            seed: judge.seed,
            priority: Priority::Batch.into(),
            ..JudgeRequest::default()
        };
        let mut client = TransformServiceClient::new(judge.channel.clone()).max_decoding_message_size(INNER_MESSAGE);
        let answer = client.judge(request).await.map_err(|status| IndexError::Refused {
            doing: "rating".to_owned(),
            message: isomer_service_kit::Fault::from_status(&status).to_string(),
        })?;
        for rating in answer.into_inner().ratings {
            let Some((at, document, _)) = batch.get(rating.index as usize) else {
                continue;
            };
            if let Some(provenance) = &rating.provenance {
                named.clone_from(&provenance.generator_id);
            }
            unrated += usize::from(rating.score.is_none());
            ratings[*at].insert(document, rating.score);
        }
    }
    if unrated == asked.len() && !asked.is_empty() {
        return Err(IndexError::Refused {
            doing: "rating".to_owned(),
            message: format!("none of {unrated} answers of {named} is a rating from 0 to 5; choose another --judge"),
        });
    }
    let clusters = clusters_of(queries);
    let rated: Vec<Option<HashMap<&str, f64>>> = ratings
        .into_iter()
        .map(|own| {
            own.into_iter()
                .map(|(document, score)| Some((document, score?)))
                .collect()
        })
        .collect();
    Ok(RelevanceRatings {
        judge: named,
        pairs: asked.len() - unrated,
        unrated,
        queries: rated.iter().flatten().filter(|own| !own.is_empty()).count(),
        measures: measures(&rated, (one, other), &clusters, settings),
        agreement: qrels.and_then(|qrels| agreement(&rated, queries, qrels, &clusters, settings)),
    })
}

fn measures(
    rated: &[Option<HashMap<&str, f64>>],
    (one, other): (&Lists, &Lists),
    clusters: &[u32],
    settings: Settings,
) -> Vec<Measure> {
    let gains = |lists: &Lists, at: usize, own: &HashMap<&str, f64>| -> Vec<f64> {
        let hits = lists.hits[at].iter();
        hits.filter_map(|hit| own.get(hit.document.as_str()).copied()).collect()
    };
    let mut found: Vec<(u32, [[f64; 2]; 2])> = Vec::new();
    for (at, own) in rated.iter().enumerate() {
        let Some(own) = own.as_ref().filter(|own| !own.is_empty()) else {
            continue;
        };
        let mut ideal: Vec<f64> = own.values().copied().collect();
        ideal.sort_by(|a, b| b.total_cmp(a));
        ideal.truncate(settings.k);
        let best = discounted(&ideal);
        let values = [one, other].map(|lists| {
            let gains = gains(lists, at, own);
            let rating = isomer_stats::mean(&gains).unwrap_or(0.0);
            // If everything is rated 0, no order is better than another.
            let share = if best > 0.0 { discounted(&gains) / best } else { 1.0 };
            [rating, share]
        });
        found.push((clusters[at], values));
    }
    let own: Vec<u32> = found.iter().map(|(cluster, _)| *cluster).collect();
    [("rating", HIGHEST), ("rated_ndcg", 1.0)]
        .into_iter()
        .enumerate()
        .filter(|_| !found.is_empty())
        .map(|(number, (name, most))| {
            let of = |side: usize| {
                found
                    .iter()
                    .map(|(_, values)| values[side][number])
                    .collect::<Vec<f64>>()
            };
            let (a, b) = (of(0), of(1));
            // In shares of the highest value, so that the interval of equal values is that of the
            // largest change.
            let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (b - a) / most).collect();
            let shared = estimate(&differences, &own, (-1.0, 1.0), settings.resampling);
            Measure {
                name: format!("{name}_at_{}", settings.k),
                means: [&a, &b].map(|values| isomer_stats::mean(values).unwrap_or_default()),
                difference: Estimate {
                    mean: shared.mean * most,
                    interval: shared.interval.map(|(low, high)| (low * most, high * most)),
                },
            }
        })
        .collect()
}

/// Discounted cumulative gain.
fn discounted(gains: &[f64]) -> f64 {
    gains
        .iter()
        .enumerate()
        .map(|(place, gain)| gain / (place as f64 + 2.0).log2())
        .sum()
}

fn agreement(
    rated: &[Option<HashMap<&str, f64>>],
    queries: &[Query],
    qrels: &Qrels,
    clusters: &[u32],
    settings: Settings,
) -> Option<Estimate> {
    let (mut values, mut own_clusters) = (Vec::new(), Vec::new());
    for ((own, query), cluster) in rated.iter().zip(queries).zip(clusters) {
        let (Some(own), Some(grades)) = (own, relevant(qrels, query)) else {
            continue;
        };
        let (good, rest): (Vec<_>, Vec<_>) = own
            .iter()
            .partition(|(document, _)| grades.get(**document).is_some_and(|grade| *grade > 0));
        let pairs = good
            .iter()
            .flat_map(|(_, high)| rest.iter().map(move |(_, low)| (**high, **low)));
        let wins: Vec<f64> = pairs
            .map(|(high, low)| match high.total_cmp(&low) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            })
            .collect();
        if let Some(share) = isomer_stats::mean(&wins) {
            values.push(share);
            own_clusters.push(*cluster);
        }
    }
    (!values.is_empty()).then(|| estimate(&values, &own_clusters, (0.0, 1.0), settings.resampling))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_discounted_by_their_place() {
        assert_eq!(discounted(&[]), 0.0);
        let found = discounted(&[3.0, 2.0, 1.0]);
        assert!((found - (3.0 + 2.0 / 3_f64.log2() + 0.5)).abs() < 1e-12);
    }
}
