//! `isomer.gateway.v1.AccessService`: keys and the audit log over gRPC.

use isomer_proto::gateway::v1::{
    AccessScope, ApiKey, CreateKeyRequest, CreateKeyResponse, GetKeyRequest, GetKeyResponse, ListAuditEventsRequest,
    ListAuditEventsResponse, ListKeysRequest, ListKeysResponse, RevokeKeyRequest, RevokeKeyResponse, UpdateKeyRequest,
    UpdateKeyResponse, access_service_server::AccessService,
};
use isomer_service_kit::Fault;
use tonic::{Code, Request, Response, Status};

use crate::{
    access::Access,
    caller::Caller,
    keys::{KeyChange, Keys, NewKey},
    limits::Limits,
    wire,
};

/// The service. Serve it only behind [`Access::admit`]: a request without a [`Caller`] is refused.
#[derive(Debug, Clone)]
pub struct AccessServer {
    access: Access,
    keys: Keys,
}

impl AccessServer {
    /// The service over the keys of `access`.
    pub fn new(access: Access) -> Self {
        Self {
            keys: access.keys(),
            access,
        }
    }

    /// The calling administrator, and the request's message.
    async fn administrator<T>(&self, request: Request<T>, act: &str) -> Result<(String, T), Status> {
        let (_, extensions, message) = request.into_parts();
        let Some(caller) = extensions.get::<Caller>() else {
            let fault = Fault::new(
                Code::Unauthenticated,
                "NO_CALLER",
                "this service is not behind the auth layer",
            );
            return Err(fault.hint("the gateway is composed wrongly; nothing was done").into());
        };
        if let Err(fault) = caller.require(AccessScope::Admin) {
            self.access.audit(caller, act, "", Err(&fault)).await?;
            return Err(fault.into());
        }
        Ok((caller.signature(), message))
    }
}

#[tonic::async_trait]
impl AccessService for AccessServer {
    async fn create_key(&self, request: Request<CreateKeyRequest>) -> Result<Response<CreateKeyResponse>, Status> {
        let (who, message) = self.administrator(request, "keys.create").await?;
        let key = message.key.ok_or_else(|| wire::missing("key"))?;
        wire::only_settable(&key, false)?;
        let new = NewKey {
            scopes: wire::scopes(&key)?,
            limits: key.limits.map_or(Ok(Limits::default()), wire::limits)?,
            expires: key
                .expire_time
                .map(|at| wire::micros("key.expire_time", at))
                .transpose()?,
            name: key.name,
        };
        let (record, secret) = self.keys.create(&who, new).await.map_err(wire::within_key)?;
        Ok(Response::new(CreateKeyResponse {
            key: Some(wire::key(&record, None)),
            secret: secret.expose().unwrap_or_default().to_owned(),
        }))
    }

    async fn get_key(&self, request: Request<GetKeyRequest>) -> Result<Response<GetKeyResponse>, Status> {
        let (_, message) = self.administrator(request, "keys.get").await?;
        let (record, usage) = self.keys.get(&message.id).await?;
        let key = Some(wire::key(&record, Some(&usage)));
        Ok(Response::new(GetKeyResponse { key }))
    }

    async fn list_keys(&self, request: Request<ListKeysRequest>) -> Result<Response<ListKeysResponse>, Status> {
        let (_, message) = self.administrator(request, "keys.list").await?;
        let (keys, next_page_token) = self.keys.list(message.page_size, &message.page_token).await?;
        let keys: Vec<ApiKey> = keys
            .iter()
            .map(|(record, usage)| wire::key(record, Some(usage)))
            .collect();
        Ok(Response::new(ListKeysResponse { keys, next_page_token }))
    }

    async fn update_key(&self, request: Request<UpdateKeyRequest>) -> Result<Response<UpdateKeyResponse>, Status> {
        let (who, message) = self.administrator(request, "keys.update").await?;
        let key = message.key.ok_or_else(|| wire::missing("key"))?;
        wire::only_settable(&key, true)?;
        let mask = message.update_mask.unwrap_or_default().paths;
        if mask.is_empty() {
            return Err(wire::missing("update_mask")
                .hint("name what is to change: name, scopes, limits, expire_time")
                .into());
        }
        let mut change = KeyChange::default();
        for path in &mask {
            match path.as_str() {
                "name" => change.name = Some(key.name.clone()),
                "scopes" => change.scopes = Some(wire::scopes(&key)?),
                "limits" => change.limits = Some(key.limits.clone().map_or(Ok(Limits::default()), wire::limits)?),
                "expire_time" => {
                    change.expires = Some(
                        key.expire_time
                            .map(|at| wire::micros("key.expire_time", at))
                            .transpose()?,
                    );
                }
                other => {
                    return Err(Fault::invalid("update_mask", format!("`{other}` cannot be changed"))
                        .hint("name, scopes, limits and expire_time can")
                        .into());
                }
            }
        }
        let (record, usage) = self
            .keys
            .update(&who, &key.id, change)
            .await
            .map_err(wire::within_key)?;
        let key = Some(wire::key(&record, Some(&usage)));
        Ok(Response::new(UpdateKeyResponse { key }))
    }

    async fn revoke_key(&self, request: Request<RevokeKeyRequest>) -> Result<Response<RevokeKeyResponse>, Status> {
        let (who, message) = self.administrator(request, "keys.revoke").await?;
        let record = self.keys.revoke(&who, &message.id).await?;
        let key = Some(wire::key(&record, None));
        Ok(Response::new(RevokeKeyResponse { key }))
    }

    async fn list_audit_events(
        &self,
        request: Request<ListAuditEventsRequest>,
    ) -> Result<Response<ListAuditEventsResponse>, Status> {
        let (_, message) = self.administrator(request, "audit.list").await?;
        // The head is read last, so it is never older than the events, unless it was set back.
        let events = self.keys.audit_events(message.after, message.page_size).await?;
        let head = self.keys.audit_head().await?;
        Ok(Response::new(ListAuditEventsResponse {
            events: events.iter().map(wire::event).collect(),
            head_seq: head.seq,
            head_hash: head.hash,
        }))
    }
}
