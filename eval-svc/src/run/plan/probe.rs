//! Checks, before anything is generated, that the transform service accepts the plan's requests in
//! every language.

use std::collections::BTreeMap;

use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        Check, OnFailure, TextItem, TransformRequest, TransformSpec, transform_service_client::TransformServiceClient,
    },
};
use isomer_service_kit::Fault;

use super::{
    Layout, copies,
    table::RequestModes,
    transform::{Producers, TransformPlan},
};
use crate::{
    run::{RunContext, RunError},
    separation::Kind,
    work::Producer,
};

/// Requests each transformation of an empty text in each language of the plan. The service then
/// validates the whole specification and each language, and finds (and loads) the generator, but
/// has nothing to generate. Whether a remote generator responds is known only with the first real
/// text.
pub(crate) async fn probe(context: &RunContext, layout: &Layout, plan: &TransformPlan) -> Result<Producers, RunError> {
    let mut producers = Producers::new();
    for (t, planned) in layout.transformations.iter().enumerate() {
        let spec = TransformSpec {
            on_failure: OnFailure::KeepOriginal.into(),
            ..plan.spec(layout, t, 0)
        };
        let mut languages = languages(layout, planned.transformation.draws_per_text());
        if languages.is_empty() {
            // A plan without such texts is tested with a text without a language.
            languages.push(LanguageUse::default());
        }
        let producer = trial(context, &planned.label, spec, &languages).await?;
        producers.insert(planned.label.clone(), producer);
    }
    let kinds = layout.suite.separation.settled().map(|settled| settled.kinds);
    for kind in kinds.into_iter().flatten().filter(|kind| kind.is_asked_for()) {
        let mut languages = languages(layout, false);
        languages.retain(|one| kind != Kind::MultiSwap || copies::may_swap(one.language.as_deref()));
        if !languages.is_empty() {
            let what = copies::what(kind);
            let producer = trial(context, &what, plan.copy_spec(layout, kind), &languages).await?;
            producers.insert(what, producer);
        }
    }
    Ok(producers)
}

/// A language of texts to transform.
#[derive(Debug, Default)]
struct LanguageUse {
    /// `None`: the transform service detects it.
    language: Option<String>,
    /// The data sets with such texts.
    datasets: Vec<String>,
}

/// Requests an empty text in each language and returns the producer that would make it.
async fn trial(
    context: &RunContext,
    what: &str,
    spec: TransformSpec,
    languages: &[LanguageUse],
) -> Result<Producer, RunError> {
    let item = |one: &LanguageUse| TextItem {
        language: one.language.clone(),
        ..TextItem::default()
    };
    let refused = |one: &LanguageUse, problem: String| {
        Some(RunError::Language {
            language: one.language.clone()?,
            datasets: one.datasets.clone(),
            what: what.to_owned(),
            problem,
        })
    };
    let request = TransformRequest {
        spec: Some(spec),
        items: languages.iter().map(item).collect(),
        priority: Priority::Batch.into(),
    };
    let mut client = TransformServiceClient::new(context.clients.transform.clone());
    let answer = client.transform(request).await.map_err(|status| {
        let fault = Fault::from_status(&status);
        let found = fault.field.as_deref().and_then(position);
        let of_language = found.and_then(|at| languages.get(at)).and_then(|one| {
            let problem = [Some(fault.message.as_str()), fault.hint.as_deref()];
            refused(one, problem.into_iter().flatten().collect::<Vec<_>>().join("; "))
        });
        of_language.unwrap_or_else(|| RunError::Transform {
            what: what.to_owned(),
            fault: Box::new(fault),
        })
    })?;
    // An empty text alone causes no error, so an error means that the transformation does not
    // support the language. The error about too few words to swap is ignored, because it says
    // nothing about other texts.
    let mut producer = Producer::default();
    for result in answer.into_inner().results {
        if let Some(provenance) = &result.provenance {
            producer = Producer::from(provenance);
        }
        let found = languages.get(result.index as usize);
        let of_language = !result.error.is_empty() && !result.failed_checks.contains(&Check::TooFew.into());
        if let Some(error) = found.filter(|_| of_language).and_then(|one| refused(one, result.error)) {
            return Err(error);
        }
    }
    Ok(producer)
}

/// The languages of the texts to request, each with its data sets. `each`: whether texts are
/// requested as often as they occur.
fn languages(layout: &Layout, each: bool) -> Vec<LanguageUse> {
    fn mode<T>(requests: &RequestModes<T>, each: bool) -> &T {
        if each { &requests.each } else { &requests.distinct }
    }
    let requests = mode(&layout.requests, each);
    let mut languages: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for table in &layout.tables {
        let name = table.dataset.name();
        for request in mode(&table.requests, each).iter().flatten() {
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
    let all = languages.into_iter();
    all.map(|(language, datasets)| LanguageUse { language, datasets })
        .collect()
}

/// The position of the item named by a field of the request: 3 for `items[3].language`.
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
