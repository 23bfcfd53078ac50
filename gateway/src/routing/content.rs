//! The content of a request: its texts. One of them may be the cause of a provider's failure.

use std::hash::{DefaultHasher, Hash, Hasher};

use isomer_proto::encoder::v1::{CountTokensRequest, DetokenizeRequest, EncodeRequest, RerankRequest, TokenizeRequest};

/// The texts of a request in flight.
#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    /// The field that holds them.
    pub(crate) field: &'static str,
    /// A hash of each text; empty if the request is not readable. It is called only when needed.
    pub(crate) texts: &'a (dyn Fn() -> Vec<u64> + Sync),
}

impl Content<'static> {
    /// A request whose texts are not readable.
    pub(crate) const OPAQUE: Self = Self {
        field: "",
        texts: &Vec::new,
    };
}

/// A request that contains texts.
pub(super) trait Texts {
    /// The field that holds them.
    const FIELD: &'static str;

    /// The encoder, if a probe with other texts can show whether it works.
    fn encoder(&self) -> Option<&str> {
        None
    }

    /// A hash of each text. The same text has a different hash for another encoder.
    fn texts(&self) -> Vec<u64>;
}

fn hashes<T: Hash>(field: &str, encoder_id: &str, texts: impl IntoIterator<Item = T>) -> Vec<u64> {
    let mut common = DefaultHasher::new();
    (field, encoder_id).hash(&mut common);
    let of = |text: T| {
        let mut hasher = common.clone();
        text.hash(&mut hasher);
        hasher.finish()
    };
    texts.into_iter().map(of).collect()
}

impl Texts for EncodeRequest {
    const FIELD: &'static str = "inputs";

    fn encoder(&self) -> Option<&str> {
        Some(&self.encoder_id)
    }

    fn texts(&self) -> Vec<u64> {
        hashes(Self::FIELD, &self.encoder_id, &self.inputs)
    }
}

impl Texts for RerankRequest {
    const FIELD: &'static str = "documents";

    fn texts(&self) -> Vec<u64> {
        let texts = std::iter::once(&self.query).chain(&self.documents);
        hashes(Self::FIELD, &self.encoder_id, texts)
    }
}

impl Texts for CountTokensRequest {
    const FIELD: &'static str = "texts";

    fn texts(&self) -> Vec<u64> {
        hashes(Self::FIELD, &self.encoder_id, &self.texts)
    }
}

impl Texts for TokenizeRequest {
    const FIELD: &'static str = "texts";

    fn texts(&self) -> Vec<u64> {
        hashes(Self::FIELD, &self.encoder_id, &self.texts)
    }
}

impl Texts for DetokenizeRequest {
    const FIELD: &'static str = "token_ids";

    fn texts(&self) -> Vec<u64> {
        hashes(Self::FIELD, &self.encoder_id, &self.token_ids)
    }
}

/// A request without texts, such as that for a description.
impl Texts for () {
    const FIELD: &'static str = "";

    fn texts(&self) -> Vec<u64> {
        Vec::new()
    }
}
