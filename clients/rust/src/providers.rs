//! Encoders that live elsewhere.

use std::time::SystemTime;

use futures::stream::BoxStream;
use isomer_proto::gateway::v1::{
    CheckProviderRequest, CheckProviderResponse, CreateProviderRequest, DeleteProviderRequest, GetProviderRequest,
    ListProvidersRequest, Provider, RenewLeaseRequest, UpdateProviderRequest, check_provider_request::Target,
    provider_service_client::ProviderServiceClient,
};
use prost_types::FieldMask;

use crate::{
    Error,
    call::{Calls, unary},
    pages::pages,
};

/// ProviderService: [`Client::providers`](crate::Client::providers). It needs the scope `admin`.
#[derive(Debug, Clone)]
pub struct Providers(pub(crate) Calls);

/// The provider of an answer.
fn some(provider: Option<Provider>) -> Result<Provider, Error> {
    provider.ok_or_else(|| Error::bad_answer("the server answered without a provider"))
}

impl Providers {
    /// Registers a provider.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn create(&self, provider: Provider) -> Result<Provider, Error> {
        let answer = unary!(
            self.0,
            ProviderServiceClient.create_provider,
            "/isomer.gateway.v1.ProviderService/CreateProvider",
            CreateProviderRequest {
                provider: Some(provider)
            }
        );
        some(answer?.provider)
    }

    /// A provider as it is now.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn get(&self, id: &str) -> Result<Provider, Error> {
        let answer = unary!(
            self.0,
            ProviderServiceClient.get_provider,
            "/isomer.gateway.v1.ProviderService/GetProvider",
            GetProviderRequest { id: id.to_owned() }
        );
        some(answer?.provider)
    }

    /// All providers, in order of id.
    pub fn list(&self) -> BoxStream<'static, Result<Provider, Error>> {
        let calls = self.0.clone();
        pages(move |page_token| {
            let calls = calls.clone();
            async move {
                let request = ListProvidersRequest {
                    page_token,
                    ..ListProvidersRequest::default()
                };
                let answer = unary!(
                    calls,
                    ProviderServiceClient.list_providers,
                    "/isomer.gateway.v1.ProviderService/ListProviders",
                    request
                );
                answer.map(|answer| (answer.providers, answer.next_page_token))
            }
        })
    }

    /// Changes the named fields of a provider; without names all that are set.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn update(&self, provider: Provider, fields: &[&str]) -> Result<Provider, Error> {
        let mask = FieldMask {
            paths: fields.iter().map(|field| (*field).to_owned()).collect(),
        };
        self.updated(UpdateProviderRequest {
            provider: Some(provider),
            update_mask: (!fields.is_empty()).then_some(mask),
            allow_missing: false,
        })
        .await
    }

    /// Registers a provider, or changes all fields that are set of the one that is there.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn put(&self, provider: Provider) -> Result<Provider, Error> {
        self.updated(UpdateProviderRequest {
            provider: Some(provider),
            update_mask: None,
            allow_missing: true,
        })
        .await
    }

    async fn updated(&self, request: UpdateProviderRequest) -> Result<Provider, Error> {
        let answer = unary!(
            self.0,
            ProviderServiceClient.update_provider,
            "/isomer.gateway.v1.ProviderService/UpdateProvider",
            request
        );
        some(answer?.provider)
    }

    /// Begins a provider's lease anew; when it runs out now.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn renew_lease(&self, id: &str) -> Result<SystemTime, Error> {
        let answer = unary!(
            self.0,
            ProviderServiceClient.renew_lease,
            "/isomer.gateway.v1.ProviderService/RenewLease",
            RenewLeaseRequest { id: id.to_owned() }
        );
        let time = answer?.expire_time.and_then(|time| SystemTime::try_from(time).ok());
        time.ok_or_else(|| Error::bad_answer("the server answered without a time"))
    }

    /// Takes a provider away.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        let answer = unary!(
            self.0,
            ProviderServiceClient.delete_provider,
            "/isomer.gateway.v1.ProviderService/DeleteProvider",
            DeleteProviderRequest {
                id: id.to_owned(),
                ..DeleteProviderRequest::default()
            }
        );
        answer.map(drop)
    }

    /// Probes a provider that is registered, for real.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn check(&self, id: &str) -> Result<CheckProviderResponse, Error> {
        self.probe(Target::Id(id.to_owned())).await
    }

    /// Probes a provider that is not registered.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn check_candidate(&self, candidate: Provider) -> Result<CheckProviderResponse, Error> {
        self.probe(Target::Candidate(candidate)).await
    }

    async fn probe(&self, target: Target) -> Result<CheckProviderResponse, Error> {
        unary!(
            self.0,
            ProviderServiceClient.check_provider,
            "/isomer.gateway.v1.ProviderService/CheckProvider",
            CheckProviderRequest { target: Some(target) }
        )
    }
}
