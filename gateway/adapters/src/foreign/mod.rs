//! Providers that speak another protocol: what all of them have in common.

mod describe;
mod facts;
mod finish;
mod rerank;
mod traced;

use std::{collections::HashMap, fmt::Debug, time::Duration};

use isomer_proto::{
    common::v1::VectorSpace,
    encoder::v1::{
        CountTokensRequest, CountTokensResponse, EncodeRequest, EncodeResponse, Encoder, RerankRequest, RerankResponse,
    },
    gateway::v1::Provider,
};
use isomer_service_kit::{
    Fault,
    telemetry::gen_ai::{self, Operation},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::Code;

use crate::{
    EncoderBackend,
    ask::{Abilities, Ask, InputTypes, Items, Piece},
    limits::{Batches, Deadline, Most, ProviderLimiter},
    names::Names,
    target::Target,
};

pub(crate) use facts::Facts;
pub(crate) use finish::in_order;

use facts::KnownFacts;

/// How long a list waits for what a server says of its models.
const LISTED: Duration = Duration::from_secs(2);

/// What one protocol does its own way.
#[tonic::async_trait]
pub(crate) trait Protocol: Debug + Send + Sync + 'static {
    /// What it can say.
    fn abilities(&self) -> Abilities;

    /// What the server tells of a model.
    async fn facts(&self, _model: &str) -> Result<Facts, Fault> {
        Ok(Facts::default())
    }

    /// Vectors of one piece of a request.
    async fn embed(&self, ask: &Ask, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault>;

    /// Tokens of texts, special tokens included. The literal prompt is in front of them already.
    async fn count(
        &self,
        _model: &str,
        _input_type: Option<&str>,
        _texts: &[String],
        _deadline: Deadline,
    ) -> Result<Vec<u32>, Fault> {
        Err(unserved(self.abilities().kind, "does not count tokens"))
    }

    /// Scores of documents, in any order.
    async fn rerank(&self, _order: RerankOrder<'_>, _deadline: Deadline) -> Result<Scores, Fault> {
        Err(unserved(self.abilities().kind, "does not rerank"))
    }

    /// Whether documents may be scored in several requests: where a score depends on its document
    /// alone.
    fn rerank_in_pieces(&self) -> bool {
        false
    }

    /// Whether the server would answer.
    async fn healthy(&self) -> Result<(), Fault>;
}

fn unserved(kind: &str, what: &str) -> Fault {
    Fault::new(Code::Unimplemented, "NOT_IN_PROTOCOL", format!("{kind} {what}"))
        .field("encoder_id")
        .hint("ask another encoder")
}

/// Vectors of a piece, in its order.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) vectors: Vec<Vec<f32>>,
    /// Tokens of all of them.
    pub(crate) tokens: Option<u64>,
    /// Tokens of each.
    pub(crate) each: Option<Vec<u32>>,
}

impl Rows {
    /// Tokens of all of them, where the provider counts them at all.
    fn used(&self) -> Option<u64> {
        let sum = |each: &Vec<u32>| each.iter().map(|count| u64::from(*count)).sum();
        self.tokens.or_else(|| self.each.as_ref().map(sum))
    }
}

/// What to rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RerankOrder<'a> {
    pub(crate) model: &'a str,
    pub(crate) query: &'a str,
    pub(crate) documents: &'a [String],
    pub(crate) top_n: Option<u32>,
}

/// Index of a document and its score, and what that cost.
#[derive(Debug)]
pub(crate) struct Scores {
    pub(crate) scores: Vec<(usize, f32)>,
    pub(crate) tokens: Option<u64>,
}

/// A protocol behind the interface.
#[derive(Debug)]
pub(crate) struct Foreign {
    id: String,
    protocol: Box<dyn Protocol>,
    names: Names,
    input_types: HashMap<String, String>,
    batches: Batches,
    pace: ProviderLimiter,
    /// Longest that a call may take.
    timeout: Duration,
    /// The provider that answers, for spans.
    provider: gen_ai::Provider,
    facts: KnownFacts,
    shapes: Mutex<HashMap<(String, Option<u32>), Shape>>,
    /// That of the last answer: mostly the next one's too, and its digest takes longer than the
    /// comparison.
    last_space: Mutex<VectorSpace>,
}

/// What the vectors of a model are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    dimensions: u32,
    /// Whether they are of unit length as the provider gives them.
    unit: bool,
}

impl Foreign {
    /// `target` is where the provider is.
    pub(crate) fn new(provider: &Provider, protocol: Box<dyn Protocol>, target: &Target) -> Result<Self, Fault> {
        let timeout = target.timeout;
        let abilities = protocol.abilities();
        let names = Names::new(&provider.encoders)?;
        if names.is_open() {
            return Err(Fault::invalid("provider.encoders", "is empty").hint(
                "name the encoders to offer and the models behind them, e.g. my-encoder = \"text-embedding-3-small\"",
            ));
        }
        if abilities.input_types == InputTypes::None && !provider.input_types.is_empty() {
            return Err(Fault::invalid(
                "provider.input_types",
                format!("{} knows no kinds of input", abilities.kind),
            )
            .hint("leave it out; clients can give literal_prompt"));
        }
        if abilities.input_types == InputTypes::Required && provider.input_types.is_empty() {
            return Err(Fault::invalid(
                "provider.input_types",
                format!("is empty, and {} needs a kind of input with every text", abilities.kind),
            )
            .hint("map prompt names to its kinds; the entry \"\" is for requests that name none"));
        }
        if let Some((name, _)) = provider
            .input_types
            .iter()
            .find(|(_, input_type)| input_type.is_empty())
        {
            return Err(Fault::invalid(format!("provider.input_types[{name:?}]"), "is empty")
                .hint("give the provider's word for it"));
        }
        Ok(Self {
            id: provider.id.clone(),
            names,
            input_types: provider.input_types.clone(),
            batches: Batches::new(provider.limits.as_ref(), abilities.at_once),
            pace: ProviderLimiter::new(&provider.id, provider.limits.as_ref(), timeout)?,
            timeout,
            provider: gen_ai::Provider::server(abilities.kind, target.host(), target.port()),
            facts: KnownFacts::default(),
            shapes: Mutex::default(),
            last_space: Mutex::default(),
            protocol,
        })
    }

    fn shape(&self, identity: &str, dimensions: Option<u32>) -> Option<Shape> {
        let shapes = self.shapes.lock();
        shapes.get(&(identity.to_owned(), dimensions)).copied()
    }

    /// Remembers what a model's vectors are like by default.
    fn keep(&self, identity: &str, shape: Shape) {
        let mut shapes = self.shapes.lock();
        shapes.insert((identity.to_owned(), None), shape);
    }

    /// The provider's limits and those of the protocol, which for texts to encode and for documents
    /// to rank may differ.
    fn batches(&self, most: Most, facts: &Facts) -> Batches {
        Batches {
            items: self.batches.items.and(most).and(Most::of(facts.max_items)),
            tokens: self.batches.tokens.and(self.protocol.abilities().most_tokens),
            ..self.batches
        }
    }

    /// Vectors of all items, in their order, with what they cost.
    async fn rows(
        &self,
        ask: &Ask,
        items: &Items,
        facts: &Facts,
        deadline: Deadline,
    ) -> Result<(Vec<Vec<f32>>, Cost), Fault> {
        let sizes = items.sizes();
        let batches = self.batches(self.protocol.abilities().most_items, facts);
        let answers = batches.each(batches.cut(&sizes), |range| {
            let sizes = &sizes[range.clone()];
            async move {
                let estimated = sizes.iter().sum();
                let _place = self.pace.turn(estimated, deadline).await?;
                let piece = items.piece(range);
                let embedding = self.protocol.embed(ask, piece, facts, deadline);
                let mut rows = self
                    .traced(Operation::Embeddings, &ask.model, embedding, Rows::used)
                    .await?;
                if rows.vectors.len() != piece.len() {
                    let what = format!("{} vectors for {} texts", rows.vectors.len(), piece.len());
                    return Err(crate::rest::bad_answer(&self.id, what));
                }
                let each = rows.each.take().filter(|each| each.len() == piece.len());
                let exact = each
                    .as_ref()
                    .map(|each| each.iter().map(|count| u64::from(*count)).sum());
                let tokens = rows.tokens.or(exact);
                let cost = Cost {
                    tokens: tokens.unwrap_or(estimated),
                    estimated: tokens.is_none(),
                    each: each.unwrap_or_else(|| match (tokens, sizes) {
                        (Some(tokens), [_]) => vec![number(tokens)],
                        _ => sizes.iter().map(|size| number(*size)).collect(),
                    }),
                };
                Ok((rows.vectors, cost))
            }
        });
        let mut vectors = Vec::with_capacity(sizes.len());
        let mut whole = Cost::default();
        for (rows, cost) in answers.await? {
            vectors.extend(rows);
            whole.tokens += cost.tokens;
            whole.estimated |= cost.estimated;
            whole.each.extend(cost.each);
        }
        Ok((vectors, whole))
    }
}

/// What vectors cost.
#[derive(Debug, Default)]
struct Cost {
    tokens: u64,
    estimated: bool,
    /// Tokens of each text; estimates where the provider counts whole requests.
    each: Vec<u32>,
}

fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[tonic::async_trait]
impl EncoderBackend for Foreign {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        let described = self.names.each().map(|(id, model)| async move {
            // What cannot be told now is left out; a server that is down still offers what it
            // offers.
            let deadline = Some(Instant::now() + LISTED);
            let facts = self.facts(model, deadline).await.unwrap_or_default();
            self.describe(id, model, &facts)
        });
        Ok(futures::future::join_all(described).await)
    }

    async fn get(&self, encoder_id: &str) -> Result<Encoder, Fault> {
        let model = self.names.theirs(encoder_id)?;
        let facts = self.facts(&model, None).await?;
        self.measure(&model, &facts).await?;
        Ok(self.describe(encoder_id, &model, &facts))
    }

    async fn encode(&self, request: EncodeRequest, deadline: Deadline) -> Result<EncodeResponse, Fault> {
        let arrived = Instant::now();
        let abilities = self.protocol.abilities();
        let model = self.names.theirs(&request.encoder_id)?;
        let ask = abilities.read(model, &request, &self.input_types)?;
        let items = abilities.items(request.inputs, &ask.literal)?;
        let facts = self.facts(&ask.model, deadline).await?;
        self.check_normalise(&ask, &facts)?;
        let (vectors, cost) = self.rows(&ask, &items, &facts, deadline).await?;
        self.finish(&ask, &facts, vectors, cost, arrived)
    }

    async fn count_tokens(
        &self,
        request: CountTokensRequest,
        deadline: Deadline,
    ) -> Result<CountTokensResponse, Fault> {
        let model = self.names.theirs(&request.encoder_id)?;
        let abilities = self.protocol.abilities();
        let (input_type, literal) = abilities.prompt(request.prompt.as_ref().into(), &self.input_types)?;
        let facts = self.facts(&model, deadline).await?;
        let texts: Vec<String> = request.texts.iter().map(|text| format!("{literal}{text}")).collect();
        let (batches, model, input_type, texts) = (
            self.batches(abilities.most_items, &facts),
            &model,
            input_type.as_deref(),
            &texts,
        );
        let pieces = batches.cut(&vec![0; texts.len()]);
        let counts = batches.each(pieces, |range| async move {
            let _place = self.pace.turn(0, deadline).await?;
            let piece = &texts[range];
            let counts = self.protocol.count(model, input_type, piece, deadline).await?;
            if counts.len() != piece.len() {
                let what = format!("{} counts for {} texts", counts.len(), piece.len());
                return Err(crate::rest::bad_answer(&self.id, what));
            }
            Ok(counts)
        });
        let counts = counts.await?.concat();
        Ok(CountTokensResponse {
            token_counts: counts,
            max_tokens: facts.max_tokens,
        })
    }

    async fn rerank(&self, request: RerankRequest, deadline: Deadline) -> Result<RerankResponse, Fault> {
        let model = self.names.theirs(&request.encoder_id)?;
        let facts = self.facts(&model, deadline).await?;
        self.ranked(&model, &facts, request, deadline).await
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.protocol.healthy().await
    }
}
