#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};

use isomer_proto::{
    common::v1::{Dtype, Matrix},
    encoder::v1::{CountTokensRequest, CountTokensResponse, RerankRequest, RerankResponse},
};
use isomer_service_kit::vectors::sealed;

use super::*;

/// A way in which an encoder can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    Constant,
    Drifts,
    BatchMates,
    Sorted,
    NotUnit,
    OtherDimension,
    AnyName,
    BreaksOnLong,
    Down,
}

/// A test encoder that hashes the bytes of a text.
#[derive(Debug)]
struct Toy(Flaw, AtomicU32);

fn toy(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0_f32; 16];
    for (at, byte) in text.bytes().enumerate() {
        let place = (usize::from(byte) * 7 + at % 3) % 16;
        vector[place] += f32::from(byte % 13) - 6.0;
    }
    vector[0] += 1.0;
    let length = numbers::length(&vector);
    #[allow(clippy::cast_possible_truncation)]
    vector.iter().map(|value| (f64::from(*value) / length) as f32).collect()
}

impl Toy {
    fn space() -> VectorSpace {
        sealed(VectorSpace {
            model_id: "toy".into(),
            dimensions: 16,
            normalised: true,
            ..VectorSpace::default()
        })
    }

    fn vectors(&self, mut texts: Vec<String>) -> Vec<Vec<f32>> {
        if self.0 == Flaw::Sorted {
            texts.sort();
        }
        let count = texts.len();
        let calls = self.1.fetch_add(1, Ordering::SeqCst);
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| toy(text)).collect();
        for vector in &mut vectors {
            match self.0 {
                Flaw::Constant => *vector = toy("constant"),
                #[allow(clippy::cast_precision_loss)]
                Flaw::Drifts => vector[3] += calls as f32 * 0.2,
                #[allow(clippy::cast_precision_loss)]
                Flaw::BatchMates => vector[3] += count as f32 * 0.2,
                Flaw::NotUnit => vector.iter_mut().for_each(|value| *value *= 3.0),
                Flaw::OtherDimension => vector.truncate(15),
                _ => {}
            }
        }
        vectors
    }
}

#[tonic::async_trait]
impl EncoderBackend for Toy {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        Ok(vec![self.get("toy").await?])
    }

    async fn get(&self, encoder_id: &str) -> Result<Encoder, Fault> {
        Ok(Encoder {
            id: encoder_id.to_owned(),
            dimensions: 16,
            max_tokens: 512,
            vector_space: Some(Self::space()),
            ..Encoder::default()
        })
    }

    async fn encode(&self, request: EncodeRequest, _: Deadline) -> Result<EncodeResponse, Fault> {
        if request.encoder_id != "toy" && self.0 != Flaw::AnyName {
            return Err(Fault::not_found("UNKNOWN_ENCODER", "no such encoder"));
        }
        if self.0 == Flaw::Down {
            return Err(Fault::unavailable("PROVIDER_UNAVAILABLE", "nobody answers"));
        }
        let texts: Vec<String> = request
            .inputs
            .into_iter()
            .map(|input| match input.input {
                Some(input::Input::Text(text)) => text,
                _ => String::new(),
            })
            .collect();
        if self.0 == Flaw::BreaksOnLong && texts.iter().any(|text| text.len() > 2000) {
            return Err(Fault::internal("out of memory"));
        }
        let rows = self.vectors(texts);
        Ok(EncodeResponse {
            embeddings: Some(Matrix {
                rows: rows.len().try_into().unwrap(),
                cols: rows[0].len().try_into().unwrap(),
                dtype: Dtype::F32.into(),
                data: rows
                    .concat()
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect::<Vec<u8>>()
                    .into(),
            }),
            vector_space: Some(Self::space()),
            ..EncodeResponse::default()
        })
    }

    async fn count_tokens(&self, _: CountTokensRequest, _: Deadline) -> Result<CountTokensResponse, Fault> {
        Err(Fault::unimplemented("not asked for here"))
    }

    async fn rerank(&self, _: RerankRequest, _: Deadline) -> Result<RerankResponse, Fault> {
        Err(Fault::unimplemented("not asked for here"))
    }

    async fn healthy(&self) -> Result<(), Fault> {
        Ok(())
    }
}

async fn looked_at(fault: Flaw) -> CheckReport {
    check(&Toy(fault, AtomicU32::new(0)), "toy", &CheckOptions::default()).await
}

fn failed(report: &CheckReport) -> Vec<&str> {
    let failed = report.findings.iter().filter(|finding| !finding.passed);
    failed.map(|finding| finding.name.as_str()).collect()
}

#[tokio::test]
async fn a_sound_encoder_passes_everything() {
    let report = looked_at(Flaw::None).await;
    assert!(failed(&report).is_empty(), "{report:#?}");
    assert!(report.usable);
    assert!(report.verdict.starts_with("usable"), "{}", report.verdict);
    assert_eq!(report.vector_space, Some(Toy::space()));
    assert_eq!(report.findings.len(), 16);
}

#[tokio::test]
async fn every_way_to_be_wrong_is_found_and_named() {
    for (fault, finding) in [
        (Flaw::Constant, "texts_differ"),
        (Flaw::Drifts, "determinism"),
        (Flaw::BatchMates, "batch_equals_single"),
        (Flaw::Sorted, "order_preserved"),
        (Flaw::NotUnit, "norm"),
        (Flaw::OtherDimension, "dimension"),
        (Flaw::Down, "shape"),
    ] {
        let report = looked_at(fault).await;
        assert!(!report.usable, "{fault:?}");
        assert!(failed(&report).contains(&finding), "{fault:?}: {:?}", failed(&report));
        assert!(report.verdict.contains(finding), "{}", report.verdict);
    }
}

#[tokio::test]
async fn what_is_only_to_be_known_leaves_a_provider_usable() {
    for (fault, finding) in [(Flaw::AnyName, "errors_honest"), (Flaw::BreaksOnLong, "long_input")] {
        let report = looked_at(fault).await;
        assert!(report.usable);
        assert_eq!(failed(&report), [finding]);
        assert!(report.verdict.contains("reservations"), "{}", report.verdict);
    }
}

#[tokio::test]
async fn a_fingerprint_agrees_with_itself_and_notices_other_vectors() {
    let print = async |fault| {
        let toy = Toy(fault, AtomicU32::new(0));
        fingerprint(&toy, "toy", &CheckOptions::default()).await.unwrap().0
    };
    let sound = print(Flaw::None).await;
    sound.agrees(&print(Flaw::None).await).unwrap();
    let kept: Fingerprint = serde_json::from_str(&serde_json::to_string(&sound).unwrap()).unwrap();
    sound.agrees(&kept).unwrap();
    for other in [Flaw::Constant, Flaw::BatchMates, Flaw::NotUnit, Flaw::OtherDimension] {
        assert!(sound.agrees(&print(other).await).is_err(), "{other:?}");
    }
}
