//! The common part of providers with other protocols.

mod describe;
mod facts;
mod finish;
mod rerank;
mod sparse;
mod traced;

use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    time::Duration,
};

use futures::future::BoxFuture;
use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    encoder::v1::{
        CountTokensRequest, CountTokensResponse, EncodeRequest, EncodeResponse, Encoder, RerankRequest, RerankResponse,
    },
    gateway::v1::Provider,
};
use isomer_service_kit::{
    Fault,
    telemetry::gen_ai::{self, Operation},
};
use isomer_usage::sum;
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::Code;

use crate::{
    EncoderBackend, estimate,
    limits::{BatchLimit, Batches, Deadline, ProviderLimiter},
    names::Names,
    params::{Abilities, InputTypes, Items, Params, Piece},
    target::Target,
};

pub(crate) use facts::{Facts, TensorNames};
pub(crate) use finish::in_order;

use facts::KnownFacts;

/// How long a list waits for a server's facts about its models.
const LISTED: Duration = Duration::from_secs(2);

/// The protocol-specific part of a provider.
#[tonic::async_trait]
pub(crate) trait Protocol: Debug + Send + Sync + 'static {
    fn abilities(&self) -> Abilities;

    /// The server's facts about a model.
    async fn facts(&self, _model: &str) -> Result<Facts, Fault> {
        Ok(Facts::default())
    }

    /// Vectors of one part of a request.
    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault>;

    /// Sparse vectors of one part of a request.
    async fn embed_sparse(
        &self,
        _params: &Params,
        _piece: Piece<'_>,
        _deadline: Deadline,
    ) -> Result<Rows<Entries>, Fault> {
        Err(unserved(self.abilities().kind, "gives no sparse vectors"))
    }

    /// Tokens of texts, special tokens included. The literal prompt has been prepended.
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

    /// Whether documents may be scored in several requests. They may if a score depends only on its
    /// document.
    fn rerank_in_pieces(&self) -> bool {
        false
    }

    /// Whether scores can be the logits of the model. They are from 0 to 1 otherwise.
    fn gives_logits(&self) -> bool {
        false
    }

    /// Whether the server is healthy.
    async fn healthy(&self) -> Result<(), Fault>;
}

fn unserved(kind: &str, what: &str) -> Fault {
    Fault::new(Code::Unimplemented, "NOT_IN_PROTOCOL", format!("{kind} {what}"))
        .field("encoder_id")
        .hint("ask another encoder")
}

/// The entries of a sparse vector, in any order: index and weight.
pub(crate) type Entries = Vec<(u32, f32)>;

/// Vectors of a part, in its order.
#[derive(Debug)]
pub(crate) struct Rows<V = Vec<f32>> {
    pub(crate) vectors: Vec<V>,
    /// Total number of tokens of all texts.
    pub(crate) tokens: Option<u64>,
    /// Tokens of each text.
    pub(crate) each: Option<Vec<u32>>,
}

impl<V> Rows<V> {
    /// Total number of tokens of all texts, if the provider counts them.
    fn used(&self) -> Option<u64> {
        let sum = |each: &Vec<u32>| each.iter().map(|count| u64::from(*count)).sum();
        self.tokens.or_else(|| self.each.as_ref().map(sum))
    }
}

/// A request to rank documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RerankOrder<'a> {
    pub(crate) model: &'a str,
    pub(crate) query: &'a str,
    pub(crate) documents: &'a [String],
    pub(crate) top_n: Option<u32>,
    /// Whether scores are logits, and not from 0 to 1.
    pub(crate) logits: bool,
}

/// Indices of documents with their scores, and the usage.
#[derive(Debug)]
pub(crate) struct Scores {
    pub(crate) scores: Vec<(usize, f32)>,
    pub(crate) tokens: Option<u64>,
}

/// A provider behind its protocol.
#[derive(Debug)]
pub(crate) struct Foreign {
    id: String,
    protocol: Box<dyn Protocol>,
    names: Names,
    input_types: HashMap<String, String>,
    batches: Batches,
    limiter: ProviderLimiter,
    /// Maximum duration of a call.
    timeout: Duration,
    /// The provider as spans name it.
    provider: gen_ai::Provider,
    facts: KnownFacts,
    shapes: Mutex<HashMap<(String, Option<u32>), Shape>>,
    /// Models that gave a sparse vector and no dense one when they were measured.
    sparse_only: Mutex<HashSet<String>>,
    /// Requested numbers of dimensions that a model ignored, by model.
    ignored_dimensions: Mutex<HashMap<(String, u32), u32>>,
    /// The vector space of the last answer. The next answer usually has the same one, and computing
    /// its digest takes longer than comparing.
    last_space: Mutex<VectorSpace>,
}

/// Properties of a model's vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    dimensions: u32,
    /// Whether the provider's vectors are of unit length.
    unit: bool,
}

impl Foreign {
    /// `target` is the provider's address with its settings.
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
                format!("{} has no kinds of input", abilities.kind),
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
            limiter: ProviderLimiter::new(&provider.id, provider.limits.as_ref(), timeout)?,
            timeout,
            provider: gen_ai::Provider::server(abilities.kind, target.host(), target.port()),
            facts: KnownFacts::default(),
            shapes: Mutex::default(),
            sparse_only: Mutex::default(),
            ignored_dimensions: Mutex::default(),
            last_space: Mutex::default(),
            protocol,
        })
    }

    fn shape(&self, identity: &str, dimensions: Option<u32>) -> Option<Shape> {
        let shapes = self.shapes.lock();
        shapes.get(&(identity.to_owned(), dimensions)).copied()
    }

    /// Stores the properties of a model's default vectors.
    fn keep(&self, identity: &str, shape: Shape) {
        let mut shapes = self.shapes.lock();
        shapes.insert((identity.to_owned(), None), shape);
    }

    /// The limits of the provider and of the protocol. They may differ between texts to encode and
    /// documents to rank.
    fn batches(&self, most: BatchLimit, facts: &Facts) -> Batches {
        Batches {
            items: self.batches.items.and(most).and(BatchLimit::of(facts.max_items)),
            tokens: self.batches.tokens.and(self.protocol.abilities().most_tokens),
            ..self.batches
        }
    }

    /// Dense vectors of all items, in their order, with their cost.
    async fn rows(&self, call: Call<'_>, items: &Items) -> Result<(Vec<Vec<f32>>, Cost), Fault> {
        let Call {
            params,
            facts,
            deadline,
        } = call;
        self.gathered(call, items, |piece| self.protocol.embed(params, piece, facts, deadline))
            .await
    }

    /// Vectors of all items, in their order, with their cost. `embed` makes those of a part.
    async fn gathered<'a, V>(
        &self,
        call: Call<'_>,
        items: &'a Items,
        embed: impl Fn(Piece<'a>) -> BoxFuture<'a, Result<Rows<V>, Fault>>,
    ) -> Result<(Vec<V>, Cost), Fault> {
        let Call {
            params,
            facts,
            deadline,
        } = call;
        let embed = &embed;
        let sizes = items.sizes();
        let batches = self.batches(self.protocol.abilities().most_items, facts);
        let answers = batches.each(batches.cut(&sizes), |range| {
            let sizes = &sizes[range.clone()];
            async move {
                let estimate = estimate::usage(sizes);
                let _permit = self.limiter.turn(estimate.tokens, deadline).await?;
                let piece = items.piece(range);
                let (mut rows, usage) = self
                    .traced(Operation::Embeddings, &params.model, estimate, embed(piece), Rows::used)
                    .await?;
                if rows.vectors.len() != piece.len() {
                    let what = format!("{} vectors for {} texts", rows.vectors.len(), piece.len());
                    return Err(crate::rest::bad_answer(&self.id, what));
                }
                let each = rows.each.take().filter(|each| each.len() == piece.len());
                let each = each.unwrap_or_else(|| match sizes {
                    [_] => vec![number(usage.tokens)],
                    _ => sizes.iter().map(|size| number(*size)).collect(),
                });
                Ok((rows.vectors, Cost { usage, each }))
            }
        });
        let mut vectors = Vec::with_capacity(sizes.len());
        let mut whole = Cost::default();
        for (rows, cost) in answers.await? {
            vectors.extend(rows);
            sum::add(&mut whole.usage, &cost.usage);
            whole.each.extend(cost.each);
        }
        Ok((vectors, whole))
    }
}

/// A request for vectors, with the facts that it depends on.
#[derive(Debug, Clone, Copy)]
struct Call<'a> {
    params: &'a Params,
    facts: &'a Facts,
    deadline: Deadline,
}

#[derive(Debug, Default)]
struct Cost {
    usage: Usage,
    /// Tokens of each text; estimates if the provider counts only whole requests.
    each: Vec<u32>,
}

fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[tonic::async_trait]
impl EncoderBackend for Foreign {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        let described = self.names.each().map(|(id, model)| async move {
            // Facts that cannot be read in time are left out, so the encoders of an unavailable
            // server stay listed.
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
        let params = abilities.read(model, &request, &self.input_types)?;
        let items = abilities.items(request.inputs, &params.literal)?;
        let facts = self.facts(&params.model, deadline).await?;
        self.check_known(&params, &facts)?;
        let call = Call {
            params: &params,
            facts: &facts,
            deadline,
        };
        match params.sparse {
            Some(_) => Ok(self.finish_sparse(call, self.entries(call, &items).await?, arrived)),
            None => {
                let (vectors, cost) = self.rows(call, &items).await?;
                self.finish(&params, &facts, vectors, cost, arrived)
            }
        }
    }

    async fn count_tokens(
        &self,
        request: CountTokensRequest,
        deadline: Deadline,
    ) -> Result<CountTokensResponse, Fault> {
        let model = self.names.theirs(&request.encoder_id)?;
        let abilities = self.protocol.abilities();
        if !abilities.counts {
            return Err(unserved(abilities.kind, "does not count tokens"));
        }
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
            let _permit = self.limiter.turn(0, deadline).await?;
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
        let abilities = self.protocol.abilities();
        if !abilities.reranks {
            return Err(unserved(abilities.kind, "does not rerank"));
        }
        let facts = self.facts(&model, deadline).await?;
        self.ranked(&model, &facts, request, deadline).await
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.protocol.healthy().await
    }
}
