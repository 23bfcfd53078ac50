//! `Tokenize` and `Detokenize`, and texts that are too large for tokenization.

use isomer_proto::encoder::v1::{
    CountTokensRequest, DetokenizeRequest, EncodeRequest, Input, Token, TokenIds, TokenizeRequest, encode_request,
    input, tokenize_request::Prompt,
};
use isomer_service_kit::Fault;
use isomer_stubs::promise::{promised, refusal};

use crate::common::harness::{Harness, request};

fn tokenize(texts: &[&str]) -> TokenizeRequest {
    TokenizeRequest {
        encoder_id: "tiny".into(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..TokenizeRequest::default()
    }
}

async fn tokens(harness: &mut Harness, request: TokenizeRequest) -> Vec<Vec<Token>> {
    let answer = harness.client.tokenize(request).await.unwrap().into_inner();
    answer.texts.into_iter().map(|text| text.tokens).collect()
}

/// The visible properties of a token: text, bytes, special.
fn seen(token: &Token) -> (&str, Option<(u32, u32)>, bool) {
    (token.text.as_str(), token.start.zip(token.end), token.special)
}

#[tokio::test]
async fn tokens_come_with_the_part_of_the_text_that_they_stand_for() {
    let mut harness = Harness::plain().await;
    let found = tokens(&mut harness, tokenize(&["Ab, c", ""])).await;
    let first: Vec<_> = found[0].iter().map(seen).collect();
    // The tokenizer lower-cases; the parts are in the text's own case.
    assert_eq!(
        first,
        [
            ("[CLS]", None, true),
            ("A", Some((0, 1)), false),
            ("b", Some((1, 2)), false),
            (",", Some((2, 3)), false),
            ("c", Some((4, 5)), false),
            ("[SEP]", None, true),
        ]
    );
    assert_eq!(
        found[1].iter().map(seen).collect::<Vec<_>>(),
        [("[CLS]", None, true), ("[SEP]", None, true)]
    );

    let request = TokenizeRequest {
        prompt: Some(Prompt::LiteralPrompt("é ".into())),
        special_tokens: Some(false),
        ..tokenize(&["b"])
    };
    let found = tokens(&mut harness, request).await;
    // Offsets are in bytes, not characters, and include the prompt.
    assert_eq!(found[0].last().map(seen), Some(("b", Some((3, 4)), false)));
    assert!(found[0].iter().all(|token| !token.special));
}

#[tokio::test]
async fn ids_of_tokens_can_be_encoded_counted_and_read_back() {
    let mut harness = Harness::plain().await;
    let text = "hello, world";
    let found = tokens(&mut harness, tokenize(&[text])).await;
    let ids: Vec<u32> = found[0].iter().map(|token| token.id).collect();
    let of_text = harness.encode(request(&[text])).await.embeddings.unwrap();
    let of_ids = EncodeRequest {
        inputs: vec![Input {
            input: Some(input::Input::TokenIds(TokenIds { ids: ids.clone() })),
        }],
        ..request(&[])
    };
    assert_eq!(harness.encode(of_ids).await.embeddings.unwrap(), of_text);
    let counted = CountTokensRequest {
        encoder_id: "tiny".into(),
        texts: vec![text.into()],
        prompt: None,
    };
    let counted = harness.client.count_tokens(counted).await.unwrap().into_inner();
    assert_eq!(counted.token_counts, [ids.len() as u32]);

    let mut request = DetokenizeRequest {
        encoder_id: "tiny".into(),
        token_ids: vec![TokenIds { ids }, TokenIds::default()],
        special_tokens: false,
    };
    let texts = harness
        .client
        .detokenize(request.clone())
        .await
        .unwrap()
        .into_inner()
        .texts;
    assert_eq!(texts, [text, ""]);
    request.special_tokens = true;
    let texts = harness
        .client
        .detokenize(request.clone())
        .await
        .unwrap()
        .into_inner()
        .texts;
    assert_eq!(texts, ["[CLS] hello, world [SEP]", ""]);
    request.token_ids[1].ids = vec![5, 100_000];
    let status = harness.client.detokenize(request).await.unwrap_err();
    let fault = Fault::from(status);
    assert_eq!(refusal(&fault), "INVALID_ARGUMENT token_ids[1]");
    assert!(fault.message.contains("100000"), "{fault}");
}

#[tokio::test]
async fn a_text_too_large_to_be_made_into_tokens_is_refused_by_its_path() {
    let mut harness = Harness::new(|_, config| config.max_text_bytes = 50).await;
    let (fits, large) = ("a".repeat(50), "é".repeat(26));
    let texts = [fits.as_str(), large.as_str()];
    let encoded = harness.client.encode(request(&texts)).await.unwrap_err();
    let counted = harness.client.count_tokens(CountTokensRequest {
        encoder_id: "tiny".into(),
        texts: texts.map(str::to_owned).to_vec(),
        prompt: None,
    });
    let counted = counted.await.unwrap_err();
    let tokenised = harness.client.tokenize(tokenize(&texts)).await.unwrap_err();
    for (status, path) in [
        (encoded, "inputs[1].text"),
        (counted, "texts[1]"),
        (tokenised, "texts[1]"),
    ] {
        assert_eq!(status.message(), format!("{path} has 52 bytes, the most is 50"));
        assert!(Fault::from(status).hint.unwrap().contains("embed.max_text_bytes"));
    }
    assert_eq!(harness.encode(request(&texts[..1])).await.embeddings.unwrap().rows, 1);
    assert_eq!(tokens(&mut harness, tokenize(&texts[..1])).await.len(), 1);
}

#[tokio::test]
async fn an_answer_of_too_many_tokens_is_refused() {
    let mut harness = Harness::new(|_, config| config.max_message_bytes = 4000).await;
    let text = "a ".repeat(40);
    assert_eq!(tokens(&mut harness, tokenize(&[&text])).await[0].len(), 42);
    let status = harness
        .client
        .tokenize(tokenize(&[&text, &text, &text]))
        .await
        .unwrap_err();
    let fault = Fault::from(status);
    promised("EncoderService.Tokenize INVALID_ARGUMENT texts", &fault);
    assert_eq!(fault.field.as_deref(), Some("texts[2]"));
    assert!(fault.message.contains("4000 bytes"), "{fault}");
}

#[tokio::test]
async fn an_answer_holds_at_most_200_000_tokens() {
    let mut harness = Harness::plain().await;
    let text = "a ".repeat(50_000);
    let answer = tokens(&mut harness, tokenize(&[text.as_str(); 3])).await;
    assert_eq!(answer.iter().map(Vec::len).sum::<usize>(), 150_006);
    let status = harness
        .client
        .tokenize(tokenize(&[text.as_str(); 4]))
        .await
        .unwrap_err();
    let fault = Fault::from(status);
    assert_eq!(refusal(&fault), "INVALID_ARGUMENT texts[3]");
    assert!(fault.message.contains("200000 tokens"), "{fault}");
}

#[tokio::test]
async fn texts_to_tokenise_hold_at_most_16_mib() {
    let mut harness = Harness::plain().await;
    // One word of 256 KiB, which is one token.
    let word = "a".repeat(256 << 10);
    let answer = tokens(&mut harness, tokenize(&[word.as_str(); 64])).await;
    assert_eq!(answer.len(), 64);
    let status = harness
        .client
        .tokenize(tokenize(&[word.as_str(); 65]))
        .await
        .unwrap_err();
    let fault = Fault::from(status);
    assert_eq!(refusal(&fault), "INVALID_ARGUMENT texts");
    assert!(
        fault.message.contains("17039360 bytes") && fault.message.contains("16777216"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_prompt_is_bounded_by_itself_and_with_all_texts() {
    let mut harness = Harness::plain().await;
    let with = |prompt: usize, texts: usize| EncodeRequest {
        prompt: Some(encode_request::Prompt::LiteralPrompt("a".repeat(prompt))),
        ..request(&vec!["b"; texts])
    };
    let fault = harness.refuse(with((256 << 10) + 1, 1)).await;
    assert_eq!(fault.field.as_deref(), Some("literal_prompt"));
    let fault = harness.refuse(with(200 << 10, 200)).await;
    assert!(
        fault.message.contains("40960000 bytes with 200 texts"),
        "{}",
        fault.message
    );
    assert_eq!(harness.encode(with(20, 200)).await.embeddings.unwrap().rows, 200);
}

#[tokio::test]
async fn bad_requests_for_tokens_name_their_field() {
    let mut harness = Harness::new(|_, config| config.max_batch_items = 2).await;
    let unknown = TokenizeRequest {
        encoder_id: "nobody".into(),
        ..tokenize(&["a"])
    };
    let named = TokenizeRequest {
        prompt: Some(Prompt::PromptName("nothing".into())),
        ..tokenize(&["a"])
    };
    for (request, promise) in [
        (unknown, "EncoderService.Tokenize NOT_FOUND UNKNOWN_ENCODER encoder_id"),
        (
            tokenize(&["a", "b", "c"]),
            "EncoderService.Tokenize INVALID_ARGUMENT texts",
        ),
        (named, "EncoderService.Tokenize INVALID_ARGUMENT prompt_name"),
    ] {
        promised(promise, &harness.client.tokenize(request).await.unwrap_err().into());
    }
    let lists = |encoder: &str, count: usize| DetokenizeRequest {
        encoder_id: encoder.into(),
        token_ids: vec![TokenIds { ids: vec![5] }; count],
        special_tokens: false,
    };
    for (request, promise) in [
        (
            lists("nobody", 1),
            "EncoderService.Detokenize NOT_FOUND UNKNOWN_ENCODER encoder_id",
        ),
        (lists("tiny", 3), "EncoderService.Detokenize INVALID_ARGUMENT token_ids"),
    ] {
        promised(promise, &harness.client.detokenize(request).await.unwrap_err().into());
    }
    assert_eq!(tokens(&mut harness, tokenize(&["a", "b"])).await.len(), 2);
}
