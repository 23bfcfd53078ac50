//! Requests, and access with keys.

use http::request::Parts;
use isomer_access::{Access, AccessConfig, AccessScope, Caller, Keys, Limits, Mode, NewKey, Scopes};
use isomer_database::Database;
use isomer_service_kit::Fault;

pub(crate) const ENCODE: &str = "/isomer.encoder.v1.EncoderService/Encode";
pub(crate) const KEYS: &str = "/isomer.gateway.v1.AccessService/CreateKey";

/// Access that requires a key of every caller.
pub(crate) async fn door() -> Access {
    door_with(AccessConfig {
        mode: Mode::Required,
        ..AccessConfig::default()
    })
    .await
}

/// Access of one more gateway on `database`.
pub(crate) async fn open(database: &str) -> Access {
    let config = AccessConfig {
        mode: Mode::Required,
        ..AccessConfig::default()
    };
    Access::open(config, Database::open(database).await.unwrap())
        .await
        .unwrap()
}

pub(crate) async fn door_with(config: AccessConfig) -> Access {
    let database = Database::open("sqlite::memory:").await.unwrap();
    Access::open(config, database).await.unwrap()
}

pub(crate) fn request(path: &str, headers: &[(&str, &str)]) -> Parts {
    let request = http::Request::builder().method("POST").uri(path);
    let request = headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

/// The caller that was admitted.
pub(crate) async fn ask(access: &Access, path: &str, headers: &[(&str, &str)]) -> Result<Caller, Fault> {
    let mut parts = request(path, headers);
    access.admit(&mut parts).await?;
    Ok(parts
        .extensions
        .get::<Caller>()
        .expect("an admitted request has a caller")
        .clone())
}

pub(crate) async fn ask_with(access: &Access, path: &str, key: &str) -> Result<Caller, Fault> {
    ask(access, path, &[("authorization", &format!("Bearer {key}"))]).await
}

pub(crate) fn key(scopes: &[AccessScope], limits: Limits) -> NewKey {
    NewKey {
        name: "team".to_owned(),
        scopes: Scopes::of(scopes),
        limits,
        expires: None,
    }
}

/// The id and text of a new key.
pub(crate) async fn make(keys: &Keys, new: NewKey) -> (String, String) {
    let (record, text) = keys.create("test", new).await.unwrap();
    (record.id, text.expose().unwrap().to_owned())
}
