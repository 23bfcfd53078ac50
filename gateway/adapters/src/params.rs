//! A request in the form that other protocols can express.

use std::collections::HashMap;

use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, Input, Output, Truncation, count_tokens_request, encode_request, input},
};
use isomer_service_kit::{Fault, choice, max_active_dimensions, outputs, without_dense};
use tonic::Code;

use crate::{estimate, limits::BatchLimit};

/// Concurrent parts of one request, unless the provider's limits or its protocol set another
/// number.
pub(crate) const AT_ONCE: usize = 8;

/// The abilities of a protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Abilities {
    /// The protocol's name in vector spaces and errors, e.g. `cohere`.
    pub(crate) kind: &'static str,
    pub(crate) input_types: InputTypes,
    /// The options for texts that are too long.
    pub(crate) cuts: &'static [Cut],
    /// Whether fewer columns can be requested.
    pub(crate) dimensions: bool,
    /// Whether token ids can be sent in place of texts.
    pub(crate) token_ids: bool,
    /// Whether it counts tokens.
    pub(crate) counts: bool,
    /// Whether it gives sparse vectors.
    pub(crate) sparse: bool,
    /// Whether it sorts documents by their relevance to a query.
    pub(crate) reranks: bool,
    /// Maximum number of texts per request in the protocol.
    pub(crate) most_items: BatchLimit,
    /// Maximum number of tokens per request in the protocol.
    pub(crate) most_tokens: BatchLimit,
    /// Maximum number of documents to rank per request in the protocol.
    pub(crate) most_documents: BatchLimit,
    /// Concurrent parts of one request, unless the provider's limits set another number.
    pub(crate) at_once: usize,
}

/// Whether a protocol has kinds of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputTypes {
    /// The protocol has none.
    None,
    /// A kind may be given.
    Optional,
    /// A kind must be given.
    Required,
}

/// The handling of a text that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server's default, for a protocol without this option when the caller did not choose one.
    AsItIs,
    Refuse,
    /// Cut the beginning.
    Head,
    /// Cut the end.
    Tail,
}

/// A parsed request.
#[derive(Debug, Clone)]
pub(crate) struct Params {
    /// The model's name at the provider.
    pub(crate) model: String,
    /// The provider's word for the kind of input.
    pub(crate) input_type: Option<String>,
    /// The prompt that this gateway prepends to each text.
    pub(crate) literal: String,
    pub(crate) cut: Cut,
    pub(crate) dimensions: Option<u32>,
    pub(crate) normalise: Option<bool>,
    pub(crate) dtype: Dtype,
    /// Maximum number of entries of each sparse vector; `None` for dense vectors.
    pub(crate) sparse: Option<usize>,
}

/// The items to encode.
#[derive(Debug)]
pub(crate) enum Items {
    /// Texts, with the literal prompt prepended.
    Texts(Vec<String>),
    Tokens(Vec<Vec<u32>>),
}

/// A part of [`Items`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece<'a> {
    Texts(&'a [String]),
    Tokens(&'a [Vec<u32>]),
}

pub(crate) enum Prompt<'a> {
    Default,
    Named(&'a str),
    Literal(&'a str),
}

impl<'a> From<Option<&'a encode_request::Prompt>> for Prompt<'a> {
    fn from(prompt: Option<&'a encode_request::Prompt>) -> Self {
        match prompt {
            None => Self::Default,
            Some(encode_request::Prompt::PromptName(name)) if name.is_empty() => Self::Default,
            Some(encode_request::Prompt::PromptName(name)) => Self::Named(name),
            Some(encode_request::Prompt::LiteralPrompt(text)) => Self::Literal(text),
        }
    }
}

impl<'a> From<Option<&'a count_tokens_request::Prompt>> for Prompt<'a> {
    fn from(prompt: Option<&'a count_tokens_request::Prompt>) -> Self {
        match prompt {
            None => Self::Default,
            Some(count_tokens_request::Prompt::PromptName(name)) if name.is_empty() => Self::Default,
            Some(count_tokens_request::Prompt::PromptName(name)) => Self::Named(name),
            Some(count_tokens_request::Prompt::LiteralPrompt(text)) => Self::Literal(text),
        }
    }
}

impl Abilities {
    fn unserved(&self, field: &str, message: String, hint: &str) -> Fault {
        Fault::new(Code::Unimplemented, "NOT_IN_PROTOCOL", message)
            .field(field)
            .hint(hint)
            .with("kind", self.kind)
    }

    /// Reads everything of a request except the items.
    pub(crate) fn read(
        &self,
        model: String,
        request: &EncodeRequest,
        input_types: &HashMap<String, String>,
    ) -> Result<Params, Fault> {
        let sparse = self.sparse(request)?;
        if request.dimensions == Some(0) {
            return Err(Fault::invalid("dimensions", "0 is not permitted").hint("give at least 1, or leave it out"));
        }
        if request.dimensions.is_some() && !self.dimensions {
            let message = format!("{} cannot be asked for fewer columns", self.kind);
            return Err(self.unserved("dimensions", message, "leave it out"));
        }
        let (input_type, literal) = self.prompt(request.prompt.as_ref().into(), input_types)?;
        Ok(Params {
            model,
            input_type,
            literal,
            cut: self.cut(request.truncation)?,
            dimensions: request.dimensions,
            normalise: request.normalise,
            dtype: self.dtype(request.output_dtype)?,
            sparse,
        })
    }

    /// Maximum number of entries of each sparse vector; `None` for dense vectors.
    fn sparse(&self, request: &EncodeRequest) -> Result<Option<usize>, Fault> {
        let results = outputs(request.output, &request.outputs)?;
        let most = max_active_dimensions(request.max_active_dimensions, &results)?;
        match results.as_slice() {
            [Output::TextVector] => return Ok(None),
            [Output::Sparse] if self.sparse => {
                without_dense(request)?;
                return Ok(Some(most));
            }
            _ => {}
        }
        let field = match request.outputs.as_slice() {
            [] => "output",
            _ => "outputs",
        };
        let (given, hint) = match self.sparse {
            true => (
                "one dense or one sparse vector per text",
                "ask for OUTPUT_TEXT_VECTOR alone, or for OUTPUT_SPARSE alone",
            ),
            false => ("one dense vector per text", "ask for OUTPUT_TEXT_VECTOR alone"),
        };
        Err(self.unserved(field, format!("{} gives {given}", self.kind), hint))
    }

    fn cut(&self, truncation: i32) -> Result<Cut, Fault> {
        let cut = match choice("truncation", truncation)? {
            Some(Truncation::Error) => Cut::Refuse,
            Some(Truncation::Head) => Cut::Head,
            Some(Truncation::Tail) => Cut::Tail,
            _ if self.cuts.contains(&Cut::Tail) => return Ok(Cut::Tail),
            _ => return Ok(Cut::AsItIs),
        };
        if self.cuts.contains(&cut) {
            return Ok(cut);
        }
        let can: Vec<&str> = self.cuts.iter().map(|cut| cut.name()).collect();
        let hint = match can.as_slice() {
            [] => "leave it out: the server applies its default".to_owned(),
            can => format!("leave it out, or ask for {}", can.join(" or ")),
        };
        Err(self.unserved(
            "truncation",
            format!("{} cannot be asked for {}", self.kind, cut.name()),
            &hint,
        ))
    }

    fn dtype(&self, dtype: i32) -> Result<Dtype, Fault> {
        match choice("output_dtype", dtype)?.unwrap_or(Dtype::F32) {
            Dtype::Int8 => {
                let message = format!("{} does not return calibrated 8-bit integers", self.kind);
                Err(self.unserved("output_dtype", message, "ask for DTYPE_F32, DTYPE_F16 or DTYPE_UBINARY"))
            }
            dtype => Ok(dtype),
        }
    }

    /// The provider's kind of input, and the literal prompt.
    pub(crate) fn prompt(
        &self,
        prompt: Prompt<'_>,
        input_types: &HashMap<String, String>,
    ) -> Result<(Option<String>, String), Fault> {
        let default = || input_types.get("").cloned();
        let (input_type, literal) = match prompt {
            Prompt::Default => (default(), String::new()),
            Prompt::Named(name) => match input_types.get(name) {
                Some(input_type) => (Some(input_type.clone()), String::new()),
                None => return Err(unknown_prompt(name, input_types)),
            },
            // The caller's own prompt replaces any other. If a kind of input is required, the
            // default kind is used.
            Prompt::Literal(text) if self.input_types == InputTypes::Required => (default(), text.to_owned()),
            Prompt::Literal(text) => (None, text.to_owned()),
        };
        if input_type.is_none() && self.input_types == InputTypes::Required {
            return Err(Fault::invalid(
                "prompt_name",
                format!(
                    "{} needs a kind of input with every text, and the request names none",
                    self.kind
                ),
            )
            .hint("name a prompt of the provider's input_types, or have an entry for \"\" added to them"));
        }
        Ok((input_type, literal))
    }

    /// The items to encode, with the literal prompt prepended to texts.
    pub(crate) fn items(&self, inputs: Vec<Input>, literal: &str) -> Result<Items, Fault> {
        if inputs.is_empty() {
            return Err(Fault::invalid("inputs", "is empty").hint("give at least one text"));
        }
        let count = inputs.len();
        let (mut texts, mut tokens) = (Vec::new(), Vec::new());
        for (index, input) in inputs.into_iter().enumerate() {
            match input.input {
                Some(input::Input::Text(text)) if literal.is_empty() => texts.push(text),
                Some(input::Input::Text(text)) => texts.push(format!("{literal}{text}")),
                Some(input::Input::TokenIds(ids)) if self.token_ids => tokens.push(ids.ids),
                Some(input::Input::TokenIds(_)) => {
                    let message = format!("{} takes texts, not token ids", self.kind);
                    return Err(self.unserved(&format!("inputs[{index}].token_ids"), message, "send the text"));
                }
                None => {
                    return Err(
                        Fault::invalid(format!("inputs[{index}]"), "holds nothing").hint("set `text`; it may be empty")
                    );
                }
            }
        }
        match (texts.len(), tokens.len()) {
            (some, 0) if some == count => Ok(Items::Texts(texts)),
            (0, some) if some == count => Ok(Items::Tokens(tokens)),
            _ => {
                let message = format!("{} takes texts or token ids, not both in one request", self.kind);
                Err(self.unserved("inputs", message, "send two requests"))
            }
        }
    }
}

isomer_names::names!(Cut {
    AsItIs = "TRUNCATION_UNSPECIFIED", Refuse = "TRUNCATION_ERROR", Head = "TRUNCATION_HEAD",
    Tail = "TRUNCATION_TAIL"
});

impl Params {
    /// The prompt in a vector space: the literal text, or `input_type:NAME`. If both exist, the
    /// kind of input is on a separate line.
    pub(crate) fn prompt(&self) -> String {
        match (&self.input_type, self.literal.as_str()) {
            (None, literal) => literal.to_owned(),
            (Some(input_type), "") => format!("input_type:{input_type}"),
            (Some(input_type), literal) => format!("input_type:{input_type}\n{literal}"),
        }
    }
}

impl Items {
    /// The number of tokens of each item: counted for token ids, estimated for texts.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        match self {
            Self::Texts(texts) => texts.iter().map(|text| estimate::tokens(text)).collect(),
            Self::Tokens(all) => all.iter().map(|ids| ids.len() as u64).collect(),
        }
    }

    pub(crate) fn piece(&self, range: std::ops::Range<usize>) -> Piece<'_> {
        match self {
            Self::Texts(texts) => Piece::Texts(&texts[range]),
            Self::Tokens(all) => Piece::Tokens(&all[range]),
        }
    }
}

impl<'a> Piece<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens(all) => all.len(),
        }
    }

    /// The texts.
    ///
    /// # Errors
    /// If the items are token ids. [`Abilities::items`] refuses those for protocols without them.
    pub(crate) fn texts(self) -> Result<&'a [String], Fault> {
        match self {
            Self::Texts(texts) => Ok(texts),
            Self::Tokens(_) => Err(Fault::internal("token ids for a protocol that has none")),
        }
    }
}

fn unknown_prompt(name: &str, input_types: &HashMap<String, String>) -> Fault {
    let mut known: Vec<&str> = input_types
        .keys()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    known.sort_unstable();
    let hint = if known.is_empty() {
        "this provider has no input_types".to_owned()
    } else {
        format!("one of: {}", known.join(", "))
    };
    Fault::invalid("prompt_name", format!("unknown prompt `{name}`")).hint(format!("{hint}; or give literal_prompt"))
}
