//! Runs all sources at once and passes each variant on as it arrives, until all are complete or the
//! budget is spent.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::transform::v1::{Check, MissingReason, MissingVariant, TextItem, TransformResult, Variants};
use isomer_service_kit::Fault;

use super::{Augmentation, GeneratedVariants, incomplete, needed, spec::is_there};
use crate::{
    engine::Engine,
    service::{Totals, convert},
};

/// Variants of the items; `arrived` is called with each one as it arrives. Generations that the
/// budget cuts off are also cancelled at the generator.
pub(super) async fn run(
    engine: &Arc<Engine>,
    augmentation: Augmentation,
    items: &[TextItem],
    mut arrived: impl FnMut(&str),
) -> Result<GeneratedVariants, Fault> {
    let began = Instant::now();
    let Augmentation {
        sources,
        budget,
        fail,
        plain,
    } = augmentation;
    let count = sources.len();
    let streams = sources.into_iter().enumerate().map(|(number, source)| {
        let plan = Arc::clone(&source.plan);
        Arc::clone(engine)
            .run(Arc::clone(&source.plan), source.jobs)
            .map_ok(move |(job, done)| {
                let results = convert::results(&plan, &job, &done);
                let mut totals = Totals::default();
                // A text that was only looked up in the cache does not count as failed.
                if !done.is_missing() {
                    totals.add(&plan, &done, &results);
                }
                (results, totals, done.is_missing())
            })
            // An error that concerns all texts of a source ends that source.
            .scan(false, |ended, item| {
                let next = (!*ended).then(|| {
                    *ended = item.is_err();
                    item
                });
                std::future::ready(next)
            })
            .map(move |item| (number, item))
            .boxed()
    });
    let mut streams = stream::select_all(streams);
    // Indexed by item, then by source.
    let mut slots: Vec<Vec<Option<Slot>>> = items.iter().map(|_| vec![None; count]).collect();
    let mut totals = Totals::default();
    let mut failures: Vec<Option<String>> = vec![None; count];
    let deadline = async {
        match budget {
            Some(budget) => tokio::time::sleep(budget).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(deadline);
    while budget.is_none_or(|budget| began.elapsed() < budget) {
        let next = tokio::select! {
            next = streams.next() => next,
            () = &mut deadline => None,
        };
        let Some((number, next)) = next else {
            break;
        };
        let (results, counted, missing) = match next {
            Ok(next) => next,
            // If a generator cannot be reached, its variants are missing but the request succeeds.
            // If a cache cannot be used, that is an error of this service.
            Err(error) if fail || !error.is_of_generator() => return Err(error.into()),
            Err(error) => {
                tracing::warn!(source = number, %error, "a source of variants failed");
                if let Some(failure) = failures.get_mut(number) {
                    *failure = Some(error.to_string());
                }
                continue;
            }
        };
        totals.merge(counted);
        for result in results {
            let there = !missing && is_there(&result);
            if there {
                arrived(&result.text);
            }
            let index = result.index as usize;
            let slot = if there {
                Slot::There(Box::new(result))
            } else if missing {
                Slot::Missing(not_cached(number))
            } else {
                Slot::Missing(failed(number, &result))
            };
            if let Slot::Missing(missing) = &slot
                && fail
            {
                let id = items.get(index).map_or("", |item| item.id.as_str());
                return Err(incomplete(index, id, missing));
            }
            if let Some(place) = slots.get_mut(index).and_then(|row| row.get_mut(number)) {
                *place = Some(slot);
            }
        }
    }
    drop(streams);
    let items: Vec<Variants> = slots
        .into_iter()
        .enumerate()
        .map(|(index, slots)| match plain.get(index) {
            Some(Some(why)) => not_needed(index, items, count, why),
            _ => variants(index, items, slots, budget, &failures),
        })
        .collect();
    if fail && let Some((item, missing)) = items.iter().find_map(|item| Some((item, needed(item)?))) {
        return Err(incomplete(item.index as usize, &item.id, missing));
    }
    Ok(GeneratedVariants {
        items,
        totals,
        took: began.elapsed(),
    })
}

/// The result of one source for one text.
#[derive(Debug, Clone)]
enum Slot {
    There(Box<TransformResult>),
    Missing(MissingVariant),
}

fn failed(number: usize, result: &TransformResult) -> MissingVariant {
    let checks: Vec<_> = result
        .failed_checks()
        .map(|check| check.as_str_name().trim_start_matches("CHECK_").to_lowercase())
        .collect();
    let by_generator = result.failed_checks().any(|check| check == Check::GeneratorError);
    let (reason, message) = if by_generator {
        (MissingReason::Generator, result.error.clone())
    } else {
        (
            MissingReason::Checks,
            format!("every attempt failed: {}", checks.join(", ")),
        )
    };
    MissingVariant {
        source: number as u32,
        reason: reason.into(),
        message,
    }
}

fn not_cached(source: usize) -> MissingVariant {
    MissingVariant {
        source: source as u32,
        reason: MissingReason::NotCached.into(),
        message: "no cache holds it, and this mode asks no generator".to_owned(),
    }
}

/// An item that is not augmented.
fn not_needed(index: usize, items: &[TextItem], sources: usize, why: &str) -> Variants {
    let missing = (0..sources as u32).map(|source| MissingVariant {
        source,
        reason: MissingReason::NotNeeded.into(),
        message: why.to_owned(),
    });
    Variants {
        index: index as u32,
        id: items.get(index).map(|item| item.id.clone()).unwrap_or_default(),
        missing: missing.collect(),
        ..Variants::default()
    }
}

fn variants(
    index: usize,
    items: &[TextItem],
    slots: Vec<Option<Slot>>,
    budget: Option<Duration>,
    failures: &[Option<String>],
) -> Variants {
    let mut item = Variants {
        index: index as u32,
        id: items.get(index).map(|item| item.id.clone()).unwrap_or_default(),
        ..Variants::default()
    };
    for ((slot, failure), source) in slots.into_iter().zip(failures).zip(0..) {
        match slot {
            Some(Slot::There(result)) => {
                item.variants.push(*result);
                item.sources.push(source);
            }
            Some(Slot::Missing(missing)) => item.missing.push(missing),
            None => {
                let (reason, message) = match failure {
                    Some(failure) => (MissingReason::Generator, failure.clone()),
                    None => {
                        let seconds = budget.unwrap_or_default().as_secs_f64();
                        let message = format!("not there within the budget of {seconds:.3} s");
                        (MissingReason::Budget, message)
                    }
                };
                item.missing.push(MissingVariant {
                    source,
                    reason: reason.into(),
                    message,
                });
            }
        }
    }
    item
}
