//! Ownership of runs: the gateway sends the caller of a request to the evaluation service, which
//! keeps the runs of callers separate.
//!
//! `CreateRun` always names the caller, which then owns the run. All other calls name a caller that
//! may see only its own runs. Administrators, and callers without access control, are not named and
//! see all runs.

use axum::{extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue};
use isomer_access::{AccessScope, Caller};
use isomer_service_kit::{CALLER, Next, Wrap, wrap};

const NAME: HeaderName = HeaderName::from_static(CALLER);

/// Names the caller of RunService in a header.
pub(crate) fn named() -> Wrap {
    wrap(name)
}

async fn name(mut request: Request, next: Next) -> Response {
    let creates = request.uri().path().ends_with("/CreateRun");
    let caller = request.extensions().get::<Caller>().cloned();
    set(request.headers_mut(), caller.as_ref(), creates);
    next.run(request).await
}

/// Replaces any value of the header from the client.
fn set(headers: &mut HeaderMap, caller: Option<&Caller>, creates: bool) {
    headers.remove(NAME);
    let named = if creates {
        caller.filter(|caller| caller.is_counted()).map(Caller::principal)
    } else {
        viewer(caller)
    };
    // Without this, a principal that does not fit a header would see everything.
    if let Some(principal) = named {
        let value = HeaderValue::from_str(principal).unwrap_or(HeaderValue::from_static("unknown"));
        headers.insert(NAME, value);
    }
}

/// The caller that may see only its own runs; `None` for one that sees all runs.
pub(crate) fn viewer(caller: Option<&Caller>) -> Option<&str> {
    caller
        .filter(|caller| caller.is_counted() && !caller.scopes().has(AccessScope::Admin))
        .map(Caller::principal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_access::{Access, AccessConfig, Limits, Mode, NewKey, Scopes};
    use isomer_database::Database;

    use super::*;

    async fn caller(scopes: &[AccessScope]) -> (String, Caller) {
        let database = Database::open("sqlite::memory:").await.unwrap();
        let config = AccessConfig {
            mode: Mode::Required,
            ..AccessConfig::default()
        };
        let access = Access::open(config, database).await.unwrap();
        let new = NewKey {
            name: "team".to_owned(),
            scopes: Scopes::of(scopes),
            limits: Limits::default(),
            expires: None,
        };
        let (record, secret) = access.keys().create("test", new).await.unwrap();
        let secret = secret.expose().unwrap();
        let request = http::Request::builder()
            .uri("/isomer.eval.v1.RunService/ListRuns")
            .header("authorization", format!("Bearer {secret}"));
        let mut parts = request.body(()).unwrap().into_parts().0;
        access.admit(&mut parts).await.unwrap();
        (
            format!("key:{}", record.id),
            parts.extensions.get::<Caller>().unwrap().clone(),
        )
    }

    fn owner_header(caller: Option<&Caller>, creates: bool) -> Option<String> {
        let mut headers = HeaderMap::new();
        // The client claims to be another caller.
        headers.insert(NAME, HeaderValue::from_static("key:another"));
        set(&mut headers, caller, creates);
        headers.get(NAME).map(|value| value.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn callers_are_named_and_cannot_name_themselves() {
        let (id, caller) = caller(&[AccessScope::Evaluate]).await;
        assert_eq!(owner_header(Some(&caller), false), Some(id.clone()));
        assert_eq!(owner_header(Some(&caller), true), Some(id));
        assert_eq!(owner_header(None, false), None);
    }

    #[tokio::test]
    async fn an_administrator_sees_all_and_owns_what_it_makes() {
        let (id, caller) = caller(&[AccessScope::Evaluate, AccessScope::Admin]).await;
        assert_eq!(owner_header(Some(&caller), false), None);
        assert_eq!(owner_header(Some(&caller), true), Some(id));
    }
}
