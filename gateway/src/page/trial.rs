//! The trial: two texts, some encoders, transformations of the first text, and their cosines.

use isomer_access::Caller;
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, Input, input},
    transform::v1::{
        OnFailure, TextItem, TransformRequest, TransformSpec, transform_service_client::TransformServiceClient,
    },
};
use isomer_service_kit::Fault;

use super::Pages;
use crate::{billing, catalogue, tenant};

/// Maximum length of a text, in characters.
const LONGEST: usize = 2000;
/// Maximum number of encoders, and of transformations, in one trial.
const MOST: usize = 8;

/// A trial's input and results.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) first: String,
    pub(super) second: String,
    pub(super) encoders: Vec<String>,
    pub(super) transformations: Vec<String>,
    /// Variants of the first text: name of the transformation, and text.
    pub(super) variants: Vec<(String, String)>,
    /// Per encoder, the cosine of the first text with the second (if there is one), then with each
    /// variant.
    pub(super) rows: Vec<(String, Vec<f64>)>,
    pub(super) problems: Vec<String>,
}

impl Trial {
    /// Parses a query string.
    pub(super) fn read(query: &str) -> Self {
        let mut trial = Self::default();
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match key.as_ref() {
                "first" => trial.first = value,
                "second" => trial.second = value,
                "encoder" => trial.encoders.push(value),
                "transformation" => trial.transformations.push(value),
                _ => {}
            }
        }
        trial
    }

    pub(super) fn asked(&self) -> bool {
        !self.first.is_empty() || !self.encoders.is_empty()
    }

    pub(super) fn transforms(&self) -> bool {
        !self.transformations.is_empty()
    }

    /// Transforms, encodes and compares. Failures appear beside the results.
    pub(super) async fn run(&mut self, pages: &Pages, caller: Option<&Caller>) {
        if let Err(fault) = self.check() {
            self.problems.push(fault.to_string());
            return;
        }
        let changed = self
            .transformations
            .iter()
            .map(|name| change(pages, caller, name, &self.first));
        let changed = futures::future::join_all(changed).await;
        for (name, outcome) in self.transformations.iter().zip(changed) {
            match outcome {
                Ok(text) => self.variants.push((name.clone(), text)),
                Err(fault) => self.problems.push(format!("{name}: {fault}")),
            }
        }
        let mut texts = vec![self.first.clone()];
        texts.extend((!self.second.is_empty()).then(|| self.second.clone()));
        texts.extend(self.variants.iter().map(|(_, text)| text.clone()));
        let encoded = self.encoders.iter().map(|id| cosines(pages, caller, id, &texts));
        let encoded = futures::future::join_all(encoded).await;
        for (id, outcome) in self.encoders.iter().zip(encoded) {
            match outcome {
                Ok(row) => self.rows.push((id.clone(), row)),
                Err(fault) => self.problems.push(format!("{id}: {fault}")),
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.first.trim().is_empty() {
            return Err(Fault::invalid("first text", "is empty").hint("write a sentence"));
        }
        for (name, text) in [("first text", &self.first), ("second text", &self.second)] {
            if text.chars().count() > LONGEST {
                return Err(
                    Fault::invalid(name, format!("has more than {LONGEST} characters")).hint("try a shorter text")
                );
            }
        }
        if self.encoders.is_empty() {
            return Err(Fault::invalid("encoders", "none is chosen").hint("choose at least one"));
        }
        if self.encoders.len() > MOST || self.transformations.len() > MOST {
            return Err(
                Fault::invalid("choice", format!("more than {MOST} encoders or transformations")).hint("choose fewer"),
            );
        }
        if self.second.trim().is_empty() && self.transformations.is_empty() {
            return Err(
                Fault::invalid("second text", "is empty, and no transformation is chosen")
                    .hint("write a second text, or choose a transformation of the first"),
            );
        }
        Ok(())
    }
}

async fn change(pages: &Pages, caller: Option<&Caller>, name: &str, text: &str) -> Result<String, Fault> {
    let channel = pages.upstream_servers.transform.clone().ok_or_else(|| {
        Fault::unimplemented("this gateway has no transform service")
            .hint("name one in its configuration: transform.address")
    })?;
    let (transformation, needs_generator) = catalogue::named(&catalogue::served(&channel).await?, name)?;
    let request = TransformRequest {
        spec: Some(TransformSpec {
            transformation: Some(transformation),
            generator_id: if needs_generator {
                String::new()
            } else {
                "none".to_owned()
            },
            on_failure: OnFailure::Fail.into(),
            ..TransformSpec::default()
        }),
        items: vec![TextItem {
            text: text.to_owned(),
            ..TextItem::default()
        }],
        ..Default::default()
    };
    let most = billing::most::of_transform(&request);
    let _reserved = billing::reserve(caller, &most).await?;
    let answer = TransformServiceClient::new(channel)
        .transform(tenant::request(caller, request))
        .await
        .map_err(|status| Fault::from_status(&status))?;
    let result = answer.into_inner().results.into_iter().next().unwrap_or_default();
    let text = if result.text.is_empty() {
        result.texts.into_iter().next().unwrap_or_default()
    } else {
        result.text
    };
    if text.is_empty() {
        let why = if result.error.is_empty() {
            "no attempt passed the checks".to_owned()
        } else {
            result.error
        };
        return Err(Fault::precondition("NOT_TRANSFORMED", why));
    }
    Ok(text)
}

/// The cosine of the first text with each of the others.
async fn cosines(
    pages: &Pages,
    caller: Option<&Caller>,
    encoder_id: &str,
    texts: &[String],
) -> Result<Vec<f64>, Fault> {
    let input = |text: &String| Input {
        input: Some(input::Input::Text(text.clone())),
    };
    let request = EncodeRequest {
        encoder_id: encoder_id.to_owned(),
        inputs: texts.iter().map(input).collect(),
        output_dtype: Dtype::F32.into(),
        ..EncodeRequest::default()
    };
    let answer = billing::encode(&pages.router, (caller, &tenant::of_caller(caller)), request, None).await?;
    if let Some(error) = answer.response.errors.first() {
        return Err(Fault::invalid(
            format!("text {}", error.index + 1),
            error.message.clone(),
        ));
    }
    let matrix = answer.response.embeddings.unwrap_or_default();
    let width = matrix.cols as usize * 4;
    if width == 0 || matrix.data.len() != width * texts.len() {
        return Err(Fault::internal("the encoder's answer is not a matrix of 32-bit floats"));
    }
    let rows: Vec<Vec<f64>> = matrix
        .data
        .chunks_exact(width)
        .map(|row| isomer_service_kit::vectors::floats(row).map(f64::from).collect())
        .collect();
    Ok(rows[1..].iter().map(|other| cosine(&rows[0], other)).collect())
}

/// NaN if one of the vectors is zero, which has no direction.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
