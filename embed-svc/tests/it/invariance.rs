//! A text's vector depends on the text alone; and both backends compute the same transformer.

use half::{bf16, f16};
use isomer_embed::{device::Device, model::Model, tokenise::Cut};
use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::json;

use crate::common::{self, HIDDEN, POSITIONS, cosine, edit_json, tensors, tiny, write_as, write_json, write_tensors};

fn load(folder: &std::path::Path) -> Model {
    Model::load(folder, &Device::Cpu).unwrap()
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
        .install(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn batch_equals_single_bit_for_bit_in_any_order_on_any_number_of_threads(
        texts in prop::collection::vec(prop::collection::vec(0u32..61, 1..POSITIONS), 1..40),
        threads in 1usize..5,
        rotate in 0usize..40,
    ) {
        let folder = tempfile::tempdir().unwrap();
        tiny(folder.path());
        let model = load(folder.path());
        let alone: Vec<Vec<f32>> = texts.iter().map(|text| model.encode(&[text]).unwrap()).collect();
        let together = on_threads(threads, || model.encode(&texts).unwrap());
        prop_assert_eq!(&together, &alone.concat());
        let mut turned = texts.clone();
        turned.rotate_left(rotate % texts.len());
        let mut expected = alone;
        expected.rotate_left(rotate % texts.len());
        prop_assert_eq!(on_threads(threads, || model.encode(&turned).unwrap()), expected.concat());
    }
}

#[test]
fn the_kernels_and_candle_compute_the_same_transformer() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let ours = load(folder.path());
    let candle = Model::load(folder.path(), &Device::candle(candle_core::Device::Cpu)).unwrap();
    let texts: Vec<Vec<u32>> = (1..POSITIONS as u32)
        .map(|n| (0..n).map(|i| (i * 7 + n) % 61).collect())
        .collect();
    let (ours, candle) = (ours.encode(&texts).unwrap(), candle.encode(&texts).unwrap());
    for (a, b) in ours.chunks(HIDDEN).zip(candle.chunks(HIDDEN)) {
        assert!(cosine(a, b) > 0.999_999_9, "{}", cosine(a, b));
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-5));
    }
}

#[test]
fn names_with_and_without_the_bert_prefix_load_alike() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let texts = [vec![2u32, 9, 10, 3], vec![2, 3]];
    let plain = load(folder.path()).encode(&texts).unwrap();
    write_tensors(&folder.path().join("model.safetensors"), &tensors("bert."));
    assert_eq!(load(folder.path()).encode(&texts).unwrap(), plain);
}

#[test]
fn half_precision_weights_are_widened_exactly() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let file = folder.path().join("model.safetensors");
    let texts = [vec![2u32, 9, 10, 3]];
    type Half = (Dtype, fn(f32) -> Vec<u8>, fn(f32) -> f32);
    let halves: [Half; 2] = [
        (
            Dtype::F16,
            |x| f16::from_f32(x).to_le_bytes().to_vec(),
            |x| f16::from_f32(x).to_f32(),
        ),
        (
            Dtype::BF16,
            |x| bf16::from_f32(x).to_le_bytes().to_vec(),
            |x| bf16::from_f32(x).to_f32(),
        ),
    ];
    for (dtype, bytes, rounded) in halves {
        let mut all = tensors("");
        write_as(&file, &all, dtype, bytes);
        let half = load(folder.path()).encode(&texts).unwrap();
        all.values_mut()
            .for_each(|(_, values)| values.iter_mut().for_each(|x| *x = rounded(*x)));
        write_tensors(&file, &all);
        assert_eq!(load(folder.path()).encode(&texts).unwrap(), half, "{dtype:?}");
    }
}

#[test]
fn shards_are_read_through_their_index() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let texts = [vec![2u32, 9, 10, 3]];
    let whole = load(folder.path()).encode(&texts).unwrap();
    let mut first = tensors("");
    let second = first.split_off("encoder.layer.1");
    write_tensors(&folder.path().join("model-00001-of-00002.safetensors"), &first);
    write_tensors(&folder.path().join("model-00002-of-00002.safetensors"), &second);
    let map: serde_json::Map<_, _> = first
        .keys()
        .map(|name| (name.clone(), json!("model-00001-of-00002.safetensors")))
        .chain(
            second
                .keys()
                .map(|name| (name.clone(), json!("model-00002-of-00002.safetensors"))),
        )
        .collect();
    write_json(
        &folder.path().join("model.safetensors.index.json"),
        &json!({"metadata": {}, "weight_map": map}),
    );
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert_eq!(load(folder.path()).encode(&texts).unwrap(), whole);
}

#[test]
fn the_folders_limit_replaces_the_tokenizer_files_truncation_and_padding() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let model = load(folder.path());
    assert_eq!(model.max_tokens(), 24);
    let short = model.tokenise("", "a b", Cut::Tail).unwrap();
    assert_eq!((short.ids.len(), short.count, short.truncated()), (4, 4, false));
    let long = "a b c d e f g h i j k l m n o p q r s t u v w x y z";
    let tail = model.tokenise("", long, Cut::Tail).unwrap();
    let head = model.tokenise("", long, Cut::Head).unwrap();
    assert_eq!((tail.ids.len(), tail.count, tail.truncated()), (24, 28, true));
    let all = |text: &str| model.tokenise("", text, Cut::Tail).unwrap().ids;
    assert_eq!(tail.ids, all("a b c d e f g h i j k l m n o p q r s t u v"));
    assert_eq!(head.ids, all("e f g h i j k l m n o p q r s t u v w x y z"));
    assert_eq!(all(""), [2, 3], "an empty text is its special tokens");
    assert_eq!(model.tokenise("query: ", "a", Cut::Tail).unwrap().ids, all("query: a"));
}

#[test]
fn a_folder_without_modules_json_is_mean_pooled_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let texts = [vec![2u32, 9, 10, 3]];
    let with = load(folder.path()).encode(&texts).unwrap();
    std::fs::remove_file(folder.path().join("modules.json")).unwrap();
    let model = load(folder.path());
    assert_eq!(model.folder().warnings.len(), 1);
    assert!(!model.normalises());
    assert_eq!(model.encode(&texts).unwrap(), with);
}

#[test]
fn a_dense_layer_follows_the_pooling() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let texts = [vec![2u32, 9, 10, 3], vec![2, 3]];
    let pooled = load(folder.path()).encode(&texts).unwrap();
    let mut numbers = common::Numbers(3);
    let (weight, bias) = (numbers.many(5 * HIDDEN, 0.2), numbers.many(5, 0.2));
    let dense = folder.path().join("2_Dense");
    write_json(
        &dense.join("config.json"),
        &json!({"in_features": HIDDEN, "out_features": 5, "bias": true, "activation_function": "torch.nn.modules.activation.Tanh"}),
    );
    let tensors = [
        ("linear.weight".to_owned(), (vec![5, HIDDEN], weight.clone())),
        ("linear.bias".to_owned(), (vec![5], bias.clone())),
    ];
    write_tensors(&dense.join("model.safetensors"), &tensors.into());
    edit_json(&folder.path().join("modules.json"), |modules| {
        modules[2] = json!({"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"});
    });
    let model = load(folder.path());
    assert_eq!((model.dimensions(), model.pipeline()), (5, "mean>dense".to_owned()));
    let got = model.encode(&texts).unwrap();
    for (got, pooled) in got.chunks(5).zip(pooled.chunks(HIDDEN)) {
        for (j, got) in got.iter().enumerate() {
            let sum: f64 = (0..HIDDEN)
                .map(|i| f64::from(weight[j * HIDDEN + i]) * f64::from(pooled[i]))
                .sum();
            assert!((f64::from(*got) - (sum + f64::from(bias[j])).tanh()).abs() < 1e-6);
        }
    }
}
