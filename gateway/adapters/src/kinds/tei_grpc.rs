//! text-embeddings-inference over gRPC.
//!
//! Source: `proto/tei.proto` of <https://github.com/huggingface/text-embeddings-inference>, package
//! `tei.v1`. A call carries one text; the server forms batches of concurrent calls.

use isomer_proto::gateway::v1::ProviderKind;
use isomer_proto::tei::v1::{
    EmbedRequest, EmbedResponse, EmbedSparseRequest, EmbedSparseResponse, EncodeRequest, EncodeResponse, InfoRequest,
    InfoResponse, ModelType, RerankRequest, RerankResponse, TruncationDirection,
};
use isomer_service_kit::Fault;

use super::{
    kind::{Kind, foreign},
    tei::{self, Info},
};
use crate::{
    foreign::{Entries, Facts, Protocol, RerankOrder, Rows, Scores},
    grpc::Grpc,
    limits::{AnswerLimit, BatchLimit, Deadline},
    params::{Abilities, Cut, Params, Piece},
};

/// Texts in flight at once if the provider's limits do not say. Each text is a separate call, and
/// the server forms batches of them.
const AT_ONCE: usize = 32;

const ABILITIES: Abilities = Abilities {
    // A call carries one text.
    most_items: BatchLimit::of(1),
    at_once: AT_ONCE,
    ..tei::ABILITIES
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::TeiGrpc,
    grpc: true,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Ok(TeiGrpc(Grpc::new(target)?))),
};

#[derive(Debug)]
pub(super) struct TeiGrpc(Grpc);

impl TeiGrpc {
    async fn info(&self) -> Result<Info, Fault> {
        let info: InfoResponse = self
            .0
            .unary("/tei.v1.Info/Info", InfoRequest {}, AnswerLimit::FACTS, None)
            .await?;
        Ok(Info {
            served_as: info.model_id.clone(),
            reranks: info.model_type() == ModelType::Reranker,
            classifies: info.model_type() == ModelType::Classifier,
            splade: None,
            model: info.model_id,
            revision: info.model_sha.unwrap_or_default(),
            dtype: info.model_dtype,
            max_tokens: info.max_input_length,
            // This limit applies only to its HTTP interface.
            max_items: 0,
        })
    }
}

#[tonic::async_trait]
impl Protocol for TeiGrpc {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn facts(&self, model: &str) -> Result<Facts, Fault> {
        self.info().await?.facts(&self.0.target.id, model)
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let [text] = piece.texts()? else {
            return Err(Fault::internal("several texts for a call that carries one"));
        };
        let request = EmbedRequest {
            inputs: text.clone(),
            truncate: params.cut != Cut::Refuse,
            normalize: Some(params.normalise.unwrap_or(true)),
            truncation_direction: direction(params.cut),
            prompt_name: params.input_type.clone(),
            dimensions: params.dimensions,
        };
        let limit = AnswerLimit::vectors(1, facts.dimensions);
        let answer: EmbedResponse = self.0.unary("/tei.v1.Embed/Embed", request, limit, deadline).await?;
        Ok(Rows {
            tokens: answer.metadata.map(|metadata| metadata.compute_tokens.into()),
            vectors: vec![answer.embeddings],
            each: None,
        })
    }

    async fn embed_sparse(
        &self,
        params: &Params,
        piece: Piece<'_>,
        deadline: Deadline,
    ) -> Result<Rows<Entries>, Fault> {
        let [text] = piece.texts()? else {
            return Err(Fault::internal("several texts for a call that carries one"));
        };
        let request = EmbedSparseRequest {
            inputs: text.clone(),
            truncate: params.cut != Cut::Refuse,
            truncation_direction: direction(params.cut),
            prompt_name: params.input_type.clone(),
        };
        let limit = AnswerLimit::vectors(1, 0);
        let answer: EmbedSparseResponse = self
            .0
            .unary("/tei.v1.Embed/EmbedSparse", request, limit, deadline)
            .await?;
        let entries = answer.sparse_embeddings.iter().map(|entry| (entry.index, entry.value));
        Ok(Rows {
            tokens: answer.metadata.map(|metadata| metadata.compute_tokens.into()),
            vectors: vec![entries.collect()],
            each: None,
        })
    }

    async fn count(
        &self,
        _model: &str,
        input_type: Option<&str>,
        texts: &[String],
        deadline: Deadline,
    ) -> Result<Vec<u32>, Fault> {
        let limit = AnswerLimit::tokens(texts);
        let [text] = texts else {
            return Err(Fault::internal("several texts for a call that carries one"));
        };
        let request = EncodeRequest {
            inputs: text.clone(),
            add_special_tokens: true,
            prompt_name: input_type.map(ToOwned::to_owned),
        };
        let answer: EncodeResponse = self
            .0
            .unary("/tei.v1.Tokenize/Tokenize", request, limit, deadline)
            .await?;
        Ok(vec![u32::try_from(answer.tokens.len()).unwrap_or(u32::MAX)])
    }

    async fn rerank(&self, order: RerankOrder<'_>, deadline: Deadline) -> Result<Scores, Fault> {
        let request = RerankRequest {
            query: order.query.to_owned(),
            texts: order.documents.to_vec(),
            truncate: true,
            raw_scores: order.logits,
            ..RerankRequest::default()
        };
        let limit = AnswerLimit::scores(order.documents.len());
        let answer: RerankResponse = self.0.unary("/tei.v1.Rerank/Rerank", request, limit, deadline).await?;
        Ok(Scores {
            tokens: answer.metadata.map(|metadata| metadata.compute_tokens.into()),
            scores: answer
                .ranks
                .iter()
                .map(|rank| (rank.index as usize, rank.score))
                .collect(),
        })
    }

    fn rerank_in_pieces(&self) -> bool {
        true
    }

    fn gives_logits(&self) -> bool {
        true
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.info().await.map(drop)
    }
}

fn direction(cut: Cut) -> i32 {
    match cut {
        Cut::Head => TruncationDirection::Left.into(),
        _ => TruncationDirection::Right.into(),
    }
}
