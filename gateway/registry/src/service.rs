//! The gRPC service.

use isomer_proto::gateway::v1::{
    CheckProviderRequest, CheckProviderResponse, CreateProviderRequest, CreateProviderResponse, DeleteProviderRequest,
    DeleteProviderResponse, GetProviderRequest, GetProviderResponse, ListProvidersRequest, ListProvidersResponse,
    RenewLeaseRequest, RenewLeaseResponse, UpdateProviderRequest, UpdateProviderResponse,
    check_provider_request::Target, provider_service_server::ProviderService,
};
use isomer_service_kit::{Fault, page_token};
use tonic::{Request, Response, Status};

use crate::{Registry, page, time::timestamp};

/// The name of the list in page tokens.
const LIST: &str = "ListProviders";

/// `isomer.gateway.v1.ProviderService` over a [`Registry`].
#[derive(Debug, Clone)]
pub struct ProviderHandler {
    registry: Registry,
}

impl ProviderHandler {
    pub(crate) fn new(registry: Registry) -> Self {
        Self { registry }
    }
}

#[tonic::async_trait]
impl ProviderService for ProviderHandler {
    async fn create_provider(
        &self,
        request: Request<CreateProviderRequest>,
    ) -> Result<Response<CreateProviderResponse>, Status> {
        let wanted = request.into_inner().provider;
        let wanted = wanted.ok_or_else(|| Fault::invalid("provider", "is missing").hint("describe the provider"))?;
        let provider = Some(self.registry.create(&wanted).await?);
        Ok(Response::new(CreateProviderResponse { provider }))
    }

    async fn get_provider(
        &self,
        request: Request<GetProviderRequest>,
    ) -> Result<Response<GetProviderResponse>, Status> {
        let provider = Some(self.registry.get(&named(request.into_inner().id)?).await?);
        Ok(Response::new(GetProviderResponse { provider }))
    }

    async fn list_providers(
        &self,
        request: Request<ListProvidersRequest>,
    ) -> Result<Response<ListProvidersResponse>, Status> {
        let request = request.into_inner();
        let (size, after) = (
            page::size(request.page_size),
            page_token::after(LIST, &request.page_token)?,
        );
        let mut providers = self.registry.list().await?;
        providers.retain(|provider| provider.id > after);
        let more = page::cut(&mut providers, size);
        let last = providers.last().filter(|_| more);
        let next_page_token = last.map(|last| page_token::token(LIST, &last.id)).unwrap_or_default();
        let file_error = self.registry.file_error().map(|fault| fault.to_string());
        Ok(Response::new(ListProvidersResponse {
            providers,
            next_page_token,
            file_error: file_error.unwrap_or_default(),
        }))
    }

    async fn update_provider(
        &self,
        request: Request<UpdateProviderRequest>,
    ) -> Result<Response<UpdateProviderResponse>, Status> {
        let provider = Some(self.registry.update(request.get_ref()).await?);
        Ok(Response::new(UpdateProviderResponse { provider }))
    }

    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Result<Response<RenewLeaseResponse>, Status> {
        let expires = self.registry.renew(&request.into_inner().id).await?;
        Ok(Response::new(RenewLeaseResponse {
            expire_time: timestamp(expires),
        }))
    }

    async fn delete_provider(
        &self,
        request: Request<DeleteProviderRequest>,
    ) -> Result<Response<DeleteProviderResponse>, Status> {
        let request = request.into_inner();
        self.registry.delete(&request.id, &request.etag).await?;
        Ok(Response::new(DeleteProviderResponse {}))
    }

    async fn check_provider(
        &self,
        request: Request<CheckProviderRequest>,
    ) -> Result<Response<CheckProviderResponse>, Status> {
        let candidate = match request.into_inner().target {
            Some(Target::Id(id)) => self.registry.get(&named(id)?).await?,
            Some(Target::Candidate(candidate)) => self.registry.candidate(&candidate)?,
            None => {
                return Err(Fault::invalid("target", "is missing")
                    .hint("give the id of a registered provider, or a candidate")
                    .into());
            }
        };
        Ok(Response::new(self.registry.check(&candidate).await?))
    }
}

fn named(id: String) -> Result<String, Fault> {
    match id.is_empty() {
        true => Err(Fault::invalid("id", "is missing").hint("name a provider")),
        false => Ok(id),
    }
}
