//! Tokens of an identity provider, in place of a key.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use http::HeaderValue;
use tokio::sync::Mutex;

use crate::Error;

/// How long before its end a token is not sent any more.
const MARGIN: Duration = Duration::from_secs(30);

/// A token. Without an end it is asked for again only when a server refuses it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    value: String,
    expires_at: Option<SystemTime>,
}

impl Token {
    /// A token without an end.
    pub fn new(value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            expires_at: None,
        }
    }

    /// The same token, in force until then.
    #[must_use]
    pub fn expires_at(mut self, end: SystemTime) -> Self {
        self.expires_at = Some(end);
        self
    }

    fn is_usable(&self) -> bool {
        let end = self.expires_at.map(|end| end.checked_sub(MARGIN).unwrap_or(end));
        !self.value.is_empty() && end.is_none_or(|end| SystemTime::now() < end)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token itself.
        f.debug_struct("Token")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Gives tokens when they are needed: an async closure, or a type of your own. A client keeps a
/// token until it ends or a server refuses it.
pub trait TokenSource: Send + Sync {
    /// A new token.
    fn token(&self) -> BoxFuture<'_, Result<Token, Error>>;
}

impl<F, A> TokenSource for F
where
    F: Fn() -> A + Send + Sync,
    A: Future<Output = Result<Token, Error>> + Send + 'static,
{
    fn token(&self) -> BoxFuture<'_, Result<Token, Error>> {
        Box::pin(self())
    }
}

/// The token in use.
pub(crate) struct CachedToken {
    source: Box<dyn TokenSource>,
    // A tokio mutex: it is held while the source is asked, so that one caller asks for all.
    token: Mutex<Option<Token>>,
}

impl CachedToken {
    pub(crate) fn new(source: Box<dyn TokenSource>) -> Self {
        Self {
            source,
            token: Mutex::new(None),
        }
    }

    /// The header that carries the token.
    pub(crate) async fn header(&self) -> Result<HeaderValue, Error> {
        let mut kept = self.token.lock().await;
        let token = match kept.take().filter(Token::is_usable) {
            Some(token) => token,
            None => self.source.token().await?,
        };
        if token.value.is_empty() {
            return Err(Error::no_token("the token source gave an empty token"));
        }
        let header = bearer(&token.value);
        *kept = Some(token);
        header
    }

    /// Forgets a token that a server does not take, unless another one is in use by now.
    pub(crate) async fn refused(&self, header: &HeaderValue) {
        let mut kept = self.token.lock().await;
        if kept
            .as_ref()
            .is_some_and(|token| bearer(&token.value).is_ok_and(|used| used == header))
        {
            *kept = None;
        }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Error::no_token("the token holds characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for CachedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CachedToken")
    }
}
