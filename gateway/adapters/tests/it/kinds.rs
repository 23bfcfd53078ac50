//! A kind's declaration and what its protocol does.

use isomer_adapters::kinds;
use isomer_proto::{
    ProtoEnum,
    encoder::v1::{Activation, CountTokensRequest, RerankRequest},
    gateway::v1::ProviderKind,
};

use crate::support::{connect, provider};

/// No server is asked for what a protocol cannot express. The address here has no server.
#[tokio::test]
async fn a_call_that_a_protocol_lacks_is_refused_before_the_server_is_asked() {
    for kind in kinds().filter(|kind| kind.value != ProviderKind::Isomer) {
        let scheme = if kind.grpc { "grpc" } else { "http" };
        let mut provider = provider(kind.value, &format!("{scheme}://127.0.0.1:1"));
        if kind.needs_input_types() {
            provider.input_types.insert(String::new(), "search_query".to_owned());
        }
        let backend = connect(&provider);
        let counted = CountTokensRequest {
            encoder_id: "ours".to_owned(),
            texts: vec!["a".to_owned()],
            ..CountTokensRequest::default()
        };
        let ranked = RerankRequest {
            encoder_id: "ours".to_owned(),
            query: "a".to_owned(),
            documents: vec!["b".to_owned()],
            ..RerankRequest::default()
        };
        let logits = RerankRequest {
            activation: Activation::Identity.into(),
            ..ranked.clone()
        };
        let fault = backend.rerank(logits, None).await.unwrap_err();
        let gives_logits = matches!(kind.value, ProviderKind::TeiHttp | ProviderKind::TeiGrpc);
        assert_eq!(
            fault.reason != "NOT_IN_PROTOCOL",
            gives_logits,
            "{}",
            kind.value.dashed()
        );
        let outcomes = [
            ("counts tokens", backend.count_tokens(counted, None).await.unwrap_err()),
            ("reranks", backend.rerank(ranked, None).await.unwrap_err()),
        ];
        for (column, fault) in outcomes {
            let declared = kind
                .capabilities()
                .iter()
                .any(|(name, has)| *name == column && has == "yes");
            let lacks = fault.reason == "NOT_IN_PROTOCOL";
            assert_eq!(lacks, !declared, "{} {column}: {fault}", kind.value.dashed());
        }
    }
}

/// The tests of a kind's protocol, and its stub in the tests of the clients.
#[test]
fn every_kind_has_tests_of_its_protocol_and_a_stub_for_clients() {
    let sources = std::fs::read_dir("tests/it").unwrap();
    let sources = sources.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let tests = sources.collect::<String>();
    let stubs = std::fs::read_to_string("../../tests/clients/encoders.py").unwrap();
    for kind in kinds() {
        let connected = format!("(ProviderKind::{:?}, ", kind.value);
        assert!(
            tests.contains(&connected),
            "no test of tests/it connects to {:?}",
            kind.value
        );
        let stubbed = format!("\"{}\"", kind.value.dashed());
        let ours = kind.value == ProviderKind::Isomer;
        assert!(
            ours || stubs.contains(&stubbed),
            "encoders.py has no encoder at {stubbed}"
        );
    }
}
