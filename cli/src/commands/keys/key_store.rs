//! Storage of keys: in the gateway's database, or behind a gateway at `--server`.

use isomer_access::{AuditEvent, AuditHead, KeyChange, Keys, NewKey, wire_key, wire_limits, wire_time};
use isomer_client::Channel;
use isomer_database::Database;
use isomer_proto::gateway::v1::{
    ApiKey, CreateKeyRequest, GetKeyRequest, ListAuditEventsRequest, ListKeysRequest, RevokeKeyRequest,
    UpdateKeyRequest, access_service_client::AccessServiceClient,
};
use isomer_service_kit::config::Secret;

use crate::{
    connect::{self, Session},
    exit::Failure,
};

/// The place where keys are stored.
pub(super) enum KeyStore {
    Database { keys: Keys, who: String },
    Server(Box<AccessServiceClient<Channel>>),
}

impl KeyStore {
    pub(super) async fn open(session: &Session, database: Option<&str>) -> Result<Self, Failure> {
        if session.global.server.is_some() {
            if database.is_some() {
                return Err(Failure::usage(
                    "--database and --server: name one of them, the place where the keys are",
                ));
            }
            let channel = connect::remote(&session.global).await?;
            return Ok(Self::Server(Box::new(AccessServiceClient::new(channel))));
        }
        let (config, home) = (&session.config, &session.config.models.home);
        // The file in the home folder belongs to the configured database.
        let (address, head_file) = match database {
            Some(address) => (address.to_owned(), None),
            None => (
                config.database.address(home),
                config.access.clone().at_home(home).head_file(),
            ),
        };
        Ok(Self::Database {
            keys: Keys::open(Database::open(&address).await?)
                .await?
                .with_head_file(head_file),
            who: who(),
        })
    }

    /// The newest event of the audit log that is known to have been acknowledged, according to the
    /// file of this machine.
    pub(super) fn acknowledged(&self) -> Result<AuditHead, Failure> {
        match self {
            Self::Database { keys, .. } => Ok(keys.acknowledged()?.unwrap_or_default()),
            Self::Server(_) => Ok(AuditHead::default()),
        }
    }

    pub(super) async fn create(&mut self, properties: NewKey) -> Result<(ApiKey, String), Failure> {
        match self {
            Self::Database { keys, who } => {
                let (record, secret) = keys.create(who, properties).await?;
                Ok((wire_key(&record, None), secret.expose().unwrap_or_default().to_owned()))
            }
            Self::Server(client) => {
                let key = ApiKey {
                    name: properties.name,
                    scopes: properties.scopes.iter().map(Into::into).collect(),
                    limits: Some(wire_limits(&properties.limits)),
                    expire_time: properties.expires.map(wire_time),
                    ..ApiKey::default()
                };
                let answer = client
                    .create_key(CreateKeyRequest { key: Some(key) })
                    .await?
                    .into_inner();
                Ok((there(answer.key)?, answer.secret))
            }
        }
    }

    pub(super) async fn import(&mut self, properties: NewKey, text: Secret) -> Result<(ApiKey, bool), Failure> {
        match self {
            Self::Database { keys, who } => {
                let (record, new) = keys.import(who, &text, properties).await?;
                Ok((wire_key(&record, None), new))
            }
            // A gateway itself generates the keys that it is asked to create.
            Self::Server(_) => Err(Failure::usage(
                "--server: keys are imported into the gateway's database directly; name it with --database or in the \
                 configuration (database.url), and leave --server out",
            )),
        }
    }

    pub(super) async fn list(&mut self) -> Result<Vec<ApiKey>, Failure> {
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let next = match self {
                Self::Database { keys, .. } => {
                    let (page, next) = keys.list(0, &token).await?;
                    all.extend(page.iter().map(|(record, usage)| wire_key(record, Some(usage))));
                    next
                }
                Self::Server(client) => {
                    let request = ListKeysRequest {
                        page_token: token,
                        ..ListKeysRequest::default()
                    };
                    let page = client.list_keys(request).await?.into_inner();
                    all.extend(page.keys);
                    page.next_page_token
                }
            };
            if next.is_empty() {
                return Ok(all);
            }
            token = next;
        }
    }

    pub(super) async fn show(&mut self, id: &str) -> Result<ApiKey, Failure> {
        match self {
            Self::Database { keys, .. } => {
                let (record, usage) = keys.get(id).await?;
                Ok(wire_key(&record, Some(&usage)))
            }
            Self::Server(client) => {
                let request = GetKeyRequest { id: id.to_owned() };
                there(client.get_key(request).await?.into_inner().key)
            }
        }
    }

    pub(super) async fn update(&mut self, id: &str, change: KeyChange) -> Result<ApiKey, Failure> {
        match self {
            Self::Database { keys, who } => {
                let (record, usage) = keys.update(who, id, change).await?;
                Ok(wire_key(&record, Some(&usage)))
            }
            Self::Server(client) => {
                let named = [
                    ("name", change.name.is_some()),
                    ("scopes", change.scopes.is_some()),
                    ("limits", change.limits.is_some()),
                    ("expire_time", change.expires.is_some()),
                ];
                let paths = named
                    .into_iter()
                    .filter(|(_, given)| *given)
                    .map(|(path, _)| path.to_owned());
                let request = UpdateKeyRequest {
                    update_mask: Some(prost_types::FieldMask { paths: paths.collect() }),
                    key: Some(ApiKey {
                        id: id.to_owned(),
                        name: change.name.unwrap_or_default(),
                        scopes: change.scopes.unwrap_or_default().iter().map(Into::into).collect(),
                        limits: change.limits.as_ref().map(wire_limits),
                        expire_time: change.expires.flatten().map(wire_time),
                        ..ApiKey::default()
                    }),
                };
                there(client.update_key(request).await?.into_inner().key)
            }
        }
    }

    pub(super) async fn revoke(&mut self, id: &str) -> Result<ApiKey, Failure> {
        match self {
            Self::Database { keys, who } => Ok(wire_key(&keys.revoke(who, id).await?, None)),
            Self::Server(client) => {
                let request = RevokeKeyRequest { id: id.to_owned() };
                there(client.revoke_key(request).await?.into_inner().key)
            }
        }
    }

    /// Events after a number, and the head that was read after them. The head is never behind the
    /// events, unless the log was reset.
    pub(super) async fn audit(&mut self, after: i64) -> Result<(Vec<AuditEvent>, AuditHead), Failure> {
        match self {
            Self::Database { keys, .. } => {
                let events = keys.audit_events(after, 0).await?;
                Ok((events, keys.audit_head().await?))
            }
            Self::Server(client) => {
                let request = ListAuditEventsRequest { after, page_size: 0 };
                let answer = client.list_audit_events(request).await?.into_inner();
                let events = answer
                    .events
                    .into_iter()
                    .map(AuditEvent::try_from)
                    .collect::<Result<_, _>>()?;
                let head = AuditHead {
                    seq: answer.head_seq,
                    hash: answer.head_hash,
                };
                Ok((events, head))
            }
        }
    }
}

fn there(key: Option<ApiKey>) -> Result<ApiKey, Failure> {
    key.ok_or_else(|| Failure::dependency("the server's answer has no key in it"))
}

/// The actor for the audit log: the user id reported by the system. A variable such as `USER` could
/// be set by anyone.
#[cfg(unix)]
fn who() -> String {
    format!("local:uid {}", rustix::process::getuid().as_raw())
}

/// The actor for the audit log.
#[cfg(not(unix))]
fn who() -> String {
    let user = std::env::var("USERNAME");
    format!("local:{}", user.as_deref().unwrap_or("unknown"))
}
