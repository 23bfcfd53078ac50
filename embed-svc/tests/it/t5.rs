//! T5 encoders beyond their parity with sentence-transformers (`parity`): loading, refusals, and
//! independence of a text's vector from other texts.

use std::{fs, path::Path};

use isomer_embed::{
    batch::Sequence,
    device::{CpuBackend, Device, Precision},
    folder::ModelFolder,
    model::Model,
    tokenise::Cut,
};
use isomer_proto::encoder::v1::{EncodeRequest, Priority};
use safetensors::{SafeTensors, tensor::TensorView};

use crate::common::{copy, edit_json, fixtures, harness::Harness, harness::request};

const FAMILIES: [&str; 3] = ["sentence_t5", "gtr", "instructor"];

fn load(name: &str) -> Model {
    Model::load(&fixtures().join(name), &Device::Cpu).unwrap()
}

fn tokens(model: &Model, prompt: &str, text: &str) -> Sequence {
    let mut sequence: Sequence = model.tokenise(prompt, text, Cut::Tail).unwrap().into();
    sequence.prompt = model.unpooled(prompt).unwrap();
    sequence
}

#[test]
fn a_short_text_beside_a_long_one_has_the_bits_that_it_has_alone() {
    for name in FAMILIES {
        let model = load(name);
        let prompt = if name == "instructor" {
            "Represent the Science title: "
        } else {
            ""
        };
        let long = "the storm of the river ".repeat(40);
        let texts: Vec<Sequence> = ["a", &long, "", "two words", &long, "a"]
            .iter()
            .map(|text| tokens(&model, prompt, text))
            .collect();
        let together = model.encode_sequences(texts.iter()).unwrap().text_vectors;
        let alone: Vec<f32> = texts
            .iter()
            .flat_map(|text| model.encode_sequences([text].into_iter()).unwrap().text_vectors)
            .collect();
        assert_eq!(together, alone, "{name}");
    }
}

#[test]
fn a_text_that_is_too_long_is_cut_and_keeps_its_end_mark() {
    let model = load("gtr");
    assert_eq!(model.max_tokens(), 160);
    let long = model.tokenise("", &"storm ".repeat(400), Cut::Tail).unwrap();
    assert!(long.truncated());
    assert_eq!((long.ids.len(), long.ids.last()), (160, Some(&1)));
    let same = model.tokenise("", &"storm ".repeat(500), Cut::Tail).unwrap();
    assert_eq!(
        model.encode(&[long.ids]).unwrap(),
        model.encode(&[same.ids]).unwrap(),
        "the rest does not count"
    );
}

#[test]
fn instructor_reads_its_instruction_and_does_not_pool_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("model");
    copy(&fixtures().join("instructor"), &folder);
    let pooling = folder.join("1_Pooling/config.json");
    edit_json(&pooling, |config| {
        config.as_object_mut().unwrap().remove("include_prompt");
    });
    let vector = |source: &str| {
        let model = Model::of(ModelFolder::of_source(&folder, source).unwrap(), &Device::Cpu).unwrap();
        let text = tokens(&model, "Represent the Science title: ", "a storm");
        let other = tokens(&model, "Represent the question: ", "a storm");
        let plain = tokens(&model, "", "a storm");
        [text, other, plain].map(|text| model.encode_sequences([&text].into_iter()).unwrap())
    };
    let excluded = load("instructor");
    let text = tokens(&excluded, "Represent the Science title: ", "a storm");
    assert!(text.prompt > 3);
    let excluded = excluded.encode_sequences([&text].into_iter()).unwrap();
    // The published folders lack the setting, so the repository is recognised by its name.
    let [known, other, plain] = vector("hub:hkunlp/instructor-base@0123");
    assert_eq!(known, excluded);
    assert_ne!(known, other, "the instruction is read");
    assert_ne!(known, plain);
    let [included, _, also_plain] = vector("hub:someone/else@0123");
    assert_ne!(included, excluded);
    assert_eq!(plain, also_plain, "without an instruction nothing is left out");
}

#[test]
fn other_arithmetic_than_f32_is_refused_with_the_reason() {
    for (precision, backend) in [
        (Precision::F16, CpuBackend::Candle),
        (Precision::Bf16, CpuBackend::Candle),
        (Precision::Bf16, CpuBackend::Kernels),
        (Precision::Int8, CpuBackend::Kernels),
    ] {
        let device = &Device::open("cpu", precision, backend).unwrap()[0];
        let error = Model::load(&fixtures().join("sentence_t5"), device).err().unwrap();
        let said = error.to_string();
        assert!(said.contains("f32 only") && said.contains(precision.name()), "{said}");
        assert!(said.contains("embed.precision"), "{said}");
    }
}

#[test]
fn both_backends_compute_t5_with_candle_and_alike() {
    let text = [vec![5u32, 6, 7, 1]];
    let [kernels, candle] = [CpuBackend::Kernels, CpuBackend::Candle].map(|backend| {
        let device = &Device::open("cpu", Precision::F32, backend).unwrap()[0];
        Model::load(&fixtures().join("sentence_t5"), device).unwrap()
    });
    assert_eq!(
        (kernels.device().backend(), candle.device().backend()),
        ("candle", "candle")
    );
    assert_eq!(kernels.settings_digest(), candle.settings_digest(), "one cache");
    assert_eq!(kernels.encode(&text).unwrap(), candle.encode(&text).unwrap());
}

/// Rewrites the weights of a copy of `sentence_t5`; `rename` returns the names under which a tensor
/// is stored.
fn rewritten(folder: &Path, rename: impl Fn(&str) -> Vec<String>) {
    copy(&fixtures().join("sentence_t5"), folder);
    let file = folder.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let renamed: Vec<(String, TensorView<'_>)> = tensors
        .tensors()
        .into_iter()
        .flat_map(|(name, view)| rename(&name).into_iter().map(move |name| (name, view.clone())))
        .collect();
    safetensors::serialize_to_file(renamed, None, &file).unwrap();
}

#[test]
fn a_table_under_the_encoders_name_and_a_decoder_beside_it_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    rewritten(folder.path(), |name| match name {
        "shared.weight" => vec!["encoder.embed_tokens.weight".into()],
        name => vec![name.to_owned(), name.replace("encoder.", "decoder.")],
    });
    let texts = [vec![5u32, 6, 7, 1], vec![9, 1]];
    let model = Model::load(folder.path(), &Device::Cpu).unwrap();
    assert_eq!(
        model.encode(&texts).unwrap(),
        load("sentence_t5").encode(&texts).unwrap()
    );
}

#[test]
fn missing_tensors_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = "encoder.block.1.layer.1.DenseReluDense.wo.weight";
    rewritten(folder.path(), |name| {
        (name != missing).then(|| name.to_owned()).into_iter().collect()
    });
    let error = Model::load(folder.path(), &Device::Cpu).err().unwrap().to_string();
    assert!(error.contains(missing), "{error}");
}

#[tokio::test]
async fn machines_do_not_share_vectors_whose_bits_their_class_does_not_name() {
    let store = tempfile::tempdir().unwrap();
    let machine = |backend: CpuBackend| {
        let shared = crate::shared_vectors::shared(store.path(), "avx2");
        let keep = shared.clone();
        let harness = Harness::with_shared(Some(shared), move |_, config| {
            config.backend = backend;
            config.encoders.insert("t5".into(), fixtures().join("sentence_t5"));
        });
        async move { (harness.await, keep) }
    };
    for (backend, encoder, expected) in [
        (CpuBackend::Kernels, "t5", 0),
        (CpuBackend::Candle, "tiny", 0),
        (CpuBackend::Kernels, "tiny", 2),
    ] {
        let batch = || EncodeRequest {
            encoder_id: encoder.into(),
            priority: Priority::Batch.into(),
            ..request(&["a storm", "a river"])
        };
        let (mut first, shared) = machine(backend).await;
        first.encode(batch()).await;
        shared.flush().await;
        let (mut second, _shared) = machine(backend).await;
        let cached = second.encode(batch()).await.usage.unwrap().cached_texts;
        assert_eq!(cached, expected, "{backend:?} {encoder}");
    }
}
