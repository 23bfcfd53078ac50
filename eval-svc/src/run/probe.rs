//! Before anything is generated: does the transform service take what the plan will ask of it, in every language?

use std::collections::BTreeMap;

use isomer_proto::transform::v1::{
    OnFailure, TextItem, TransformRequest, TransformSpec, transform_service_client::TransformServiceClient,
};
use isomer_service_kit::Fault;

use super::{
    RunContext, RunError,
    plan::{Plan, PlannedTransformation},
    transform::spec,
};

/// Asks for each transformation of an empty text in each language of the plan. The service then reads the whole order, knows
/// each language and finds (and loads) the generator, but has nothing to generate. Whether a remote generator answers shows
/// only with the first real text.
pub(super) async fn probe(context: &RunContext, plan: &Plan) -> Result<(), RunError> {
    for (t, planned) in plan.transformations.iter().enumerate() {
        let languages = languages(plan, planned);
        let spec = TransformSpec {
            on_failure: OnFailure::KeepOriginal.into(),
            ..spec(plan, t, 0)
        };
        let item = |language: &Option<String>| TextItem {
            language: language.clone(),
            ..TextItem::default()
        };
        let request = TransformRequest {
            spec: Some(spec),
            items: languages.iter().map(|(language, _)| item(language)).collect(),
        };
        let mut client = TransformServiceClient::new(context.clients.transform.clone());
        let answer = client.transform(request).await.map_err(|status| {
            let fault = Fault::from_status(&status);
            match fault
                .field
                .as_deref()
                .and_then(position)
                .and_then(|at| languages.get(at))
            {
                Some((Some(language), datasets)) => RunError::Language {
                    language: language.clone(),
                    datasets: datasets.clone(),
                    what: planned.label.clone(),
                    problem: [Some(fault.message), fault.mend]
                        .into_iter()
                        .flatten()
                        .collect::<Vec<_>>()
                        .join("; "),
                },
                _ => RunError::Transform {
                    what: planned.label.clone(),
                    fault: Box::new(fault),
                },
            }
        })?;
        // An empty text has no error of its own. One that has is in a language that this cannot be made from.
        for result in answer.into_inner().results {
            let found = languages.get(result.index as usize);
            if let Some((Some(language), datasets)) = found.filter(|_| !result.error.is_empty()) {
                return Err(RunError::Language {
                    language: language.clone(),
                    datasets: datasets.clone(),
                    what: planned.label.clone(),
                    problem: result.error,
                });
            }
        }
    }
    Ok(())
}

/// The languages of the texts that a transformation is asked for, each with the data sets that have it. A plan without such
/// texts is asked for with a text of no language.
fn languages(plan: &Plan, planned: &PlannedTransformation) -> Vec<(Option<String>, Vec<String>)> {
    let requests = plan.requests.of(planned);
    let mut languages: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for table in &plan.tables {
        let name = table.dataset.name();
        for request in table.requests.of(planned).iter().flatten() {
            let Some(request) = requests.get(*request) else {
                continue;
            };
            if let Some(datasets) = languages.get_mut(&request.language) {
                if datasets.last().is_none_or(|last| last != name) {
                    datasets.push(name.to_owned());
                }
            } else {
                languages.insert(request.language.clone(), vec![name.to_owned()]);
            }
        }
    }
    if languages.is_empty() {
        languages.insert(None, Vec::new());
    }
    languages.into_iter().collect()
}

/// The item that a field of the request names: 3 of `items[3].language`.
fn position(field: &str) -> Option<usize> {
    let (position, part) = field.strip_prefix("items[")?.split_once(']')?;
    (part == ".language").then(|| position.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn the_item_is_read_from_the_field() {
        assert_eq!(position("items[12].language"), Some(12));
        assert_eq!(position("items[12].text"), None);
        assert_eq!(position("spec.transformation"), None);
    }
}
