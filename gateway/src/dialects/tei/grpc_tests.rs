//! Tests `tei.v1` over the stub encoder of OpenAI's tests: a text's vector is (its length, 1), a
//! document's relevance is its length.
#![allow(clippy::unwrap_used)]

use isomer_proto::tei::v1::{
    DecodeRequest, EmbedAllRequest, EmbedRequest, EmbedSparseRequest, EncodeRequest, InfoRequest, ModelType,
    PredictPairRequest, PredictRequest, RerankRequest, RerankStreamRequest, TruncationDirection,
    embed_client::EmbedClient, info_client::InfoClient, predict_client::PredictClient, rerank_client::RerankClient,
    tokenize_client::TokenizeClient,
};
use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, Services, memory};
use isomer_stubs::promise::{promised, refusal};
use tonic::{Code, Request};

use crate::openai::tests::backends;

async fn channel() -> GrpcChannel {
    let services = super::add(Services::new(), &backends().await);
    memory::channel(services, &LimitsConfig::default()).await.unwrap()
}

/// A request to the encoder `one`.
fn to_one<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(super::ENCODER, "one".parse().unwrap());
    request
}

fn embed(text: &str) -> EmbedRequest {
    EmbedRequest {
        inputs: text.to_owned(),
        ..EmbedRequest::default()
    }
}

#[tokio::test]
async fn texts_become_vectors_one_by_one_and_in_streams() {
    let mut client = EmbedClient::new(channel().await);
    let answer = client.embed(to_one(embed("four"))).await.unwrap().into_inner();
    assert_eq!(answer.embeddings, [4.0, 1.0]);
    let metadata = answer.metadata.unwrap();
    assert_eq!((metadata.compute_chars, metadata.compute_tokens), (4, 7));
    assert!(metadata.total_time_ns > 0);
    let texts = ["a", "four", "a text of more than twenty letters", "bb"];
    let stream = client
        .embed_stream(to_one(futures::stream::iter(texts.map(embed))))
        .await
        .unwrap();
    let mut answers = stream.into_inner();
    for text in &texts[..2] {
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!(answer.embeddings, [text.len() as f32, 1.0]);
    }
    // A text that is too long is refused unless `truncate` is set, and ends the stream.
    let status = answers.message().await.unwrap_err();
    promised(
        "tei.EmbedRequest.truncate INVALID_ARGUMENT inputs",
        &Fault::from_status(&status),
    );
    assert!(answers.message().await.unwrap().is_none());
    let cut = EmbedRequest {
        truncate: true,
        truncation_direction: TruncationDirection::Left.into(),
        ..embed(texts[2])
    };
    assert_eq!(
        client.embed(to_one(cut)).await.unwrap().into_inner().embeddings[0],
        34.0
    );
    let unknown = EmbedRequest {
        truncate: true,
        truncation_direction: 9,
        ..embed("a")
    };
    let status = client.embed(to_one(unknown)).await.unwrap_err();
    assert_eq!(
        refusal(&Fault::from_status(&status)),
        "INVALID_ARGUMENT truncation_direction"
    );
    let tokens = EmbedAllRequest {
        inputs: "four".to_owned(),
        ..EmbedAllRequest::default()
    };
    let tokens = client.embed_all(to_one(tokens)).await.unwrap().into_inner();
    assert_eq!(tokens.token_embeddings[0].embeddings, [4.0, 1.0]);
    let sparse = EmbedSparseRequest {
        inputs: "four".to_owned(),
        ..EmbedSparseRequest::default()
    };
    let sparse = client.embed_sparse(to_one(sparse)).await.unwrap().into_inner();
    let entries: Vec<_> = sparse
        .sparse_embeddings
        .iter()
        .map(|one| (one.index, one.value))
        .collect();
    assert_eq!(entries, [(4, 0.5), (30_000, 4.0)]);
    assert_eq!(sparse.metadata.unwrap().compute_chars, 4);
}

#[tokio::test]
async fn an_encoder_that_nobody_named_is_asked_for_by_name() {
    let channel = channel().await;
    let status = EmbedClient::new(channel.clone())
        .embed(embed("four"))
        .await
        .unwrap_err();
    promised("tei.v1 INVALID_ARGUMENT isomer-encoder", &Fault::from_status(&status));
    let info = InfoClient::new(channel)
        .info(to_one(InfoRequest {}))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((info.model_id.as_str(), info.max_input_length), ("one", 128));
    assert_eq!(info.model_type(), ModelType::Embedding);
}

#[tokio::test]
async fn documents_are_ranked_whole_or_in_a_stream() {
    let mut client = RerankClient::new(channel().await);
    let request = RerankRequest {
        query: "q".to_owned(),
        texts: ["bb", "dddd"].map(str::to_owned).into(),
        return_text: true,
        ..RerankRequest::default()
    };
    let whole = client.rerank(to_one(request.clone())).await.unwrap().into_inner();
    let seen: Vec<_> = whole
        .ranks
        .iter()
        .map(|rank| (rank.index, rank.text.as_deref(), rank.score))
        .collect();
    assert_eq!(seen, [(1, Some("dddd"), 4.0), (0, Some("bb"), 2.0)]);
    let messages = [("q", "bb", true), ("", "dddd", false)].map(|(query, text, return_text)| RerankStreamRequest {
        query: query.to_owned(),
        text: text.to_owned(),
        return_text,
        ..RerankStreamRequest::default()
    });
    let streamed = client
        .rerank_stream(to_one(futures::stream::iter(messages)))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(streamed.ranks, whole.ranks);
    // The whole stream is held in memory, so its size is limited to that of one message.
    let large = RerankStreamRequest {
        text: "a".repeat(300_000),
        ..RerankStreamRequest::default()
    };
    let status = client
        .rerank_stream(to_one(futures::stream::iter(vec![large; 4])))
        .await
        .unwrap_err();
    assert!(status.message().contains("the most is 1048576"), "{status}");
    let raw = RerankRequest {
        raw_scores: true,
        ..request
    };
    let raw = client.rerank(to_one(raw)).await.unwrap().into_inner();
    assert_eq!(raw.ranks[0].score, 104.0);
}

#[tokio::test]
async fn pairs_are_labelled_and_single_texts_refused() {
    let mut client = PredictClient::new(channel().await);
    let pair = |texts: &[&str]| PredictPairRequest {
        inputs: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..PredictPairRequest::default()
    };
    let answer = client
        .predict_pair(to_one(pair(&["a", "bb"])))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (answer.predictions[0].score, answer.predictions[0].label.as_str()),
        (2.0, "LABEL_0")
    );
    let status = client.predict_pair(to_one(pair(&["a"]))).await.unwrap_err();
    assert!(status.message().contains("holds 1 texts"), "{status}");
    let status = client.predict(to_one(PredictRequest::default())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn tokens_are_told_and_read_back() {
    let mut client = TokenizeClient::new(channel().await);
    let request = EncodeRequest {
        inputs: "a bb".to_owned(),
        add_special_tokens: true,
        prompt_name: None,
    };
    let tokens = client.tokenize(to_one(request)).await.unwrap().into_inner().tokens;
    let seen: Vec<_> = tokens
        .iter()
        .map(|token| (token.id, token.text.as_str(), token.special, token.stop))
        .collect();
    assert_eq!(
        seen,
        [
            (100, "[CLS]", true, None),
            (1, "a", false, Some(1)),
            (2, "bb", false, Some(4))
        ]
    );
    let request = |id| DecodeRequest {
        ids: vec![100, id],
        skip_special_tokens: true,
    };
    let texts = client
        .decode_stream(to_one(futures::stream::iter([request(1), request(2)])))
        .await
        .unwrap();
    let mut texts = texts.into_inner();
    for expected in ["1", "2"] {
        assert_eq!(texts.message().await.unwrap().unwrap().text, expected);
    }
    let status = client.decode(to_one(request(13))).await.unwrap_err();
    assert_eq!(status.message(), "ids holds 13");
}
