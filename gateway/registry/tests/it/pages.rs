//! Lists of several pages.

use isomer_proto::gateway::v1::ListProvidersRequest;
use isomer_registry::ProvidersConfig;
use isomer_stubs::promise::promised;
use tonic::Code;

use crate::support::{Gateway, fault, leased, provider};

#[tokio::test]
async fn pages_hold_every_provider_once_in_order_though_the_list_changes_between_them() {
    let gateway = Gateway::in_memory().await;
    let mut client = gateway.client.clone();
    for id in ["e", "b", "d", "a", "c"] {
        gateway.create(provider(id)).await.unwrap();
    }
    let (mut request, mut seen) = (
        ListProvidersRequest {
            page_size: 2,
            ..Default::default()
        },
        Vec::new(),
    );
    loop {
        let page = client.list_providers(request.clone()).await.unwrap().into_inner();
        assert!(page.providers.len() <= 2 && page.file_error.is_empty());
        seen.extend(page.providers.into_iter().map(|provider| provider.id));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
        if seen.len() == 2 {
            // One provider is added before the position that was read to, and the one at that
            // position is removed.
            gateway.create(provider("a-b")).await.unwrap();
            let delete = isomer_proto::gateway::v1::DeleteProviderRequest {
                id: "b".to_owned(),
                ..Default::default()
            };
            client.delete_provider(delete).await.unwrap();
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    let token = format!("{}00", request.page_token);
    for damaged in [token.as_str(), "nonsense", "00"] {
        request.page_token = damaged.to_owned();
        let refused = fault(client.list_providers(request.clone()).await.unwrap_err());
        assert_eq!(
            (refused.code, refused.field.as_deref()),
            (Code::InvalidArgument, Some("page_token"))
        );
    }
}

#[tokio::test]
async fn there_are_only_so_many_providers() {
    let config = ProvidersConfig {
        max_providers: 2,
        ..ProvidersConfig::default()
    };
    let gateway = Gateway::open(config, None).await;
    gateway.create(leased("a", 60_000)).await.unwrap();
    gateway.create(leased("b", 60_000)).await.unwrap();
    let refused = gateway.create(leased("c", 60_000)).await.unwrap_err();
    promised(
        "ProviderService.CreateProvider RESOURCE_EXHAUSTED TOO_MANY_PROVIDERS",
        &refused,
    );
    assert_eq!(gateway.watched(), ["a", "b"]);
}
