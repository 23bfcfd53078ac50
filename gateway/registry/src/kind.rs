//! Kinds of providers: their short names and properties.

use isomer_proto::gateway::v1::ProviderKind;

/// All kinds.
pub const ALL: [ProviderKind; 10] = [
    ProviderKind::Isomer,
    ProviderKind::TeiGrpc,
    ProviderKind::TeiHttp,
    ProviderKind::Openai,
    ProviderKind::CohereV2,
    ProviderKind::Voyage,
    ProviderKind::Ollama,
    ProviderKind::Jina,
    ProviderKind::OipV2Grpc,
    ProviderKind::HuggingFace,
];

/// The name of a kind in files and on the command line: `tei-grpc`.
pub fn name(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Unspecified => "unspecified",
        ProviderKind::Isomer => "isomer",
        ProviderKind::TeiGrpc => "tei-grpc",
        ProviderKind::TeiHttp => "tei-http",
        ProviderKind::Openai => "openai",
        ProviderKind::CohereV2 => "cohere-v2",
        ProviderKind::Voyage => "voyage",
        ProviderKind::Ollama => "ollama",
        ProviderKind::Jina => "jina",
        ProviderKind::OipV2Grpc => "oip-v2-grpc",
        ProviderKind::HuggingFace => "hugging-face",
    }
}

/// The kind with a short name.
pub fn named(name: &str) -> Option<ProviderKind> {
    ALL.into_iter().find(|kind| self::name(*kind) == name)
}

/// The names of all kinds.
pub fn names() -> [&'static str; 10] {
    ALL.map(name)
}

/// Whether providers of this kind are called over gRPC rather than plain HTTP.
pub(crate) fn is_grpc(kind: ProviderKind) -> bool {
    matches!(
        kind,
        ProviderKind::Isomer | ProviderKind::TeiGrpc | ProviderKind::OipV2Grpc
    )
}

/// Whether providers of this kind can list their encoders.
pub(crate) fn lists_encoders(kind: ProviderKind) -> bool {
    kind == ProviderKind::Isomer
}

/// Whether the kind's protocol has input types.
pub(crate) fn has_input_types(kind: ProviderKind) -> bool {
    use ProviderKind::{CohereV2, HuggingFace, Jina, TeiGrpc, TeiHttp, Voyage};
    matches!(kind, CohereV2 | HuggingFace | Jina | TeiGrpc | TeiHttp | Voyage)
}

/// Whether the kind's protocol requires an input type.
pub(crate) fn needs_input_types(kind: ProviderKind) -> bool {
    kind == ProviderKind::CohereV2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_the_enums_names_in_lower_case_with_dashes() {
        for number in 1.. {
            let Ok(kind) = ProviderKind::try_from(number) else {
                assert_eq!(ALL.len(), number as usize - 1, "a kind is missing from the list");
                break;
            };
            let expected = kind.as_str_name().trim_start_matches("PROVIDER_KIND_");
            assert_eq!(name(kind), expected.to_lowercase().replace('_', "-"));
            assert_eq!(named(name(kind)), Some(kind));
        }
        assert_eq!(named("unspecified"), None);
    }
}
