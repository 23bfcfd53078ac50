//! Describes models that third parties run.

use isomer_proto::{
    common::v1::{Dtype, Similarity},
    encoder::v1::{Capability, Encoder},
};
use isomer_service_kit::Fault;

use super::{Facts, Foreign, Shape};
use crate::ask::{Ask, Cut, Items, Prompt};

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
    fn by_default(&self, model: &str) -> Option<Ask> {
        let (input_type, literal) = self
            .protocol
            .abilities()
            .prompt(Prompt::Default, &self.input_types)
            .ok()?;
        Some(Ask {
            model: model.to_owned(),
            input_type,
            literal,
            cut: Cut::AsItIs,
            dimensions: None,
            normalise: None,
            dtype: Dtype::F32,
        })
    }

    /// Learns the properties of a model's vectors from one short text, unless they are known.
    pub(super) async fn measure(&self, model: &str, facts: &Facts) -> Result<(), Fault> {
        if Self::reranks(model, facts) || self.shape(&self.identity(model, facts), None).is_some() {
            return Ok(());
        }
        let mut first = self.input_types.iter().min();
        let ask = match self.by_default(model) {
            Some(ask) => ask,
            None => Ask {
                model: model.to_owned(),
                input_type: first.take().map(|(_, input_type)| input_type.clone()),
                literal: String::new(),
                cut: Cut::AsItIs,
                dimensions: None,
                normalise: None,
                dtype: Dtype::F32,
            },
        };
        let items = Items::Texts(vec![SAMPLE.to_owned()]);
        let (rows, _) = self.rows(&ask, &items, facts, None).await?;
        let shape = self.learn(&ask, facts, &rows)?;
        self.keep(&self.identity(model, facts), shape);
        Ok(())
    }

    /// Sorted names of the kinds of input that requests may use as prompts.
    fn prompt_names(&self, reranks: bool) -> Vec<String> {
        let named = self.input_types.keys().filter(|name| !name.is_empty() && !reranks);
        let mut names: Vec<String> = named.cloned().collect();
        names.sort_unstable();
        names
    }

    pub(super) fn describe(&self, id: &str, model: &str, facts: &Facts) -> Encoder {
        let reranks = Self::reranks(model, facts);
        let shape = self.shape(&self.identity(model, facts), None).filter(|_| !reranks);
        let vector_space = match (shape, self.by_default(model)) {
            (Some(shape), Some(ask)) => Some(self.space(&ask, facts, shape, false)),
            _ => None,
        };
        Encoder {
            id: id.to_owned(),
            revision: facts.revision.clone(),
            vector_space,
            dimensions: match (reranks, shape) {
                (true, _) => 0,
                (false, Some(Shape { dimensions, .. })) => dimensions,
                (false, None) => facts.dimensions,
            },
            max_tokens: facts.max_tokens,
            similarity: if reranks {
                Similarity::Unspecified
            } else {
                Similarity::Cosine
            }
            .into(),
            normalises: shape.is_some_and(|shape| shape.unit),
            dtypes: match reranks {
                true => Vec::new(),
                false => [Dtype::F32, Dtype::F16, Dtype::Ubinary].map(i32::from).to_vec(),
            },
            capabilities: vec![if reranks { Capability::Rerank } else { Capability::Dense }.into()],
            architecture: facts.architecture.clone(),
            prompt_names: self.prompt_names(reranks),
            ..Encoder::default()
        }
    }
}
