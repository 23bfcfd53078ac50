//! The identity and scopes that a path requires of its caller.

use http::{Method, header, request::Parts};

use crate::{
    config::{AccessConfig, Requirement},
    scope::{Scope, Scopes},
};

/// The requirement of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// A valid identity, with at least these scopes.
    Scopes(Scopes),
}

/// The scopes that a request needs. Unknown paths need an identity, so that strangers cannot map
/// the server. An unknown Isomer service needs `admin`, so that a new service that was forgotten
/// here is closed, not open.
pub(crate) fn need(parts: &Parts, config: &AccessConfig) -> Need {
    if is_preflight(parts) {
        return Need::Nothing;
    }
    let path = parts.uri.path();
    match path {
        "/healthz" | "/readyz" | "/health" | "/ping" => return Need::Nothing,
        "/metrics" => return door(config.metrics),
        _ => {}
    }
    if is_encoding(&parts.method, path) {
        return of(&[Scope::Encode]);
    }
    if is_page(path) {
        return of(&[Scope::Evaluate]);
    }
    let service = path[1.min(path.len())..].split('/').next().unwrap_or_default();
    match service {
        "grpc.health.v1.Health" => Need::Nothing,
        "grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection" => door(config.reflection),
        "isomer.encoder.v1.EncoderService" => of(&[Scope::Encode]),
        _ if service.starts_with("tei.v1.") => of(&[Scope::Encode]),
        "isomer.transform.v1.TransformService" => of(&[Scope::Transform]),
        "isomer.transform.v1.AugmentationService" => of(&[Scope::Transform, Scope::Encode]),
        "isomer.eval.v1.TaskService" | "isomer.eval.v1.StatisticsService" | "isomer.eval.v1.RunService" => {
            of(&[Scope::Evaluate])
        }
        _ if service.starts_with("isomer.") => of(&[Scope::Admin]),
        _ => Need::Scopes(Scopes::NONE),
    }
}

/// Whether a path belongs to the HTTP APIs for encoding and reranking: those of OpenAI, Cohere,
/// Ollama and text-embeddings-inference, which also takes texts at the server's root path.
fn is_encoding(method: &Method, path: &str) -> bool {
    const BELOW: [&str; 5] = ["/v1/", "/v2/", "/openai/", "/api/", "/tei/"];
    const ALONE: [&str; 9] = [
        "/embed",
        "/embed_all",
        "/embed_sparse",
        "/rerank",
        "/predict",
        "/similarity",
        "/tokenize",
        "/decode",
        "/info",
    ];
    BELOW.iter().any(|prefix| path.starts_with(prefix))
        || ALONE.contains(&path)
        || (path == "/" && method == Method::POST)
}

/// Whether a request uses anything that a budget limits. A caller whose budget is used up may still
/// see, cancel and delete runs and read the reports of paid runs.
pub(crate) fn spends(parts: &Parts) -> bool {
    let path = parts.uri.path();
    let run = path.strip_prefix("/isomer.eval.v1.RunService/");
    !(path.starts_with("/runs/") || path.starts_with("/history/") || run.is_some_and(|method| method != "CreateRun"))
}

/// The pages that a browser opens. The browser asks the user for a password (`Basic`) and cannot
/// send `Bearer`.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/" || path == "/runs" || path.starts_with("/runs/") || path.starts_with("/history/")
}

/// A browser's CORS preflight. It carries no credentials by definition, and reaches only the
/// handler that answers preflights. A gRPC request has a content type, so it never counts as a
/// preflight.
fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(header::ORIGIN)
        && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && !parts.headers.contains_key(header::CONTENT_TYPE)
}

fn of(scopes: &[Scope]) -> Need {
    Need::Scopes(Scopes::of(scopes))
}

fn door(door: Requirement) -> Need {
    match door {
        Requirement::Open => Need::Nothing,
        Requirement::Identity => Need::Scopes(Scopes::NONE),
        Requirement::Admin => of(&[Scope::Admin]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(method: &str, path: &str, headers: &[(&str, &str)]) -> Need {
        let request = http::Request::builder().method(method).uri(path);
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        need(&request.body(()).unwrap().into_parts().0, &AccessConfig::default())
    }

    #[test]
    fn every_service_asks_for_its_scope() {
        for (path, scopes) in [
            ("/isomer.encoder.v1.EncoderService/Encode", &[Scope::Encode][..]),
            ("/tei.v1.Embed/EmbedStream", &[Scope::Encode]),
            ("/isomer.transform.v1.TransformService/Judge", &[Scope::Transform]),
            (
                "/isomer.transform.v1.AugmentationService/EncodeAugmented",
                &[Scope::Transform, Scope::Encode],
            ),
            ("/isomer.eval.v1.RunService/CreateRun", &[Scope::Evaluate]),
            ("/isomer.gateway.v1.ProviderService/ListProviders", &[Scope::Admin]),
            ("/isomer.gateway.v1.AccessService/CreateKey", &[Scope::Admin]),
            ("/isomer.encoder.v2.EncoderService/Encode", &[Scope::Admin]),
            ("/v1/embeddings", &[Scope::Encode]),
            ("/v1/models", &[Scope::Encode]),
            ("/v1/rerank", &[Scope::Encode]),
            ("/v2/rerank", &[Scope::Encode]),
            ("/api/embed", &[Scope::Encode]),
            ("/tei/one/embed", &[Scope::Encode]),
            ("/embed", &[Scope::Encode]),
            ("/info", &[Scope::Encode]),
            // The hub's client posts texts here; the page is requested with GET.
            ("/", &[Scope::Encode]),
            ("/openai/deployments/one/embeddings", &[Scope::Encode]),
            ("/runs/r1/report.html", &[Scope::Evaluate]),
            ("/history/history.html", &[Scope::Evaluate]),
            ("/metrics", &[]),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &[]),
            ("/nowhere", &[]),
            ("//healthz", &[]),
            ("/healthz/", &[]),
        ] {
            assert_eq!(asked("POST", path, &[]), of(scopes), "{path}");
        }
        assert_eq!(asked("GET", "/", &[]), of(&[Scope::Evaluate]));
        for path in [
            "/healthz",
            "/readyz",
            "/health",
            "/ping",
            "/grpc.health.v1.Health/Check",
        ] {
            assert_eq!(asked("GET", path, &[]), Need::Nothing, "{path}");
        }
    }

    #[test]
    fn seeing_and_stopping_runs_uses_up_nothing() {
        let spent = |path: &str| spends(&http::Request::post(path).body(()).unwrap().into_parts().0);
        for path in ["GetRun", "WatchRun", "CancelRun", "GetReport", "GetHistory"] {
            assert!(!spent(&format!("/isomer.eval.v1.RunService/{path}")), "{path}");
        }
        assert!(!spent("/runs/r1/report.html"));
        assert!(!spent("/history/history.html"));
        for path in [
            "/isomer.eval.v1.RunService/CreateRun",
            "/isomer.eval.v1.TaskService/Score",
            "/v1/embeddings",
            "/",
        ] {
            assert!(spent(path), "{path}");
        }
    }

    #[test]
    fn a_preflight_passes_and_nothing_that_only_looks_like_one() {
        let origin = ("origin", "https://app.example");
        let wish = ("access-control-request-method", "POST");
        assert_eq!(asked("OPTIONS", "/v1/embeddings", &[origin, wish]), Need::Nothing);
        let grpc = ("content-type", "application/grpc");
        let path = "/isomer.encoder.v1.EncoderService/Encode";
        assert_eq!(asked("OPTIONS", path, &[origin, wish, grpc]), of(&[Scope::Encode]));
        assert_eq!(asked("OPTIONS", path, &[origin]), of(&[Scope::Encode]));
        assert_eq!(asked("POST", path, &[origin, wish]), of(&[Scope::Encode]));
    }
}
