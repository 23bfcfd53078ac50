//! The identity and scopes that a path requires of its caller.

use http::{Method, header, request::Parts};
use isomer_proto::gateway::v1::AccessScope;

use crate::{
    config::{AccessConfig, Requirement},
    scope::Scopes,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathRequirement {
    Nothing,
    /// A valid identity, with at least these scopes.
    Scopes(Scopes),
}

/// The scopes that a request needs. Unknown paths need an identity, so that strangers cannot map
/// the server. An unknown Isomer service needs `admin`, so that a new service that was forgotten
/// here is closed, not open.
pub(crate) fn need(parts: &Parts, config: &AccessConfig) -> PathRequirement {
    if is_preflight(parts) {
        return PathRequirement::Nothing;
    }
    let path = parts.uri.path();
    match path {
        "/healthz" | "/readyz" | "/health" | "/ping" => return PathRequirement::Nothing,
        "/metrics" => return door(config.metrics),
        _ => {}
    }
    if is_encoding(&parts.method, path) {
        return of(&[AccessScope::Encode]);
    }
    if is_page(path) {
        return of(&[AccessScope::Evaluate]);
    }
    let service = path[1.min(path.len())..].split('/').next().unwrap_or_default();
    match service {
        "grpc.health.v1.Health" => PathRequirement::Nothing,
        "grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection" => door(config.reflection),
        "isomer.encoder.v1.EncoderService" => of(&[AccessScope::Encode]),
        _ if service.starts_with("tei.v1.") => of(&[AccessScope::Encode]),
        "isomer.transform.v1.TransformService" => of(&[AccessScope::Transform]),
        "isomer.transform.v1.AugmentationService" => of(&[AccessScope::Transform, AccessScope::Encode]),
        "isomer.eval.v1.TaskService" | "isomer.eval.v1.StatisticsService" | "isomer.eval.v1.RunService" => {
            of(&[AccessScope::Evaluate])
        }
        _ if service.starts_with("isomer.") => of(&[AccessScope::Admin]),
        _ => PathRequirement::Scopes(Scopes::NONE),
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

fn of(scopes: &[AccessScope]) -> PathRequirement {
    PathRequirement::Scopes(Scopes::of(scopes))
}

fn door(door: Requirement) -> PathRequirement {
    match door {
        Requirement::Open => PathRequirement::Nothing,
        Requirement::Identity => PathRequirement::Scopes(Scopes::NONE),
        Requirement::Admin => of(&[AccessScope::Admin]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(method: &str, path: &str, headers: &[(&str, &str)]) -> PathRequirement {
        let request = http::Request::builder().method(method).uri(path);
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        need(&request.body(()).unwrap().into_parts().0, &AccessConfig::default())
    }

    #[test]
    fn every_service_asks_for_its_scope() {
        for (path, scopes) in [
            ("/isomer.encoder.v1.EncoderService/Encode", &[AccessScope::Encode][..]),
            ("/tei.v1.Embed/EmbedStream", &[AccessScope::Encode]),
            ("/isomer.transform.v1.TransformService/Judge", &[AccessScope::Transform]),
            (
                "/isomer.transform.v1.AugmentationService/EncodeAugmented",
                &[AccessScope::Transform, AccessScope::Encode],
            ),
            ("/isomer.eval.v1.RunService/CreateRun", &[AccessScope::Evaluate]),
            (
                "/isomer.gateway.v1.ProviderService/ListProviders",
                &[AccessScope::Admin],
            ),
            ("/isomer.gateway.v1.AccessService/CreateKey", &[AccessScope::Admin]),
            ("/isomer.encoder.v2.EncoderService/Encode", &[AccessScope::Admin]),
            ("/v1/embeddings", &[AccessScope::Encode]),
            ("/v1/models", &[AccessScope::Encode]),
            ("/v1/rerank", &[AccessScope::Encode]),
            ("/v2/rerank", &[AccessScope::Encode]),
            ("/api/embed", &[AccessScope::Encode]),
            ("/tei/one/embed", &[AccessScope::Encode]),
            ("/embed", &[AccessScope::Encode]),
            ("/info", &[AccessScope::Encode]),
            // The hub's client posts texts here; the page is requested with GET.
            ("/", &[AccessScope::Encode]),
            ("/openai/deployments/one/embeddings", &[AccessScope::Encode]),
            ("/runs/r1/report.html", &[AccessScope::Evaluate]),
            ("/history/history.html", &[AccessScope::Evaluate]),
            ("/metrics", &[]),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &[]),
            ("/nowhere", &[]),
            ("//healthz", &[]),
            ("/healthz/", &[]),
        ] {
            assert_eq!(asked("POST", path, &[]), of(scopes), "{path}");
        }
        assert_eq!(asked("GET", "/", &[]), of(&[AccessScope::Evaluate]));
        for path in [
            "/healthz",
            "/readyz",
            "/health",
            "/ping",
            "/grpc.health.v1.Health/Check",
        ] {
            assert_eq!(asked("GET", path, &[]), PathRequirement::Nothing, "{path}");
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
        assert_eq!(
            asked("OPTIONS", "/v1/embeddings", &[origin, wish]),
            PathRequirement::Nothing
        );
        let grpc = ("content-type", "application/grpc");
        let path = "/isomer.encoder.v1.EncoderService/Encode";
        assert_eq!(
            asked("OPTIONS", path, &[origin, wish, grpc]),
            of(&[AccessScope::Encode])
        );
        assert_eq!(asked("OPTIONS", path, &[origin]), of(&[AccessScope::Encode]));
        assert_eq!(asked("POST", path, &[origin, wish]), of(&[AccessScope::Encode]));
    }
}
