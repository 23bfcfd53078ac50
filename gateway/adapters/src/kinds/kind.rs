//! The declaration of a kind.

use std::sync::Arc;

use isomer_proto::gateway::v1::{Provider, ProviderKind};
use isomer_service_kit::Fault;

use crate::{
    EncoderBackend, Surroundings,
    foreign::{Foreign, Protocol},
    params::{Abilities, InputTypes},
    target::Target,
};

/// The declaration of a kind of provider.
#[derive(Debug)]
pub struct Kind {
    /// The kind's number in the protocol, which also gives its name.
    pub value: ProviderKind,
    /// Whether it uses gRPC rather than plain HTTP.
    pub grpc: bool,
    /// Whether its servers list their encoders, so that a provider need not name them.
    pub lists_encoders: bool,
    /// The requests that its protocol can express; `None` for our own protocol, whose requests pass
    /// unchanged.
    pub(crate) abilities: Option<Abilities>,
    pub(crate) connect: fn(&Provider, &Surroundings) -> Result<Arc<dyn EncoderBackend>, Fault>,
}

impl Kind {
    /// Whether the protocol has input types.
    pub fn has_input_types(&self) -> bool {
        self.abilities.is_some_and(|own| own.input_types != InputTypes::None)
    }

    /// Whether the protocol requires an input type for every text.
    pub fn needs_input_types(&self) -> bool {
        self.abilities
            .is_some_and(|own| own.input_types == InputTypes::Required)
    }

    /// The abilities of its protocol as columns of a table: heading and content.
    pub fn capabilities(&self) -> [(&'static str, String); 9] {
        fn yes(has: bool) -> String {
            if has { "yes" } else { "" }.to_owned()
        }
        let own = |shown: fn(Abilities) -> String| self.abilities.map_or("its own".to_owned(), shown);
        [
            ("transport", if self.grpc { "gRPC" } else { "HTTP" }.to_owned()),
            (
                "input types",
                own(|own| match own.input_types {
                    InputTypes::None => String::new(),
                    InputTypes::Optional => "optional".to_owned(),
                    InputTypes::Required => "required".to_owned(),
                }),
            ),
            (
                "texts that are too long",
                own(|own| own.cuts.iter().map(|cut| cut.name()).collect::<Vec<_>>().join(", ")),
            ),
            ("fewer dimensions", own(|own| yes(own.dimensions))),
            ("token ids", own(|own| yes(own.token_ids))),
            ("counts tokens", own(|own| yes(own.counts))),
            ("sparse vectors", own(|own| yes(own.sparse))),
            ("reranks", own(|own| yes(own.reranks))),
            (
                "texts per call",
                own(|own| match own.most_items.number() {
                    0 => "any".to_owned(),
                    most => most.to_string(),
                }),
            ),
        ]
    }
}

/// A backend over a third party's protocol.
pub(super) fn foreign<P: Protocol>(
    kind: &Kind,
    provider: &Provider,
    surroundings: &Surroundings,
    protocol: impl FnOnce(Target) -> Result<P, Fault>,
) -> Result<Arc<dyn EncoderBackend>, Fault> {
    let target = Target::new(provider, surroundings, kind.grpc)?;
    let protocol = Box::new(protocol(Target::new(provider, surroundings, kind.grpc)?)?);
    Ok(Arc::new(Foreign::new(provider, protocol, &target)?))
}
