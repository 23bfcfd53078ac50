//! Writes the registry's changes to the audit log.

use isomer_access::{Access, Caller};
use isomer_proto::gateway::v1::{
    CheckProviderRequest, CheckProviderResponse, CreateProviderRequest, CreateProviderResponse, DeleteProviderRequest,
    DeleteProviderResponse, GetProviderRequest, GetProviderResponse, ListProvidersRequest, ListProvidersResponse,
    RenewLeaseRequest, RenewLeaseResponse, UpdateProviderRequest, UpdateProviderResponse,
    provider_service_server::ProviderService,
};
use isomer_registry::ProviderHandler;
use isomer_service_kit::Fault;
use tonic::{Extensions, Request, Response, Status};

/// The registry's handler. It writes every change to the audit log with the name of its author.
#[derive(Debug, Clone)]
pub(crate) struct AuditedHandler {
    inner: ProviderHandler,
    access: Option<Access>,
}

impl AuditedHandler {
    pub(crate) fn new(inner: ProviderHandler, access: Option<Access>) -> Self {
        Self { inner, access }
    }

    async fn written<T>(
        &self,
        extensions: &Extensions,
        act: &str,
        target: &str,
        done: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<Response<T>, Status> {
        let caller = extensions.get::<Caller>().cloned();
        let done = done.await;
        if let (Some(access), Some(caller)) = (&self.access, caller) {
            let fault = done.as_ref().err().map(Fault::from_status);
            access
                .audit(&caller, act, target, fault.as_ref().map_or(Ok(()), Err))
                .await?;
        }
        done
    }
}

fn id(provider: Option<&isomer_proto::gateway::v1::Provider>) -> String {
    provider.map(|provider| provider.id.clone()).unwrap_or_default()
}

#[tonic::async_trait]
impl ProviderService for AuditedHandler {
    async fn create_provider(
        &self,
        request: Request<CreateProviderRequest>,
    ) -> Result<Response<CreateProviderResponse>, Status> {
        let (extensions, target) = (request.extensions().clone(), id(request.get_ref().provider.as_ref()));
        let done = self.inner.create_provider(request);
        self.written(&extensions, "providers.create", &target, done).await
    }

    async fn get_provider(
        &self,
        request: Request<GetProviderRequest>,
    ) -> Result<Response<GetProviderResponse>, Status> {
        self.inner.get_provider(request).await
    }

    async fn list_providers(
        &self,
        request: Request<ListProvidersRequest>,
    ) -> Result<Response<ListProvidersResponse>, Status> {
        self.inner.list_providers(request).await
    }

    async fn update_provider(
        &self,
        request: Request<UpdateProviderRequest>,
    ) -> Result<Response<UpdateProviderResponse>, Status> {
        let (extensions, target) = (request.extensions().clone(), id(request.get_ref().provider.as_ref()));
        let done = self.inner.update_provider(request);
        self.written(&extensions, "providers.update", &target, done).await
    }

    // Leases are not audited: every provider renews its lease every few seconds, which would fill
    // the log.
    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Result<Response<RenewLeaseResponse>, Status> {
        self.inner.renew_lease(request).await
    }

    async fn delete_provider(
        &self,
        request: Request<DeleteProviderRequest>,
    ) -> Result<Response<DeleteProviderResponse>, Status> {
        let (extensions, target) = (request.extensions().clone(), request.get_ref().id.clone());
        let done = self.inner.delete_provider(request);
        self.written(&extensions, "providers.delete", &target, done).await
    }

    async fn check_provider(
        &self,
        request: Request<CheckProviderRequest>,
    ) -> Result<Response<CheckProviderResponse>, Status> {
        self.inner.check_provider(request).await
    }
}
