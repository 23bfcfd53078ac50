//! Describes models that third parties run.

use isomer_proto::{
    common::v1::{Dtype, Similarity},
    encoder::v1::{Capability, Encoder},
};
use isomer_service_kit::Fault;

use super::{Call, Facts, Foreign, Shape};
use crate::{
    answered::answered,
    params::{Cut, Items, Params, Prompt},
};

/// Text whose vector shows a model's number of dimensions if no description gives it.
const SAMPLE: &str = "isomer";

impl Foreign {
    /// Whether a model scores pairs. If the server does not report it, the name decides: at all
    /// providers with both kinds, the names of rerankers say so.
    pub(super) fn reranks(model: &str, facts: &Facts) -> bool {
        facts
            .reranks
            .unwrap_or_else(|| model.to_ascii_lowercase().contains("rerank"))
    }

    /// A request for vectors with default settings; `None` if the protocol requires a kind of input
    /// and no default exists.
    fn by_default(&self, model: &str) -> Option<Params> {
        let (input_type, literal) = self
            .protocol
            .abilities()
            .prompt(Prompt::Default, &self.input_types)
            .ok()?;
        Some(Params {
            model: model.to_owned(),
            input_type,
            literal,
            cut: Cut::AsItIs,
            dimensions: None,
            normalise: None,
            dtype: Dtype::F32,
            sparse: None,
        })
    }

    /// Learns the properties of a model's vectors from one short text, unless they are known.
    pub(super) async fn measure(&self, model: &str, facts: &Facts) -> Result<(), Fault> {
        if Self::reranks(model, facts)
            || self.is_sparse(model, facts)
            || self.shape(&self.identity(model, facts), None).is_some()
        {
            return Ok(());
        }
        let mut first = self.input_types.iter().min();
        let params = match self.by_default(model) {
            Some(params) => params,
            None => Params {
                model: model.to_owned(),
                input_type: first.take().map(|(_, input_type)| input_type.clone()),
                literal: String::new(),
                cut: Cut::AsItIs,
                dimensions: None,
                normalise: None,
                dtype: Dtype::F32,
                sparse: None,
            },
        };
        let items = Items::Texts(vec![SAMPLE.to_owned()]);
        let call = |params| Call {
            params,
            facts,
            deadline: None,
        };
        let dense = match self.rows(call(&params), &items).await {
            Ok((rows, _)) => self.learn(&params, facts, &rows),
            Err(fault) => Err(fault),
        };
        let identity = self.identity(model, facts);
        match dense {
            Ok(shape) => self.keep(&identity, shape),
            Err(fault) if !(self.protocol.abilities().sparse && answered(&fault)) => return Err(fault),
            // The server does not say which vectors its model gives.
            Err(fault) => {
                let params = Params {
                    sparse: Some(usize::MAX),
                    ..params.clone()
                };
                self.entries(call(&params), &items).await.map_err(|_| fault)?;
                self.sparse_only.lock().insert(identity);
            }
        }
        Ok(())
    }

    /// Whether a model gives sparse vectors, and no dense ones.
    fn is_sparse(&self, model: &str, facts: &Facts) -> bool {
        let measured = || self.sparse_only.lock().contains(&self.identity(model, facts));
        facts.sparse.unwrap_or_else(measured)
    }

    /// Sorted names of the kinds of input that requests may use as prompts.
    fn prompt_names(&self, reranks: bool) -> Vec<String> {
        let named = self.input_types.keys().filter(|name| !name.is_empty() && !reranks);
        let mut names: Vec<String> = named.cloned().collect();
        names.sort_unstable();
        names
    }

    pub(super) fn describe(&self, id: &str, model: &str, facts: &Facts) -> Encoder {
        let (capability, shape) = match () {
            () if Self::reranks(model, facts) => (Capability::Rerank, None),
            () if self.is_sparse(model, facts) => (Capability::Sparse, None),
            () => (Capability::Dense, self.shape(&self.identity(model, facts), None)),
        };
        let dense = capability == Capability::Dense;
        let vector_space = match (shape, self.by_default(model)) {
            (Some(shape), Some(params)) => Some(self.space(&params, facts, shape, false)),
            _ => None,
        };
        Encoder {
            id: id.to_owned(),
            revision: facts.revision.clone(),
            vector_space,
            dimensions: match (dense, shape) {
                (false, _) => 0,
                (true, Some(Shape { dimensions, .. })) => dimensions,
                (true, None) => facts.dimensions,
            },
            max_tokens: facts.max_tokens,
            similarity: match capability {
                Capability::Dense => Similarity::Cosine,
                Capability::Sparse => Similarity::Dot,
                _ => Similarity::Unspecified,
            }
            .into(),
            normalises: shape.is_some_and(|shape| shape.unit),
            dtypes: match dense {
                true => [Dtype::F32, Dtype::F16, Dtype::Ubinary].map(i32::from).to_vec(),
                false => Vec::new(),
            },
            capabilities: vec![capability.into()],
            architecture: facts.architecture.clone(),
            prompt_names: self.prompt_names(capability == Capability::Rerank),
            ..Encoder::default()
        }
    }
}
