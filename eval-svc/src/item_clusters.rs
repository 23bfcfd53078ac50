//! Clusters of a data set's items: items that share a text move together.

use std::collections::HashMap;

use crate::{dataset::Dataset, evidence::clusters::clusters};

pub(crate) fn clusters_of(dataset: &Dataset) -> Vec<u32> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let items = dataset.item_texts();
    let texts = items.iter().map(|own| {
        own.iter()
            .filter_map(|text| dataset.texts().get(*text as usize))
            .map(|text| {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                *numbers.entry(text.text.as_str()).or_insert(next)
            })
            .collect::<Vec<u32>>()
    });
    clusters(texts)
}
