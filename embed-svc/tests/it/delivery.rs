//! Alternatives to a text's plain floats: bytes, bits, token vectors, ids instead of text.

use isomer_embed::{
    batch::{RequestedOutputs, Sequence},
    device::Device,
    model::Model,
    tokenise::Cut,
};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, EncodeResponse, Input, Output, TokenIds, encode_request, input},
};
use isomer_service_kit::vectors::{Ranges, bits};
use isomer_stubs::promise::promised;
use serde::Deserialize;
use serde_json::json;
use tonic::Code;

use crate::common::{
    self, HIDDEN, edit_json, fixtures,
    harness::{Harness, LONG, request, rows, texts},
};

#[derive(Deserialize)]
struct QuantisedVectors {
    embeddings: Vec<Vec<f32>>,
    calibration: Vec<Vec<f32>>,
    int8_of_the_batch: Vec<Vec<i8>>,
    int8_by_calibration: Vec<Vec<i8>>,
    ubinary: Vec<Vec<u8>>,
}

fn int8(ranges: &Ranges, vectors: &[Vec<f32>]) -> Vec<Vec<i8>> {
    vectors.iter().map(|row| ranges.quantised(row).collect()).collect()
}

#[test]
fn bytes_and_bits_are_those_of_sentence_transformers() {
    let golden: QuantisedVectors =
        serde_json::from_slice(&std::fs::read(fixtures().join("pipeline/quantise.json")).unwrap()).unwrap();
    let own = Ranges::of_rows(golden.embeddings.iter()).unwrap();
    assert_eq!(int8(&own, &golden.embeddings), golden.int8_of_the_batch);
    let calibrated = Ranges::of_rows(golden.calibration.iter()).unwrap();
    assert_eq!(int8(&calibrated, &golden.embeddings), golden.int8_by_calibration);
    for (row, want) in golden.embeddings.iter().zip(&golden.ubinary) {
        let mut out = Vec::new();
        bits(row, &mut out);
        assert_eq!(&out, want);
    }
}

fn many(count: usize) -> Vec<String> {
    let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap());
    (0..count)
        .map(|n| format!("{} {} {}", letter(n), letter(n / 26 + 3), letter(n * 7 + 1)))
        .collect()
}

fn of(texts: &[String], dtype: Dtype) -> EncodeRequest {
    EncodeRequest {
        output_dtype: dtype.into(),
        ..request(&texts.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn bytes(response: &EncodeResponse) -> Vec<Vec<i8>> {
    let matrix = response.embeddings.as_ref().unwrap();
    assert_eq!((matrix.dtype(), matrix.cols as usize), (Dtype::Int8, HIDDEN));
    let values: Vec<i8> = matrix.data.iter().map(|byte| i8::from_le_bytes([*byte])).collect();
    values.chunks(HIDDEN).map(<[i8]>::to_vec).collect()
}

#[tokio::test]
async fn a_request_of_a_hundred_texts_is_its_own_calibration_set_and_a_smaller_one_is_refused() {
    let mut harness = Harness::plain().await;
    let texts = many(100);
    let floats = rows(&harness.encode(of(&texts, Dtype::F32)).await);
    let quantised = harness.encode(of(&texts, Dtype::Int8)).await;
    let ranges = Ranges::of_rows(floats.iter()).unwrap();
    assert_eq!(bytes(&quantised), int8(&ranges, &floats));
    let space = quantised.vector_space.unwrap();
    assert_eq!(space.quantisation.len(), 64);
    let others = harness
        .encode(of(&many(130)[20..], Dtype::Int8))
        .await
        .vector_space
        .unwrap();
    assert_ne!(space.digest, others.digest, "other ranges, another space");

    let fault = harness.refuse(of(&texts[..99], Dtype::Int8)).await;
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("output_dtype"))
    );
    assert!(fault.hint.unwrap().contains("calibration.txt"));
}

#[tokio::test]
async fn a_calibration_set_gives_every_request_the_same_ranges() {
    let set = many(120);
    let lines = set.join("\n");
    let mut harness = Harness::new(|model, _| std::fs::write(model.join("calibration.txt"), &lines).unwrap()).await;
    let floats = rows(&harness.encode(of(&set, Dtype::F32)).await);
    let ranges = Ranges::of_rows(floats.iter()).unwrap();
    let texts = vec!["x y z".to_owned(), "hello world".to_owned()];
    let own = rows(&harness.encode(of(&texts, Dtype::F32)).await);
    let alone = harness.encode(of(&texts[..1], Dtype::Int8)).await;
    let both = harness.encode(of(&texts, Dtype::Int8)).await;
    assert_eq!(bytes(&both), int8(&ranges, &own));
    assert_eq!(bytes(&alone)[0], bytes(&both)[0]);
    assert_eq!(alone.vector_space, both.vector_space);

    // The configuration takes precedence over the folder.
    let other = many(300)[150..].join("\n");
    let mut harness = Harness::new(|model, config| {
        std::fs::write(model.join("calibration.txt"), &lines).unwrap();
        let file = model.join("other.txt");
        std::fs::write(&file, &other).unwrap();
        config.calibration.insert("tiny".into(), file);
    })
    .await;
    assert_ne!(
        harness.encode(of(&texts, Dtype::Int8)).await.vector_space,
        both.vector_space
    );

    let mut harness = Harness::new(|model, _| std::fs::write(model.join("calibration.txt"), "a\nb\n").unwrap()).await;
    let fault = harness.refuse(of(&texts, Dtype::Int8)).await;
    assert_eq!(fault.code, Code::FailedPrecondition, "{fault}");
    assert!(fault.message.contains("calibration.txt"), "{fault}");
}

#[tokio::test]
async fn bits_are_packed_eight_to_a_byte_and_cut_like_floats() {
    let mut harness = Harness::plain().await;
    let texts = many(3);
    let floats = rows(&harness.encode(of(&texts, Dtype::F32)).await);
    let cut = |dimensions| EncodeRequest {
        dimensions,
        ..of(&texts, Dtype::Ubinary)
    };
    for (dimensions, bytes) in [(None, HIDDEN / 8), (Some(9), 2)] {
        let matrix = harness.encode(cut(dimensions)).await.embeddings.unwrap();
        assert_eq!(matrix.data.len(), 3 * bytes);
        for (row, floats) in matrix.data.chunks(bytes).zip(&floats) {
            for (place, value) in floats.iter().take(matrix.cols as usize).enumerate() {
                assert_eq!(row[place / 8] >> (7 - place % 8) & 1 == 1, *value > 0.0);
            }
        }
    }
}

fn ids(ids: &[u32]) -> Input {
    Input {
        input: Some(input::Input::TokenIds(TokenIds { ids: ids.to_vec() })),
    }
}

#[tokio::test]
async fn token_ids_give_the_vector_of_their_text() {
    let mut harness = Harness::plain().await;
    let model = Model::load(&harness.model(), &Device::Cpu).unwrap();
    let of_text = |text: &str| model.tokenise("", text, Cut::Tail).unwrap().ids;
    let mixed = EncodeRequest {
        inputs: vec![ids(&of_text("a b")), texts(&["c d e"]).remove(0), ids(&of_text(""))],
        ..request(&[])
    };
    let response = harness.encode(mixed).await;
    assert_eq!(
        rows(&response),
        rows(&harness.encode(request(&["a b", "c d e", ""])).await)
    );
    assert_eq!(response.token_counts, [4, 5, 2]);
    assert_eq!(response.truncated, [false; 3]);
    let cases = [
        (vec![], "inputs[1].token_ids"),
        (vec![9; 25], "inputs[1].token_ids"),
        (vec![9, 61], "inputs[1].token_ids"),
        (vec![u32::MAX], "inputs[1].token_ids"),
        // Ids of another tokenizer: known ids, but not between this one's marks.
        (vec![9, 10], "inputs[1].token_ids"),
        (vec![2, 9], "inputs[1].token_ids"),
        (vec![2], "inputs[1].token_ids"),
    ];
    for (bad, field) in cases {
        let request = EncodeRequest {
            inputs: vec![ids(&[2, 3]), ids(&bad)],
            ..request(&[])
        };
        let fault = harness.refuse(request).await;
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some(field))
        );
    }
}

#[derive(Deserialize)]
struct TokenGolden {
    texts: Vec<String>,
    models: Vec<TokenCase>,
}

#[derive(Deserialize)]
struct TokenCase {
    name: String,
    transformer: bool,
    tokens: Vec<Vec<Vec<f32>>>,
}

#[test]
fn token_vectors_are_those_of_sentence_transformers() {
    let golden: TokenGolden =
        serde_json::from_slice(&std::fs::read(fixtures().join("pipeline/tokens.json")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for case in golden.models {
        let path = common::assembled(&case.name, case.transformer, folder.path());
        let model = Model::load(&path, &Device::Cpu).unwrap();
        let sequences: Vec<Sequence> = golden
            .texts
            .iter()
            .map(|text| Sequence {
                want: RequestedOutputs {
                    token_vectors: true,
                    ..RequestedOutputs::NONE
                },
                ..model.tokenise("", text, Cut::Tail).unwrap().into()
            })
            .collect();
        let got = model.encode_sequences(sequences.iter()).unwrap().token_vectors;
        let want: Vec<f32> = case.tokens.into_iter().flatten().flatten().collect();
        assert_eq!(got.len(), want.len(), "{}", case.name);
        for (got, want) in got.iter().zip(&want) {
            assert!(
                (got - want).abs() < 2e-5 * want.abs().max(1.0),
                "{}: {got} {want}",
                case.name
            );
        }
    }
}

#[tokio::test]
async fn token_vectors_come_with_the_rows_of_each_input_and_in_a_space_of_their_own() {
    let mut harness = Harness::plain().await;
    let tokens = |normalise, inputs: &[&str]| EncodeRequest {
        output: Output::TokenVectors.into(),
        normalise,
        ..request(inputs)
    };
    let response = harness.encode(tokens(None, &["a b", "", LONG])).await;
    assert_eq!(response.row_counts, [4, 2, 24]);
    let vectors = rows(&response);
    assert_eq!(vectors.len(), 30);
    let raw = EncodeRequest {
        normalise: Some(false),
        ..request(&["a b"])
    };
    let text = rows(&harness.encode(raw).await).remove(0);
    for (column, value) in text.iter().enumerate() {
        let mean = vectors[..4].iter().map(|row| row[column]).sum::<f32>() / 4.0;
        assert!(
            (mean - value).abs() < 1e-5,
            "the text's vector is the mean of its tokens'"
        );
    }
    let space = response.vector_space.unwrap();
    assert_eq!((space.pooling.as_str(), space.normalised), ("tokens", false));
    let scaled = harness.encode(tokens(Some(true), &["a b"])).await;
    assert_eq!(scaled.vector_space.as_ref().unwrap().pooling, "tokens>normalize");
    let length = |row: &Vec<f32>| row.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!(rows(&scaled).iter().all(|row| (length(row) - 1.0).abs() < 1e-5));
    let together = rows(&harness.encode(tokens(None, &["c", "a b"])).await);
    assert_eq!(
        together[3..],
        vectors[..4],
        "a token's vector does not depend on the batch"
    );
    let int8 = EncodeRequest {
        output_dtype: Dtype::Int8.into(),
        ..tokens(None, &["a"])
    };
    let fault = harness.refuse(int8).await;
    promised("EncoderService.Encode UNIMPLEMENTED NOT_SERVED_YET", &fault);
}

#[tokio::test]
async fn a_folder_without_pooling_gives_token_vectors_only() {
    let mut harness = Harness::new(|model, _| {
        edit_json(&model.join("modules.json"), |modules| {
            modules.as_array_mut().unwrap().truncate(1);
        });
    })
    .await;
    let fault = harness.refuse(request(&["a"])).await;
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::Unimplemented, Some("output"))
    );
    let tokens = EncodeRequest {
        output: Output::TokenVectors.into(),
        ..request(&["a b"])
    };
    assert_eq!(harness.encode(tokens).await.row_counts, [4]);
}

#[tokio::test]
async fn a_prompt_may_be_left_out_of_the_pooling() {
    let prompted = |literal: &str| EncodeRequest {
        prompt: Some(encode_request::Prompt::LiteralPrompt(literal.into())),
        normalise: Some(false),
        ..request(&["a b"])
    };
    let mut harness = Harness::new(|model, _| {
        edit_json(&model.join("1_Pooling/config.json"), |config| {
            config["include_prompt"] = json!(false)
        });
    })
    .await;
    let without = rows(&harness.encode(prompted("query: ")).await).remove(0);
    let tokens = EncodeRequest {
        output: Output::TokenVectors.into(),
        ..prompted("query: ")
    };
    let tokens = rows(&harness.encode(tokens).await);
    // [CLS] query : a b [SEP]: the first three are excluded.
    assert_eq!(tokens.len(), 6);
    for (column, value) in without.iter().enumerate() {
        let mean = tokens[3..].iter().map(|row| row[column]).sum::<f32>() / 3.0;
        assert!((mean - value).abs() < 1e-5);
    }
}
