//! Sparse vectors and vectors for late interaction against sentence-transformers' `SparseEncoder`
//! and FlagEmbedding's formulas (`fixtures/maker/sparse.py`).

use std::path::Path;

use isomer_embed::{
    batch::{Outputs, RequestedOutputs, Sequence, SparseVector},
    device::Device,
    model::Model,
    pooling::normalise,
    tokenise::Cut,
};
use isomer_proto::{
    common::v1::{Dtype, Matrix},
    encoder::v1::{Capability, EncodeRequest, EncodeResponse, GetEncoderRequest, Output},
};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::common::{
    self, fixtures,
    harness::{Harness, request},
};

const FAMILIES: [&str; 5] = [
    "splade_bert",
    "splade_distilbert",
    "splade_roberta",
    "splade_modernbert",
    "bge_m3",
];
/// Maximum difference of a weight, relative to the largest of its text where that is above 1.
const DIFFERENCE: f32 = 1e-5;

const ALL: RequestedOutputs = RequestedOutputs {
    text_vector: true,
    token_vectors: true,
    sparse: true,
};
const SPARSE: RequestedOutputs = RequestedOutputs {
    sparse: true,
    ..RequestedOutputs::NONE
};

struct Golden {
    texts: Vec<String>,
    ids: Vec<Vec<u32>>,
    sparse: Vec<SparseVector>,
    text_vectors: Vec<f32>,
    token_vectors: Vec<f32>,
}

fn golden(name: &str) -> Golden {
    let folder = fixtures().join(name);
    let json = |file: &Path| -> Value { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() };
    let facts = json(&folder.join("sparse.json"));
    let bytes = std::fs::read(folder.join("sparse.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let data = tensors
            .tensor(name)
            .map(|tensor| tensor.data().to_vec())
            .unwrap_or_default();
        data.chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    let whole = |name: &str| -> Vec<usize> {
        let data = tensors.tensor(name).unwrap().data();
        let number = |b: &[u8]| usize::try_from(i64::from_le_bytes(b.try_into().unwrap())).unwrap();
        data.chunks_exact(8).map(number).collect()
    };
    let (offsets, indices, values) = (whole("offsets"), whole("indices"), floats("values"));
    let sparse = offsets.windows(2).map(|ends| SparseVector {
        ids: indices[ends[0]..ends[1]]
            .iter()
            .map(|id| u32::try_from(*id).unwrap())
            .collect(),
        weights: values[ends[0]..ends[1]].to_vec(),
    });
    Golden {
        texts: serde_json::from_value(json(&folder.join(facts["texts"].as_str().unwrap()))).unwrap(),
        ids: serde_json::from_value(facts["token_ids"].clone()).unwrap(),
        sparse: sparse.collect(),
        text_vectors: floats("text_vectors"),
        token_vectors: floats("token_vectors"),
    }
}

fn encode(model: &Model, ids: &[Vec<u32>], want: RequestedOutputs) -> Outputs {
    let sequence = |ids: &Vec<u32>| Sequence {
        want,
        ..ids.clone().into()
    };
    let texts: Vec<Sequence> = ids.iter().map(sequence).collect();
    model.encode_sequences(texts.iter()).unwrap()
}

/// The largest difference of two sparse vectors, over the ids of both, relative to the largest
/// weight of the second where that is above 1.
fn apart(a: &SparseVector, b: &SparseVector) -> f32 {
    let at = |vector: &SparseVector, id: u32| vector.ids.binary_search(&id).map_or(0.0, |i| vector.weights[i]);
    let ids = a.ids.iter().chain(&b.ids);
    let largest = b.weights.iter().copied().fold(1.0, f32::max);
    ids.map(|id| (at(a, *id) - at(b, *id)).abs() / largest)
        .fold(0.0, f32::max)
}

#[test]
fn weights_are_those_of_the_reference_alone_and_in_company() {
    for name in FAMILIES {
        let golden = golden(name);
        let model = Model::load(&fixtures().join(name), &Device::Cpu).unwrap();
        assert!(model.has_sparse_vectors(), "{name}");
        let tokens: Vec<Vec<u32>> = golden
            .texts
            .iter()
            .map(|text| model.tokenise("", text, Cut::Tail).unwrap().ids)
            .collect();
        assert_eq!(tokens, golden.ids, "{name}");
        let found = encode(&model, &tokens, SPARSE);
        assert_eq!(found.sparse.len(), golden.sparse.len(), "{name}");
        assert!(
            found.text_vectors.is_empty() && found.token_vectors.is_empty(),
            "{name}"
        );
        for (number, (ours, theirs)) in found.sparse.iter().zip(&golden.sparse).enumerate() {
            let difference = apart(ours, theirs);
            assert!(difference < DIFFERENCE, "{name}, text {number}: {difference}");
            assert!(ours.ids.is_sorted_by(|a, b| a < b) && ours.weights.iter().all(|weight| *weight > 0.0));
            let alone = encode(&model, &tokens[number..=number], SPARSE);
            assert_eq!(alone.sparse, std::slice::from_ref(ours), "{name}, text {number}");
        }
        let entries: usize = golden.sparse.iter().map(|vector| vector.ids.len()).sum();
        assert!(entries > 800, "{name}: {entries}");
    }
}

#[test]
fn one_pass_gives_what_three_give() {
    let golden = golden("bge_m3");
    let model = Model::load(&fixtures().join("bge_m3"), &Device::Cpu).unwrap();
    let all = encode(&model, &golden.ids, ALL);
    assert_eq!(all.sparse, encode(&model, &golden.ids, SPARSE).sparse);
    assert_eq!(
        all.text_vectors,
        encode(&model, &golden.ids, RequestedOutputs::TEXT_VECTOR).text_vectors
    );
    let tokens = RequestedOutputs {
        token_vectors: true,
        ..RequestedOutputs::NONE
    };
    assert_eq!(all.token_vectors, encode(&model, &golden.ids, tokens).token_vectors);

    let mut texts = all.text_vectors;
    texts.chunks_exact_mut(model.dimensions()).for_each(normalise);
    for (ours, theirs) in [
        (&texts, &golden.text_vectors),
        (&all.token_vectors, &golden.token_vectors),
    ] {
        assert_eq!(ours.len(), theirs.len());
        let difference = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference < 2e-5, "{difference}");
    }
    let rows: usize = golden.ids.iter().map(|ids| model.token_rows(ids.len())).sum();
    assert_eq!(all.token_vectors.len(), rows * model.token_dimensions());
    assert_eq!(rows, golden.ids.iter().map(|ids| ids.len() - 1).sum::<usize>());
}

#[test]
fn a_candle_device_gives_the_same_weights() {
    for name in FAMILIES {
        let golden = golden(name);
        let device = Device::candle(candle_core::Device::Cpu);
        let model = Model::load(&fixtures().join(name), &device).unwrap();
        let found = encode(&model, &golden.ids, SPARSE);
        for (ours, theirs) in found.sparse.iter().zip(&golden.sparse) {
            assert!(apart(ours, theirs) < 5e-5, "{name}");
        }
    }
}

/// A copy of a fixture.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    common::copy(&fixtures().join(name), folder.path());
    folder
}

fn refusal(folder: &Path) -> String {
    match Model::load(folder, &Device::Cpu) {
        Ok(_) => panic!("{} was loaded", folder.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_folder_that_means_something_else_is_refused_by_name() {
    let change = |file: &str, from: &str, to: &str| {
        let folder = copy("splade_bert");
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} {from}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        refusal(folder.path())
    };
    for (file, from, to, named) in [
        (
            "1_SpladePooling/config.json",
            "\"max\"",
            "\"mean\"",
            "pooling_strategy is `mean`",
        ),
        (
            "1_SpladePooling/config.json",
            "\"relu\"",
            "\"swish\"",
            "activation_function is `swish`",
        ),
        ("config.json", "\"gelu\"", "\"gelu_new\"", "gelu_new"),
    ] {
        let error = change(file, from, to);
        assert!(error.contains(named), "{file}: {error}");
    }
    // Scores that nothing pools.
    let folder = copy("splade_bert");
    common::edit_json(&folder.path().join("modules.json"), |modules| {
        modules.as_array_mut().unwrap().truncate(1);
    });
    assert!(refusal(folder.path()).contains("module MLMTransformer stands where it cannot run"));

    // The head lacks a tensor.
    let folder = copy("splade_bert");
    let file = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let name = b"cls.predictions.transform.dense.weight";
    let place = bytes.windows(name.len()).position(|part| part == name).unwrap();
    bytes[place] = b'x';
    std::fs::write(&file, bytes).unwrap();
    assert!(refusal(folder.path()).contains("cls.predictions.transform.dense.weight"));

    // A layer with too many rows, and layers of a model with another width.
    let folder = copy("bge_m3");
    let sparse = folder.path().join("sparse_linear.safetensors");
    std::fs::copy(folder.path().join("colbert_linear.safetensors"), &sparse).unwrap();
    assert!(refusal(folder.path()).contains("has 24 rows"));
    for layer in ["sparse_linear", "colbert_linear"] {
        let folder = copy("bge_m3");
        let file = folder.path().join(format!("{layer}.safetensors"));
        let tensor = |shape: &[usize]| (shape.to_vec(), vec![0.5; shape.iter().product()]);
        let narrow = [("weight", tensor(&[1, 16])), ("bias", tensor(&[1]))];
        let narrow = narrow.map(|(name, tensor)| (name.to_owned(), tensor));
        common::write_tensors(&file, &narrow.into());
        let error = refusal(folder.path());
        assert!(error.contains(layer) && error.contains("[1, 16]"), "{error}");
    }
}

#[test]
fn a_pickled_layer_is_named_and_its_result_is_not_offered() {
    let folder = copy("bge_m3");
    for layer in ["sparse_linear", "colbert_linear"] {
        std::fs::rename(
            folder.path().join(format!("{layer}.safetensors")),
            folder.path().join(format!("{layer}.pt")),
        )
        .unwrap();
    }
    let model = Model::load(folder.path(), &Device::Cpu).unwrap();
    assert!(!model.has_sparse_vectors());
    assert_eq!(model.token_rows(7), 7);
    let warnings = model.folder().warnings.join("\n");
    assert!(
        warnings.contains("sparse_linear.pt") && warnings.contains("colbert_linear.pt"),
        "{warnings}"
    );
}

#[test]
fn every_layer_is_part_of_the_identity_of_its_vectors() {
    let folder = copy("bge_m3");
    let pipelines = || {
        let model = Model::load(folder.path(), &Device::Cpu).unwrap();
        [model.sparse_pipeline(), model.token_pipeline(), model.pipeline()]
    };
    let before = pipelines();
    for (layer, changed) in [("sparse_linear", 0), ("colbert_linear", 1)] {
        let file = folder.path().join(format!("{layer}.safetensors"));
        let bytes = std::fs::read(&file).unwrap();
        let mut other = bytes.clone();
        let last = other.len() - 1;
        other[last] ^= 1;
        std::fs::write(&file, other).unwrap();
        let after = pipelines();
        for place in 0..3 {
            assert_eq!(after[place] != before[place], place == changed, "{layer}: {after:?}");
        }
        std::fs::write(&file, bytes).unwrap();
    }
    let pooled: Vec<String> = FAMILIES[..4]
        .iter()
        .map(|name| {
            Model::load(&fixtures().join(name), &Device::Cpu)
                .unwrap()
                .sparse_pipeline()
        })
        .collect();
    assert_eq!(pooled, ["log1p-max", "log1p-log1p-sum", "log1p-sum", "log1p-log1p-max"]);
}

/// A service whose encoder `tiny` is this fixture.
async fn served(name: &str) -> Harness {
    Harness::new(|_, config| config.encoders = [("tiny".to_owned(), fixtures().join(name))].into()).await
}

fn rows(matrix: Option<&Matrix>) -> Vec<f32> {
    let data = &matrix.unwrap().data;
    data.chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn vectors(response: &EncodeResponse) -> Vec<SparseVector> {
    let one = |vector: &isomer_proto::encoder::v1::SparseVector| SparseVector {
        ids: vector.indices.clone(),
        weights: vector.values.clone(),
    };
    response.sparse_embeddings.iter().map(one).collect()
}

#[tokio::test]
async fn a_request_names_its_results_and_gets_each_in_its_own_space() {
    let golden = golden("bge_m3");
    let mut harness = served("bge_m3").await;
    let texts: Vec<&str> = golden.texts[..8].iter().map(String::as_str).collect();
    let with = |outputs: &[Output]| EncodeRequest {
        outputs: outputs.iter().map(|output| i32::from(*output)).collect(),
        ..request(&texts)
    };
    let all = [Output::Sparse, Output::TextVector, Output::TokenVectors];
    let whole = harness.encode(with(&all)).await;
    for (ours, theirs) in vectors(&whole).iter().zip(&golden.sparse) {
        assert!(apart(ours, theirs) < DIFFERENCE);
    }
    assert_eq!(whole.sparse_embeddings.len(), 8);
    let counts: Vec<u32> = golden.ids[..8]
        .iter()
        .map(|ids| u32::try_from(ids.len() - 1).unwrap())
        .collect();
    assert_eq!(whole.row_counts, counts);
    let spaces = [
        &whole.vector_space,
        &whole.token_vector_space,
        &whole.sparse_vector_space,
    ];
    let digests: std::collections::HashSet<&str> = spaces
        .iter()
        .map(|space| space.as_ref().unwrap().digest.as_str())
        .collect();
    assert_eq!(digests.len(), 3);
    assert_eq!(whole.sparse_vector_space.as_ref().unwrap().dimensions, 420);

    // Each by itself, by either field.
    let plain = harness.encode(request(&texts)).await;
    assert_eq!(
        (&plain.embeddings, &plain.vector_space),
        (&whole.embeddings, &whole.vector_space)
    );
    assert!(plain.sparse_embeddings.is_empty() && plain.sparse_vector_space.is_none());
    let tokens = harness
        .encode(EncodeRequest {
            output: Output::TokenVectors.into(),
            ..request(&texts)
        })
        .await;
    assert_eq!(rows(tokens.embeddings.as_ref()), rows(whole.token_embeddings.as_ref()));
    assert_eq!(tokens.vector_space, whole.token_vector_space);
    for request in [
        with(&[Output::Sparse]),
        EncodeRequest {
            output: Output::Sparse.into(),
            ..request(&texts)
        },
    ] {
        let sparse = harness.encode(request).await;
        assert_eq!(sparse.sparse_embeddings, whole.sparse_embeddings);
        assert!(sparse.embeddings.is_none() && sparse.vector_space.is_none());
        assert_eq!(sparse.sparse_vector_space, whole.sparse_vector_space);
    }

    // Settings of the text's vector do not reach the others.
    let packed = EncodeRequest {
        output_dtype: Dtype::Ubinary.into(),
        dimensions: Some(8),
        max_active_dimensions: Some(3),
        ..with(&all)
    };
    let packed = harness.encode(packed).await;
    assert_eq!(packed.embeddings.as_ref().unwrap().cols, 8);
    assert_eq!(packed.token_embeddings, whole.token_embeddings);
    assert_eq!(packed.token_vector_space, whole.token_vector_space);
    assert!(packed.sparse_embeddings.iter().all(|vector| vector.indices.len() <= 3));
}

#[tokio::test]
async fn requests_that_contradict_themselves_are_refused_by_field() {
    let mut harness = served("bge_m3").await;
    let with = |outputs: &[Output]| EncodeRequest {
        outputs: outputs.iter().map(|output| i32::from(*output)).collect(),
        ..request(&["a"])
    };
    let sparse = with(&[Output::Sparse]);
    for (request, field) in [
        (
            EncodeRequest {
                output: Output::TextVector.into(),
                ..sparse.clone()
            },
            "outputs",
        ),
        (
            with(&[Output::Sparse, Output::TextVector, Output::Sparse]),
            "outputs[2]",
        ),
        (
            EncodeRequest {
                dimensions: Some(8),
                ..sparse.clone()
            },
            "dimensions",
        ),
        (
            EncodeRequest {
                normalise: Some(true),
                ..sparse.clone()
            },
            "normalise",
        ),
        (
            EncodeRequest {
                output_dtype: Dtype::F16.into(),
                ..sparse.clone()
            },
            "output_dtype",
        ),
        (
            EncodeRequest {
                max_active_dimensions: Some(0),
                ..sparse.clone()
            },
            "max_active_dimensions",
        ),
        (
            EncodeRequest {
                max_active_dimensions: Some(4),
                ..with(&[Output::TextVector])
            },
            "max_active_dimensions",
        ),
    ] {
        let fault = harness.refuse(request).await;
        assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
    }
}

#[tokio::test]
async fn an_encoder_says_which_results_it_has() {
    for (folder, expected) in [
        (
            "bge_m3",
            &[Capability::Dense, Capability::Sparse, Capability::MultiVector][..],
        ),
        ("splade_bert", &[Capability::Sparse]),
        ("labse", &[Capability::Dense, Capability::MultiVector]),
    ] {
        let mut harness = served(folder).await;
        let encoder = harness
            .client
            .get_encoder(GetEncoderRequest { id: "tiny".to_owned() })
            .await
            .unwrap()
            .into_inner()
            .encoder
            .unwrap();
        let found: Vec<Capability> = encoder.capabilities().collect();
        assert_eq!(found, expected, "{folder}");
        for output in [Output::TextVector, Output::Sparse, Output::TokenVectors] {
            let served = match output {
                Output::Sparse => found.contains(&Capability::Sparse),
                Output::TokenVectors => found.contains(&Capability::MultiVector),
                _ => found.contains(&Capability::Dense),
            };
            let request = EncodeRequest {
                outputs: vec![output.into()],
                ..request(&["a"])
            };
            if served {
                harness.encode(request).await;
            } else {
                let fault = harness.refuse(request).await;
                assert_eq!(fault.field.as_deref(), Some("outputs"), "{folder} {output:?}: {fault}");
            }
        }
    }
}
