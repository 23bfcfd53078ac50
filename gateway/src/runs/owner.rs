//! Whose runs are whose: the gateway tells the evaluation service who asks, and that service keeps
//! runs apart by it.
//!
//! `CreateRun` always names the caller, whose run it becomes. Everything else names a caller that
//! may see only its own runs; an administrator, and whoever comes where access is not divided, is
//! not named and sees all.

use axum::{Router, extract::Request, middleware, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue};
use isomer_access::{Caller, Scope};
use isomer_service_kit::CALLER;

const NAME: HeaderName = HeaderName::from_static(CALLER);

/// RunService with its callers named.
pub(crate) fn named(routes: Router) -> Router {
    routes.layer(middleware::from_fn(name))
}

async fn name(mut request: Request, next: middleware::Next) -> Response {
    let creates = request.uri().path().ends_with("/CreateRun");
    let caller = request.extensions().get::<Caller>().cloned();
    set(request.headers_mut(), caller.as_ref(), creates);
    next.run(request).await
}

/// Replaces whatever the client says of itself.
fn set(headers: &mut HeaderMap, caller: Option<&Caller>, creates: bool) {
    headers.remove(NAME);
    let named = if creates {
        caller.filter(|caller| caller.is_counted()).map(Caller::principal)
    } else {
        viewer(caller)
    };
    // A principal that no header can hold would otherwise see everything.
    if let Some(principal) = named {
        let value = HeaderValue::from_str(principal).unwrap_or(HeaderValue::from_static("unknown"));
        headers.insert(NAME, value);
    }
}

/// Who may see only its own runs; absent: whoever sees all.
pub(crate) fn viewer(caller: Option<&Caller>) -> Option<&str> {
    caller
        .filter(|caller| caller.is_counted() && !caller.scopes().has(Scope::Admin))
        .map(Caller::principal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_access::{Access, AccessConfig, Limits, Mode, NewKey, Scopes};
    use isomer_database::Database;

    use super::*;

    async fn caller(scopes: &[Scope]) -> (String, Caller) {
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

    fn told(caller: Option<&Caller>, creates: bool) -> Option<String> {
        let mut headers = HeaderMap::new();
        // A client that says it is another.
        headers.insert(NAME, HeaderValue::from_static("key:another"));
        set(&mut headers, caller, creates);
        headers.get(NAME).map(|value| value.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn callers_are_named_and_cannot_name_themselves() {
        let (id, caller) = caller(&[Scope::Evaluate]).await;
        assert_eq!(told(Some(&caller), false), Some(id.clone()));
        assert_eq!(told(Some(&caller), true), Some(id));
        assert_eq!(told(None, false), None);
    }

    #[tokio::test]
    async fn an_administrator_sees_all_and_owns_what_it_makes() {
        let (id, caller) = caller(&[Scope::Evaluate, Scope::Admin]).await;
        assert_eq!(told(Some(&caller), false), None);
        assert_eq!(told(Some(&caller), true), Some(id));
    }
}
