//! Lists the catalogue of data sets.

use std::collections::BTreeSet;

use isomer_proto::eval::v1::{DatasetInfo, ListDatasetsRequest, ListDatasetsResponse, dataset_info::Family};
use isomer_service_kit::{Fault, page_token};

use super::{MOST_PER_PAGE, request};
use crate::{
    dataset::catalogue::{Entry, FAMILIES, current},
    locate::DatasetLocator,
};

/// Name of the list in its page tokens.
const LIST: &str = "ListDatasets";

/// A page of the requested data sets.
pub(super) fn list(places: &DatasetLocator, asked: &ListDatasetsRequest) -> Result<ListDatasetsResponse, Fault> {
    if !asked.family.is_empty() && !FAMILIES.contains(&asked.family.as_str()) {
        let message = format!("there is no collection `{}`", asked.family);
        return Err(Fault::not_found("UNKNOWN_FAMILY", message)
            .field("family")
            .hint(format!("name one of {}", FAMILIES.join(", "))));
    }
    let task = request::task(asked.task_type)?;
    let wanted: Vec<&Entry> = current()
        .filter(|entry| asked.family.is_empty() || entry.families.iter().any(|family| family.name == asked.family))
        .filter(|entry| task.is_none_or(|task| entry.task == task))
        .collect();
    let first = page_token::place(LIST, &asked.page_token)?;
    let size = match asked.page_size {
        0 => 100,
        size => size.min(MOST_PER_PAGE),
    } as usize;
    let next = first + size;
    Ok(ListDatasetsResponse {
        datasets: wanted[first..]
            .iter()
            .take(size)
            .map(|entry| info(places, entry))
            .collect(),
        next_page_token: if next < wanted.len() {
            page_token::token(LIST, &next.to_string())
        } else {
            String::new()
        },
    })
}

fn info(places: &DatasetLocator, entry: &Entry) -> DatasetInfo {
    let hub = entry.hub();
    let languages: BTreeSet<&String> = entry.languages.values().flatten().collect();
    DatasetInfo {
        name: entry.name.clone(),
        task_type: request::task_to_proto(entry.task).into(),
        main_score: entry.metric.clone(),
        hub_id: hub.repo,
        revision: hub.revision.unwrap_or_default(),
        split: entry.split.clone(),
        fields: entry.fields().into_iter().collect(),
        transformed_fields: entry.transformed.clone(),
        subsets: entry.subsets.clone(),
        languages: languages.into_iter().cloned().collect(),
        families: entry
            .families
            .iter()
            .map(|family| Family {
                name: family.name.clone(),
                subsets: family.subsets.clone(),
            })
            .collect(),
        path: places
            .folder_of(&entry.name)
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
    }
}
