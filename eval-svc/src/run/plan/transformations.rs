//! The transformations of a run, as the transform service's catalogue describes them.

use isomer_proto::transform::v1::{
    ListTransformationsRequest, PromptInfo, TransformationInfo, transform_service_client::TransformServiceClient,
};
use isomer_service_kit::Fault;
use isomer_transformations::wire::from_proto;
use serde_json::json;

use crate::{
    profile::Axis,
    run::{RunContext, RunError, error::invalid, wire},
    suite::{Suite, Transformation},
};

/// A transformation, with its entry in the service's catalogue.
#[derive(Debug, Clone)]
pub(crate) struct PlannedTransformation {
    /// The transformation with its parameters.
    pub transformation: Transformation,
    /// Name with parameters.
    pub label: String,
    pub axis: Axis,
    /// Whether it needs a generator.
    pub needs_generator: bool,
    /// Prompt id and version.
    pub prompt_version: String,
    /// SHA-256 of the prompt.
    pub prompt_digest: String,
}

impl PlannedTransformation {
    /// Whether it keeps the meaning: all except the controls and augmentations do.
    pub(crate) fn keeps_meaning(&self) -> bool {
        self.axis.in_total()
    }

    /// Whether its rewrites count in the separation of an encoder as a whole: those in the text's
    /// own language. A translation also tests whether the encoder supports the other language, so
    /// it is reported separately.
    pub(crate) fn keeps_language(&self) -> bool {
        matches!(self.axis, Axis::Lexical | Axis::Length)
    }
}

/// The transformations of a suite, with their entries in the catalogue.
pub(crate) async fn planned(context: &RunContext, suite: &Suite) -> Result<Vec<PlannedTransformation>, RunError> {
    let catalogue = catalogue(context).await?;
    let served = || {
        catalogue
            .iter()
            .filter(|info| info.served)
            .map(|info| info.name.clone())
            .collect::<Vec<_>>()
    };
    let mut planned: Vec<PlannedTransformation> = Vec::with_capacity(suite.transformations.len());
    for transformation in &suite.transformations {
        let info = catalogue
            .iter()
            .find(|info| info.served && info.name == transformation.name())
            .ok_or_else(|| RunError::NotServed {
                name: transformation.name().to_owned(),
                served: served(),
            })?;
        let each = transformation.clone().each(|name| {
            let parameter = info.parameters.iter().find(|parameter| parameter.name == name);
            match parameter {
                Some(parameter) => parameter.values.iter().map(from_proto).collect(),
                // A service of an older version lists no parameters.
                None if name == "target_language" => info.target_languages.iter().map(|one| json!(one)).collect(),
                None => Vec::new(),
            }
        });
        if each.is_empty() {
            let message = format!(
                "`{}`: the transform service lists no values of a parameter that the suite leaves open; name them one by one: {}",
                transformation.label(),
                transformation
                    .declaration()
                    .parameters
                    .iter()
                    .map(|one| one.name)
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            return Err(invalid("spec.suite", message));
        }
        for transformation in each {
            let label = transformation.label();
            if planned.iter().any(|other| other.label == label) {
                let message = format!(
                    "`{label}` is named twice, once by a transformation that stands for several; leave one of them out"
                );
                return Err(invalid("spec.suite", message));
            }
            planned.push(PlannedTransformation {
                label,
                axis: wire::axis(info.axis()).unwrap_or(Axis::Augmentation),
                needs_generator: info.needs_generator,
                prompt_version: prompt(info, &transformation, &info.prompt_version, |own| {
                    format!("{}@{}", own.id, own.version)
                }),
                prompt_digest: prompt(info, &transformation, &info.prompt_digest, |own| own.digest.clone()),
                transformation,
            });
        }
    }
    Ok(planned)
}

/// The catalogue's information about the prompts of a transformation. A prompt that replaces one of
/// two is shown alone. The transform service reports an unknown prompt id on the first request.
fn prompt(
    info: &TransformationInfo,
    transformation: &Transformation,
    default: &str,
    of: fn(&PromptInfo) -> String,
) -> String {
    let own: Vec<String> = info
        .prompts
        .iter()
        .filter(|prompt| transformation.prompt() == Some(prompt.id.as_str()))
        .map(of)
        .collect();
    if own.is_empty() {
        default.to_owned()
    } else {
        own.join("+")
    }
}

async fn catalogue(context: &RunContext) -> Result<Vec<TransformationInfo>, RunError> {
    let mut client = TransformServiceClient::new(context.clients.transform.clone());
    let mut infos = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListTransformationsRequest {
            page_size: 0,
            page_token,
        };
        let page = client
            .list_transformations(request)
            .await
            .map_err(|status| RunError::Transform {
                what: "the transform service's catalogue".to_owned(),
                fault: Box::new(Fault::from_status(&status)),
            })?;
        let page = page.into_inner();
        infos.extend(page.transformations);
        if page.next_page_token.is_empty() {
            return Ok(infos);
        }
        page_token = page.next_page_token;
    }
}
