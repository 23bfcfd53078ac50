//! Paths as clients of other servers write them.

use http::{Request, Uri, uri::PathAndQuery};

/// The paths of a server's HTTP routes, and other prefixes under which clients look for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    aliases: Vec<(&'static str, &'static str)>,
    known: Vec<&'static str>,
}

impl Paths {
    pub(crate) fn new(aliases: &[(&'static str, &'static str)], known: Vec<&'static str>) -> Self {
        Self {
            aliases: aliases.to_vec(),
            known,
        }
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.aliases.extend(other.aliases);
        self.known.extend(other.known);
        self
    }

    /// Replaces an alias by its prefix, and removes slashes at the end. Everything behind, such as
    /// authentication, sees only the path that is served.
    pub(crate) fn canonical<B>(&self, mut request: Request<B>) -> Request<B> {
        if let Some(path) = self.served(request.uri().path()) {
            let path = match request.uri().query() {
                Some(query) => format!("{path}?{query}"),
                None => path,
            };
            let mut parts = request.uri().clone().into_parts();
            parts.path_and_query = PathAndQuery::try_from(path).ok();
            if let Ok(uri) = Uri::from_parts(parts) {
                *request.uri_mut() = uri;
            }
        }
        request
    }

    /// The path that serves `path`; `None` if it is `path` itself.
    fn served(&self, path: &str) -> Option<String> {
        let trimmed = match path.trim_end_matches('/') {
            "" => "/",
            trimmed => trimmed,
        };
        for (alias, prefix) in &self.aliases {
            let Some(rest) = trimmed.strip_prefix(alias) else {
                continue;
            };
            if rest.is_empty() || rest.starts_with('/') {
                return Some(format!("{prefix}{rest}"));
            }
        }
        (trimmed != path).then(|| trimmed.to_owned())
    }

    /// A route that a client may have meant: one that lacks the beginning of the path, or has more
    /// in front of it.
    pub(crate) fn meant(&self, path: &str) -> Option<&'static str> {
        let is_meant =
            |known: &&str| known.len() > 1 && path.len() > 1 && (known.ends_with(path) || path.ends_with(*known));
        self.known.iter().copied().find(|known| is_meant(known))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn paths() -> Paths {
        let known = vec!["/", "/v1/embeddings", "/api/embed", "/embed"];
        Paths::new(&[("/openai/v1", "/v1"), ("/openai/models", "/v1/models")], known)
    }

    #[test]
    fn an_alias_and_a_slash_at_the_end_are_served_as_the_path_itself() {
        for (written, served) in [
            ("/openai/v1/embeddings", "/v1/embeddings"),
            ("/openai/v1/embeddings/?a=b/", "/v1/embeddings?a=b/"),
            ("/openai/v1", "/v1"),
            ("/openai/v10/embeddings", "/openai/v10/embeddings"),
            ("/openai/models", "/v1/models"),
            ("/openai/models/org/two", "/v1/models/org/two"),
            (
                "/openai/deployments/one/embeddings",
                "/openai/deployments/one/embeddings",
            ),
            ("/v1/models//", "/v1/models"),
            ("/", "/"),
            ("//", "/"),
            ("/a%2F", "/a%2F"),
            ("http://localhost:1/openai/v1/models", "http://localhost:1/v1/models"),
        ] {
            let request = Request::get(written).body(()).unwrap();
            assert_eq!(paths().canonical(request).uri().to_string(), served, "{written}");
        }
    }

    #[test]
    fn an_unknown_path_that_ends_like_a_route_hints_at_it() {
        for (path, meant) in [
            ("/embeddings", Some("/v1/embeddings")),
            ("/tei/one/v1/embeddings", Some("/v1/embeddings")),
            ("/v1/embed", Some("/embed")),
            ("/v1/completions", None),
            ("/", None),
        ] {
            assert_eq!(paths().meant(path), meant, "{path}");
        }
    }
}
