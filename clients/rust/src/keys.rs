//! API keys of the gateway, and their permissions.

use std::fmt;

use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use isomer_proto::gateway::v1::{
    ApiKey, AuditEvent, CreateKeyRequest, GetKeyRequest, ListAuditEventsRequest, ListKeysRequest, RevokeKeyRequest,
    UpdateKeyRequest, access_service_client::AccessServiceClient,
};
use prost_types::FieldMask;

use crate::{
    Error,
    call::{Calls, unary},
    pages::pages,
};

/// AccessService: [`Client::keys`](crate::Client::keys). It needs the scope `admin`.
#[derive(Debug, Clone)]
pub struct Keys(pub(crate) Calls);

/// A key with its text, which no later call shows.
#[derive(Clone)]
pub struct NewKey {
    /// The record as stored; it holds no secret.
    pub record: ApiKey,
    secret: String,
}

impl NewKey {
    /// The key's id.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// The key's text. It is a method so that printing a key does not show it.
    pub fn secret(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey")
            .field("id", &self.record.id)
            .finish_non_exhaustive()
    }
}

/// The key of an answer.
fn some(key: Option<ApiKey>) -> Result<ApiKey, Error> {
    key.ok_or_else(|| Error::bad_answer("the server answered without a key"))
}

impl Keys {
    /// Makes a key of the fields that are set: name, scopes, limits, expire_time.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn create(&self, key: ApiKey) -> Result<NewKey, Error> {
        let answer = unary!(
            self.0,
            AccessServiceClient.create_key,
            "/isomer.gateway.v1.AccessService/CreateKey",
            CreateKeyRequest { key: Some(key) }
        );
        let answer = answer?;
        Ok(NewKey {
            record: some(answer.key)?,
            secret: answer.secret,
        })
    }

    /// A key with what it has used, without its text.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn get(&self, id: &str) -> Result<ApiKey, Error> {
        let answer = unary!(
            self.0,
            AccessServiceClient.get_key,
            "/isomer.gateway.v1.AccessService/GetKey",
            GetKeyRequest { id: id.to_owned() }
        );
        some(answer?.key)
    }

    /// Keys, revoked ones too, oldest first.
    pub fn list(&self) -> BoxStream<'static, Result<ApiKey, Error>> {
        let calls = self.0.clone();
        pages(move |page_token| {
            let calls = calls.clone();
            async move {
                let request = ListKeysRequest {
                    page_token,
                    ..ListKeysRequest::default()
                };
                let answer = unary!(
                    calls,
                    AccessServiceClient.list_keys,
                    "/isomer.gateway.v1.AccessService/ListKeys",
                    request
                );
                answer.map(|answer| (answer.keys, answer.next_page_token))
            }
        })
    }

    /// Changes `name`, `scopes`, `limits` or `expire_time` of the key with this id.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn update(&self, key: ApiKey, fields: &[&str]) -> Result<ApiKey, Error> {
        let request = UpdateKeyRequest {
            key: Some(key),
            update_mask: Some(FieldMask {
                paths: fields.iter().map(|field| (*field).to_owned()).collect(),
            }),
        };
        let answer = unary!(
            self.0,
            AccessServiceClient.update_key,
            "/isomer.gateway.v1.AccessService/UpdateKey",
            request
        );
        some(answer?.key)
    }

    /// Ends a key for good.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn revoke(&self, id: &str) -> Result<ApiKey, Error> {
        let answer = unary!(
            self.0,
            AccessServiceClient.revoke_key,
            "/isomer.gateway.v1.AccessService/RevokeKey",
            RevokeKeyRequest { id: id.to_owned() }
        );
        some(answer?.key)
    }

    /// Actions of administrators after an event (0: from the first), oldest first.
    pub fn audit(&self, after: i64) -> BoxStream<'static, Result<AuditEvent, Error>> {
        let calls = self.0.clone();
        let pages = stream::try_unfold((calls, Some(after)), |(calls, after)| async move {
            let Some(after) = after else { return Ok(None) };
            let request = ListAuditEventsRequest {
                after,
                ..ListAuditEventsRequest::default()
            };
            let answer = unary!(
                calls,
                AccessServiceClient.list_audit_events,
                "/isomer.gateway.v1.AccessService/ListAuditEvents",
                request
            )?;
            let last = answer.events.last().map(|event| event.seq);
            let next = last.filter(|last| *last < answer.head_seq);
            let events = stream::iter(answer.events.into_iter().map(Ok));
            Ok::<_, Error>(Some((events, (calls, next))))
        });
        pages.try_flatten().boxed()
    }
}
