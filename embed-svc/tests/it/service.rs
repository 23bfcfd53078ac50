//! The promises of `EncoderService`, through the generated client over an in-memory channel.

use half::f16;
use isomer_embed::space;
use isomer_proto::{
    common::v1::{Dtype, Similarity},
    encoder::v1::{
        CountTokensRequest, EncodeRequest, EncodeStreamRequest, GetEncoderRequest, Input, ListEncodersRequest,
        Priority, TokenIds, Truncation, count_tokens_request, encode_request, input,
    },
};
use isomer_service_kit::Fault;
use isomer_stubs::promise::promised;
use serde_json::json;
use tonic::Code;

use crate::common::{
    HIDDEN, edit_json,
    harness::{Harness, LONG, length, request, rows},
    tensors, write_tensors,
};

#[tokio::test]
async fn an_encoded_text_comes_with_its_space_usage_and_timing() {
    let mut harness = Harness::plain().await;
    let response = harness.encode(request(&["a b", "", LONG])).await;
    let vectors = rows(&response);
    assert_eq!(vectors.len(), 3);
    assert!(
        vectors
            .iter()
            .all(|vector| vector.len() == HIDDEN && (length(vector) - 1.0).abs() < 1e-5)
    );
    assert_eq!(response.token_counts, [4, 2, 28]);
    assert_eq!(response.truncated, [false, false, true]);
    assert!(response.errors.is_empty());
    let usage = response.usage.unwrap();
    assert_eq!((usage.texts, usage.tokens), (3, 4 + 2 + 24));
    let timing = response.timing.unwrap();
    assert!(timing.queue.is_some() && timing.tokenise.is_some() && timing.compute.is_some() && timing.total.is_some());
    let found = response.vector_space.unwrap();
    assert_eq!(found.digest, space::digest(&found));
    assert_eq!(
        (found.model_id.as_str(), found.pooling.as_str()),
        ("tiny", "mean>normalize")
    );
    assert!(found.normalised && found.dimensions == HIDDEN as u32 && found.weights_digest.len() == 64);
}

#[tokio::test]
async fn batched_embedding_equals_single() {
    let mut harness = Harness::plain().await;
    let inputs = ["a", "b c d", "", LONG, "hello world", "x y"];
    let together = rows(&harness.encode(request(&inputs)).await);
    for (text, vector) in inputs.iter().zip(&together) {
        assert_eq!(&rows(&harness.encode(request(&[text])).await)[0], vector);
    }
}

#[tokio::test]
async fn prompts_are_put_before_each_text_by_name_literally_or_by_default() {
    let mut harness = Harness::plain().await;
    let with = |prompt| EncodeRequest {
        prompt,
        ..request(&["a b"])
    };
    let named = harness
        .encode(with(Some(encode_request::Prompt::PromptName("query".into()))))
        .await;
    let literal = harness
        .encode(with(Some(encode_request::Prompt::LiteralPrompt("query: ".into()))))
        .await;
    let plain = harness.encode(with(None)).await;
    assert_eq!(rows(&named), rows(&literal));
    assert_eq!(rows(&named), rows(&harness.encode(request(&["query: a b"])).await));
    assert_ne!(rows(&named), rows(&plain));
    assert_eq!(named.token_counts, [6]);
    assert_eq!(named.vector_space, literal.vector_space);
    assert_ne!(
        named.vector_space.as_ref().unwrap().digest,
        plain.vector_space.as_ref().unwrap().digest
    );
    let fault = harness
        .refuse(with(Some(encode_request::Prompt::PromptName("nonsense".into()))))
        .await;
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("prompt_name"))
    );
    assert!(fault.hint.unwrap().contains("query"));

    let mut harness = Harness::new(|model, _| {
        edit_json(&model.join("config_sentence_transformers.json"), |config| {
            config["default_prompt_name"] = json!("query")
        });
    })
    .await;
    assert_eq!(rows(&harness.encode(with(None)).await), rows(&named));
    assert_eq!(
        rows(
            &harness
                .encode(with(Some(encode_request::Prompt::LiteralPrompt(String::new()))))
                .await
        ),
        rows(&plain)
    );
}

#[tokio::test]
async fn too_long_texts_are_cut_at_either_end_or_refused_by_name() {
    let mut harness = Harness::plain().await;
    let with = |truncation: Truncation| EncodeRequest {
        truncation: truncation.into(),
        ..request(&["a", LONG])
    };
    let tail = harness.encode(with(Truncation::Tail)).await;
    let head = harness.encode(with(Truncation::Head)).await;
    assert_eq!(tail.truncated, [false, true]);
    assert_eq!(head.token_counts, [3, 28]);
    assert_eq!(
        rows(&tail)[1],
        rows(
            &harness
                .encode(request(&["a b c d e f g h i j k l m n o p q r s t u v"]))
                .await
        )[0]
    );
    assert_eq!(
        rows(&head)[1],
        rows(
            &harness
                .encode(request(&["e f g h i j k l m n o p q r s t u v w x y z"]))
                .await
        )[0]
    );
    let fault = harness.refuse(with(Truncation::Error)).await;
    promised("EncoderService.Encode INVALID_ARGUMENT inputs.text", &fault);
    assert_eq!(fault.field.as_deref(), Some("inputs[1].text"));
    assert!(fault.message.contains("28") && fault.message.contains("24"), "{fault}");
}

#[tokio::test]
async fn columns_are_cut_then_scaled_and_scaling_can_be_left_out() {
    let mut harness = Harness::plain().await;
    let raw = harness
        .encode(EncodeRequest {
            normalise: Some(false),
            ..request(&["a b"])
        })
        .await;
    let raw_row = rows(&raw).remove(0);
    assert!(!raw.vector_space.as_ref().unwrap().normalised);
    assert_eq!(raw.vector_space.unwrap().pooling, "mean");
    let cut = harness
        .encode(EncodeRequest {
            dimensions: Some(8),
            ..request(&["a b"])
        })
        .await;
    let cut_row = rows(&cut).remove(0);
    assert_eq!((cut_row.len(), cut.vector_space.unwrap().dimensions), (8, 8));
    let scale = length(&raw_row[..8]);
    assert!(cut_row.iter().zip(&raw_row).all(|(a, b)| (a - b / scale).abs() < 1e-6));
    for dimensions in [0, HIDDEN as u32 + 1] {
        let fault = harness
            .refuse(EncodeRequest {
                dimensions: Some(dimensions),
                ..request(&["a"])
            })
            .await;
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some("dimensions"))
        );
    }
    let mut harness = Harness::new(|model, _| {
        edit_json(&model.join("config.json"), |config| {
            config["matryoshka_dimensions"] = json!([8, 16])
        });
    })
    .await;
    assert_eq!(
        harness
            .encode(EncodeRequest {
                dimensions: Some(16),
                ..request(&["a"])
            })
            .await
            .embeddings
            .unwrap()
            .cols,
        16
    );
    let fault = harness
        .refuse(EncodeRequest {
            dimensions: Some(9),
            ..request(&["a"])
        })
        .await;
    assert!(fault.hint.unwrap().contains("[8, 16]"));
}

#[tokio::test]
async fn halves_are_the_rounded_floats() {
    let mut harness = Harness::plain().await;
    let floats = rows(&harness.encode(request(&["a b"])).await).remove(0);
    let with = |dtype: Dtype| EncodeRequest {
        output_dtype: dtype.into(),
        ..request(&["a b"])
    };
    let halves = harness.encode(with(Dtype::F16)).await;
    let matrix = halves.embeddings.unwrap();
    assert_eq!((matrix.dtype(), matrix.data.len()), (Dtype::F16, 2 * HIDDEN));
    for (bytes, float) in matrix.data.chunks(2).zip(floats) {
        assert_eq!(f16::from_le_bytes(bytes.try_into().unwrap()), f16::from_f32(float));
    }
}

#[tokio::test]
async fn bad_requests_are_refused_naming_the_field() {
    let mut harness = Harness::new(|_, config| config.max_batch_items = 3).await;
    let cases = [
        (
            EncodeRequest {
                encoder_id: String::new(),
                ..request(&["a"])
            },
            Code::InvalidArgument,
            "encoder_id",
        ),
        (
            EncodeRequest {
                encoder_id: "nonsense".into(),
                ..request(&["a"])
            },
            Code::NotFound,
            "encoder_id",
        ),
        (
            EncodeRequest {
                encoder_id: "n".repeat(4097),
                ..request(&["a"])
            },
            Code::InvalidArgument,
            "encoder_id",
        ),
        (
            EncodeRequest {
                encoder_id: "/etc".into(),
                ..request(&["a"])
            },
            Code::NotFound,
            "encoder_id",
        ),
        (request(&[]), Code::InvalidArgument, "inputs"),
        (request(&["a", "b", "c", "d"]), Code::InvalidArgument, "inputs"),
        (
            EncodeRequest {
                inputs: vec![Input { input: None }],
                ..request(&[])
            },
            Code::InvalidArgument,
            "inputs[0]",
        ),
        (
            EncodeRequest {
                inputs: vec![Input {
                    input: Some(input::Input::TokenIds(TokenIds { ids: Vec::new() })),
                }],
                ..request(&[])
            },
            Code::InvalidArgument,
            "inputs[0].token_ids",
        ),
        (
            EncodeRequest {
                truncation: 77,
                ..request(&["a"])
            },
            Code::InvalidArgument,
            "truncation",
        ),
        (
            EncodeRequest {
                output_dtype: 77,
                ..request(&["a"])
            },
            Code::InvalidArgument,
            "output_dtype",
        ),
        (
            EncodeRequest {
                output: 77,
                ..request(&["a"])
            },
            Code::InvalidArgument,
            "output",
        ),
        (
            EncodeRequest {
                priority: 77,
                ..request(&["a"])
            },
            Code::InvalidArgument,
            "priority",
        ),
    ];
    for (request, code, field) in cases {
        let fault = harness.refuse(request).await;
        assert_eq!((fault.code, fault.field.as_deref()), (code, Some(field)), "{fault}");
    }
    let named = EncodeRequest {
        prompt: Some(encode_request::Prompt::PromptName("nothing".into())),
        ..request(&["a"])
    };
    let wide = EncodeRequest {
        dimensions: Some(4096),
        ..request(&["a"])
    };
    for (request, promise) in [
        (request(&[]), "EncoderService.Encode INVALID_ARGUMENT inputs"),
        (named, "EncoderService.Encode INVALID_ARGUMENT prompt_name"),
        (wide, "EncoderService.Encode INVALID_ARGUMENT dimensions"),
    ] {
        promised(promise, &harness.refuse(request).await);
    }
}

#[tokio::test]
async fn an_answer_too_large_for_a_message_is_refused_before_computing() {
    let mut harness = Harness::new(|_, config| config.max_message_bytes = 8192).await;
    assert_eq!(harness.encode(request(&["a"; 10])).await.embeddings.unwrap().rows, 10);
    let fault = harness.refuse(request(&["a"; 100])).await;
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("inputs"))
    );
}

#[tokio::test]
async fn vectors_that_are_not_finite_are_an_error() {
    let mut harness = Harness::new(|model, _| {
        let mut all = tensors("");
        all.get_mut("encoder.layer.1.output.dense.bias").unwrap().1[3] = f32::NAN;
        write_tensors(&model.join("model.safetensors"), &all);
    })
    .await;
    let fault = harness.refuse(request(&["a"])).await;
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "VECTOR_NOT_FINITE")
    );
    assert_eq!(fault.field.as_deref(), Some("inputs[0]"));
}

#[tokio::test]
async fn an_unusable_folder_is_a_failed_precondition_and_heals_when_repaired() {
    let mut harness = Harness::new(|model, _| {
        std::fs::rename(model.join("tokenizer.json"), model.join("hidden")).unwrap();
    })
    .await;
    let fault = harness.refuse(request(&["a"])).await;
    promised("EncoderService.Encode FAILED_PRECONDITION MODEL_UNUSABLE", &fault);
    assert!(fault.message.contains("tokenizer"), "{fault}");
    let model = harness.folder.path().join("tiny-model");
    std::fs::rename(model.join("hidden"), model.join("tokenizer.json")).unwrap();
    assert_eq!(harness.encode(request(&["a"])).await.token_counts, [3]);
}

#[tokio::test]
async fn a_folder_may_be_named_only_where_allowed() {
    let mut harness = Harness::new(|_, config| config.allow_paths = true).await;
    let path = harness.folder.path().join("tiny-model").to_string_lossy().into_owned();
    let response = harness
        .encode(EncodeRequest {
            encoder_id: path,
            ..request(&["a b"])
        })
        .await;
    assert_eq!(rows(&response), rows(&harness.encode(request(&["a b"])).await));
    let missing = EncodeRequest {
        encoder_id: "./not/here".into(),
        ..request(&["a"])
    };
    assert_eq!(harness.refuse(missing).await.code, Code::NotFound);
}

#[tokio::test]
async fn encoders_are_listed_in_pages_and_described_once_loaded() {
    let mut harness = Harness::plain().await;
    let mut ids = Vec::new();
    let mut page_token = String::new();
    loop {
        let page = harness
            .client
            .list_encoders(ListEncodersRequest {
                page_size: 2,
                page_token,
            })
            .await
            .unwrap()
            .into_inner();
        assert!(page.encoders.len() <= 2);
        let states = page.encoders.into_iter();
        ids.extend(states.map(|encoder| (encoder.id, encoder.loaded, encoder.not_installed)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert!(ids.is_sorted());
    assert!(
        ids.contains(&("tiny".into(), false, false)) && ids.contains(&("all-MiniLM-L6-v2".into(), false, true)),
        "{ids:?}"
    );
    let bad = ListEncodersRequest {
        page_size: 2,
        page_token: "nonsense".into(),
    };
    assert_eq!(
        harness.client.list_encoders(bad).await.unwrap_err().code(),
        Code::InvalidArgument
    );

    let got = harness
        .client
        .get_encoder(GetEncoderRequest { id: "tiny".into() })
        .await
        .unwrap()
        .into_inner();
    let encoder = got.encoder.unwrap();
    assert!(encoder.loaded && encoder.normalises);
    assert_eq!((encoder.dimensions, encoder.max_tokens), (HIDDEN as u32, 24));
    assert_eq!(
        (encoder.architecture.as_str(), encoder.similarity()),
        ("bert", Similarity::Cosine)
    );
    assert_eq!(encoder.prompts["query"], "query: ");
    let space = harness.encode(request(&["a"])).await.vector_space;
    assert_eq!(
        encoder.vector_space, space,
        "the default space is the one that is delivered by default"
    );
    let all = harness
        .client
        .list_encoders(ListEncodersRequest::default())
        .await
        .unwrap()
        .into_inner()
        .encoders;
    assert!(all.contains(&encoder));
    let unknown = GetEncoderRequest { id: "nonsense".into() };
    assert_eq!(
        harness.client.get_encoder(unknown).await.unwrap_err().code(),
        Code::NotFound
    );
}

#[tokio::test]
async fn tokens_are_counted_as_encode_sees_them_before_truncation() {
    let mut harness = Harness::plain().await;
    let request = CountTokensRequest {
        encoder_id: "tiny".into(),
        texts: vec!["a b".into(), String::new(), LONG.into()],
        prompt: Some(count_tokens_request::Prompt::PromptName("query".into())),
    };
    let response = harness.client.count_tokens(request).await.unwrap().into_inner();
    assert_eq!(response.token_counts, [6, 4, 30]);
    assert_eq!(response.max_tokens, 24);
}

#[tokio::test]
async fn a_stream_is_answered_in_order_and_ends_at_the_first_error() {
    let mut harness = Harness::plain().await;
    let sizes = [40usize, 1, 17, 3, 60, 2, 5];
    let message = |index: usize, size: usize| EncodeStreamRequest {
        client_index: 100 + index as u64,
        request: Some(EncodeRequest {
            priority: Priority::Batch.into(),
            ..request(&vec!["some text of several words"; size])
        }),
    };
    let messages: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(index, size)| message(index, *size))
        .collect();
    let stream = harness
        .client
        .encode_stream(tokio_stream::iter(messages))
        .await
        .unwrap();
    let mut answers = stream.into_inner();
    for (index, size) in sizes.iter().enumerate() {
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!(answer.client_index, 100 + index as u64);
        assert_eq!(answer.response.unwrap().embeddings.unwrap().rows as usize, *size);
    }
    assert!(answers.message().await.unwrap().is_none());

    let empty = EncodeStreamRequest {
        client_index: 1,
        request: None,
    };
    let stream = harness
        .client
        .encode_stream(tokio_stream::iter([message(0, 2), empty, message(2, 2)]))
        .await
        .unwrap();
    let mut answers = stream.into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().client_index, 100);
    let fault = Fault::from_status(&answers.message().await.unwrap_err());
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("request"))
    );
}

#[tokio::test]
async fn many_clients_at_once_each_get_their_own_vectors() {
    let mut harness = Harness::plain().await;
    let inputs: Vec<String> = (0..24u8)
        .map(|n| {
            (0..=n % 9)
                .map(|i| char::from(b'a' + (n + i) % 26).to_string() + " ")
                .collect()
        })
        .collect();
    let mut alone = Vec::new();
    for text in &inputs {
        alone.push(rows(&harness.encode(request(&[text])).await));
    }
    let tasks: Vec<_> = inputs
        .iter()
        .cloned()
        .map(|text| {
            let mut client = harness.client.clone();
            tokio::spawn(async move { rows(&client.encode(request(&[&text])).await.unwrap().into_inner()) })
        })
        .collect();
    for (task, alone) in tasks.into_iter().zip(alone) {
        assert_eq!(task.await.unwrap(), alone);
    }
}

#[tokio::test]
async fn replicas_answer_as_one_does() {
    let mut one = Harness::plain().await;
    let mut two = Harness::new(|_, config| {
        config.replicas = 2;
        config.threads = 3;
    })
    .await;
    for text in ["a", "b c d", "e f g h i j k l", ""] {
        let request = request(&[text, "a b"]);
        let (one, two) = (one.encode(request.clone()).await, two.encode(request).await);
        assert_eq!(rows(&one), rows(&two));
        assert_eq!(one.vector_space, two.vector_space);
    }
}
