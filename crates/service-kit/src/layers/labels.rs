//! The names of a request in spans and metrics. They come from a bounded set, whatever a client
//! sends.

use std::{collections::HashMap, sync::Arc};

use axum::extract::MatchedPath;
use http::Request;
use metrics::SharedString;
use prost::Message;
use prost_types::FileDescriptorSet;

use super::elements::Shapes;

pub(super) const OTHER: &str = "other";
const HTTP: &str = "http";
/// Services whose calls are answered however busy the server is, and ended at once when it closes.
const PROBE_SERVICES: &[&str] = &[
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];
const PROBE_PATHS: &[&str] = &["/healthz", "/readyz", "/health", "/ping", "/metrics"];

/// Names of a request.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    /// Full name of the gRPC service, or `http`, or `other`.
    pub(crate) service: SharedString,
    /// Method of the service, or `GET /route`, or `other`.
    pub(crate) method: SharedString,
    /// Whether it is a health, reflection or metrics request.
    pub(crate) probe: bool,
    /// Whether the answer is a stream of messages.
    pub(crate) streams: bool,
    /// Whether the request is a stream of messages.
    pub(crate) client_streams: bool,
    /// Whether the methods of the service are known. If so, any other method does not exist.
    pub(crate) described: bool,
    /// Type of the request's message, if known.
    pub(crate) message: Option<usize>,
}

impl Label {
    /// Names of a call to a unary method, known at the call site.
    pub(super) fn unary(service: &'static str, method: &'static str) -> Self {
        Self {
            service: service.into(),
            method: method.into(),
            probe: false,
            streams: false,
            client_streams: false,
            described: true,
            message: None,
        }
    }
}

/// The gRPC methods of a server.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    methods: Arc<HashMap<String, Label>>,
    services: Arc<[&'static str]>,
    shapes: Arc<Shapes>,
}

impl Labels {
    /// The methods of the services in `names` that the descriptor sets describe. All others are
    /// named `other`.
    pub(crate) fn new(names: &[&'static str], descriptor_sets: &[&[u8]]) -> Self {
        let sets = descriptor_sets
            .iter()
            .filter_map(|bytes| FileDescriptorSet::decode(*bytes).ok());
        let sets: Vec<FileDescriptorSet> = sets.collect();
        let shapes = Shapes::new(&sets);
        let mut methods = HashMap::new();
        for file in sets.iter().flat_map(|set| &set.file) {
            for service in &file.service {
                let full = format!("{}.{}", file.package(), service.name());
                if !names.contains(&full.as_str()) {
                    continue;
                }
                let shared: Arc<str> = Arc::from(full.as_str());
                for method in &service.method {
                    let label = Label {
                        service: Arc::clone(&shared).into(),
                        method: Arc::<str>::from(method.name()).into(),
                        probe: PROBE_SERVICES.contains(&full.as_str()),
                        streams: method.server_streaming(),
                        client_streams: method.client_streaming(),
                        described: true,
                        message: shapes.message(method.input_type()),
                    };
                    methods.insert(format!("/{full}/{}", method.name()), label);
                }
            }
        }
        Self {
            methods: Arc::new(methods),
            services: Arc::from(names),
            shapes: Arc::new(shapes),
        }
    }

    pub(super) fn shapes(&self) -> Arc<Shapes> {
        Arc::clone(&self.shapes)
    }

    /// Names of a gRPC request.
    pub(crate) fn grpc(&self, path: &str) -> Label {
        if let Some(label) = self.methods.get(path) {
            return label.clone();
        }
        let asked = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let service = self
            .services
            .iter()
            .find(|known| **known == asked)
            .copied()
            .unwrap_or(OTHER);
        Label {
            service: service.into(),
            method: OTHER.into(),
            probe: false,
            streams: false,
            client_streams: false,
            described: self.methods.values().any(|label| *label.service == *service),
            message: None,
        }
    }

    /// Whether a path is that of a described rpc.
    pub(crate) fn is_rpc(&self, path: &str) -> bool {
        self.methods.contains_key(path)
    }

    /// Names of an HTTP request: the declared route, never the requested path.
    pub(crate) fn http<B>(request: &Request<B>) -> Label {
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let verb = match request.method().as_str() {
            known @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS") => known,
            _ => "OTHER",
        };
        let method = route.map_or_else(|| OTHER.into(), |route| format!("{verb} {route}").into());
        let probe = route.is_some_and(|route| PROBE_PATHS.contains(&route));
        Label {
            service: HTTP.into(),
            method,
            probe,
            streams: false,
            client_streams: false,
            described: true,
            message: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        let names = [
            "isomer.encoder.v1.EncoderService",
            "grpc.health.v1.Health",
            "acme.Proxied",
        ];
        Labels::new(
            &names,
            &[isomer_proto::FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET],
        )
    }

    #[test]
    fn a_known_method_is_called_by_its_name() {
        let label = labels().grpc("/isomer.encoder.v1.EncoderService/EncodeStream");
        assert_eq!(
            (&*label.service, &*label.method),
            ("isomer.encoder.v1.EncoderService", "EncodeStream")
        );
        assert!(label.streams && label.client_streams && !label.probe);
        let watch = labels().grpc("/grpc.health.v1.Health/Watch");
        assert!(
            watch.streams && !watch.client_streams,
            "its answer streams, its request does not"
        );
        assert!(labels().grpc("/grpc.health.v1.Health/Check").probe);
    }

    #[test]
    fn what_a_client_makes_up_is_called_other() {
        for path in ["/isomer.encoder.v1.EncoderService/Xyzzy", "/acme.Proxied/Anything"] {
            assert_eq!(&*labels().grpc(path).method, "other", "{path}");
        }
        assert!(labels().grpc("/isomer.encoder.v1.EncoderService/Xyzzy").described);
        assert!(!labels().grpc("/acme.Proxied/Anything").described);
        // Described, but not served here.
        assert_eq!(&*labels().grpc("/isomer.eval.v1.RunService/CreateRun").service, "other");
        let request = Request::builder()
            .method("BREW")
            .uri("/made/up")
            .body(())
            .unwrap_or_default();
        assert_eq!(&*Labels::http(&request).method, "other");
    }
}
