//! Texts from third-party servers, made safe for our errors and logs.
//!
//! Some servers repeat the secret that they refuse. So secrets are removed here, where these texts
//! are received.

use std::time::Duration;

use http::{HeaderMap, header};
use isomer_service_kit::config::Secret;
use serde_json::Value;

/// Minimum length of a secret that is searched for, in bytes; a shorter one would be found in any
/// text.
const SHORTEST_HIDDEN: usize = 6;
/// Minimum length of a secret whose repetition is reported: shorter ones are placeholders (`none`,
/// `ollama`), which may be ordinary words.
const SHORTEST_SECRET: usize = 8;
/// Maximum length of a text that is passed on, in bytes.
const MOST: usize = 300;

/// A text without the secret.
pub fn hide(text: &str, secret: &Secret) -> String {
    match part(secret, SHORTEST_HIDDEN) {
        Some(secret) => text.replace(secret, "[secret]"),
        None => text.to_owned(),
    }
}

/// Whether a text contains the secret.
pub fn shows(text: &str, secret: &Secret) -> bool {
    part(secret, SHORTEST_SECRET).is_some_and(|secret| text.contains(secret))
}

fn part(secret: &Secret, shortest: usize) -> Option<&str> {
    secret.expose().map(str::trim).filter(|secret| secret.len() >= shortest)
}

/// A text for an error: without the secret and on one line. It is truncated last, so that no part
/// of a secret is left.
pub fn presentable(text: &str, secret: &Secret) -> String {
    let hidden = hide(text, secret);
    let words = hidden.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.len() <= MOST {
        return line;
    }
    format!("{}…", &line[..line.floor_char_boundary(MOST)])
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorBody {
    /// The message, made safe; empty if there is none.
    pub message: String,
    /// The code, or else the type; empty if there is none.
    pub code: String,
    /// The request parameter that is to blame; empty if none is named.
    pub parameter: String,
}

impl ErrorBody {
    /// Parses the common formats of servers: `{"error": {"message", "code"}}` (OpenAI, Jina),
    /// `{"error": "…"}` (text-embeddings-inference, Ollama, Hugging Face), `{"message": "…"}`
    /// (Cohere), `{"detail": "…"}` (Voyage), `{"detail": [{"msg": "…"}]}` (FastAPI), and plain
    /// text.
    pub fn read(body: &[u8], secret: &Secret) -> Self {
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return Self {
                message: presentable(&String::from_utf8_lossy(body), secret),
                ..Self::default()
            };
        };
        let inner = json.get("error").filter(|error| error.is_object()).unwrap_or(&json);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let message = text(inner.get("message"))
            .or_else(|| text(json.get("error")))
            .or_else(|| text(inner.get("detail")))
            .or_else(|| text(json.pointer("/detail/0/msg")))
            .or_else(|| text(Some(&json)))
            .unwrap_or_default();
        let code = text(inner.get("code")).or_else(|| text(inner.get("type")));
        Self {
            message: presentable(&message, secret),
            code: code.unwrap_or_default(),
            parameter: text(inner.get("param")).unwrap_or_default(),
        }
    }

    /// Whether the account has no money or quota left, so that retrying does not help.
    pub fn no_quota(&self) -> bool {
        matches!(self.code.as_str(), "insufficient_quota" | "billing_hard_limit_reached")
    }
}

/// Headers that give the time when a limit is renewed, each with the header of its remaining
/// amount.
const RENEWALS: [(&str, &str); 3] = [
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
];

/// The wait that a server requests: `retry-after-ms` (Azure), `Retry-After` (seconds or a date; a
/// past date means no wait), or the renewal of an exhausted limit (`x-ratelimit-reset-requests` and
/// the like: seconds, durations such as `6m0s`, or a time in seconds or milliseconds since 1970).
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let milliseconds = || Duration::try_from_secs_f64(text("retry-after-ms")?.parse::<f64>().ok()? / 1e3).ok();
    let renewal = || {
        let spent = RENEWALS.iter().filter(|(_, left)| text(left) == Some("0"));
        spent.filter_map(|(reset, _)| until_reset(text(reset)?)).max()
    };
    milliseconds()
        .or_else(|| seconds_or_date(text(header::RETRY_AFTER.as_str())?))
        .or_else(renewal)
}

/// The wait until a limit is renewed.
fn until_reset(value: &str) -> Option<Duration> {
    /// Larger numbers are times since 1970, in seconds: no server has a limit of a year.
    const YEAR: f64 = 365.0 * 86_400.0;
    let Ok(number) = value.parse::<f64>() else {
        // Go's format: `1h2m3.5s`, `20ms`.
        return Duration::try_from(value.parse::<jiff::SignedDuration>().ok()?).ok();
    };
    let seconds = if number > YEAR * 1e3 { number / 1e3 } else { number };
    if seconds <= YEAR {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let now = jiff::Timestamp::now().as_millisecond() as f64 / 1e3;
    Some(Duration::try_from_secs_f64(seconds - now).unwrap_or_default())
}

fn seconds_or_date(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    let wait = date.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default())
}

/// The innermost cause of an error: the outer ones of an HTTP client repeat the address.
pub fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(body: &str, secret: &str) -> ErrorBody {
        ErrorBody::read(body.as_bytes(), &Secret::new(secret))
    }

    #[test]
    fn messages_are_read_in_every_shape_and_never_show_the_secret() {
        for body in [
            r#"{"error": {"message": "bad key\nsk-secret-1", "type": "x"}}"#,
            r#"{"error": {"message": "bad key sk\u002dsecret-1"}}"#,
            r#"{"error": "bad key sk-secret-1"}"#,
            r#"{"message": "bad key sk-secret-1"}"#,
            r#"{"detail": "bad key sk-secret-1"}"#,
            r#"{"detail": [{"msg": "bad key sk-secret-1"}]}"#,
            "bad key\nsk-secret-1 \u{7}",
        ] {
            assert_eq!(read(body, " sk-secret-1 ").message, "bad key [secret]", "{body}");
        }
        let quota = read(
            r#"{"error": {"message": "no credit", "code": "insufficient_quota"}}"#,
            "",
        );
        assert!(quota.no_quota() && quota.code == "insufficient_quota");
        assert_eq!(read(r#"{"error": {"type": "overloaded"}}"#, "").code, "overloaded");
        assert_eq!(read("", ""), ErrorBody::default());
    }

    #[test]
    fn a_text_is_cut_after_the_secret_was_taken_out() {
        let long = format!("{}sk-hunter2", "x".repeat(MOST - 4));
        assert!(!read(&long, "sk-hunter2").message.contains("sk-"));
        assert_eq!(read(&"é".repeat(1000), "").message.len(), MOST + "…".len());
    }

    #[test]
    fn what_a_server_without_keys_is_given_is_no_secret() {
        assert_eq!(read("no model named none", "none").message, "no model named none");
        assert!(shows("the key sk-hunter2", &Secret::new("sk-hunter2")));
        assert!(!shows("ask ollama", &Secret::new("ollama")));
        assert!(!shows("anything", &Secret::default()));
    }

    #[test]
    fn waits_are_read_in_every_form() {
        let read = |lines: &[(&'static str, &str)]| {
            let lines = lines
                .iter()
                .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()));
            retry_after(&HeaderMap::from_iter(lines)).map(|wait| wait.as_millis())
        };
        assert_eq!(read(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(1500));
        assert_eq!(read(&[("retry-after-ms", "soon"), ("retry-after", "9")]), Some(9000));
        let spent = |reset: &str| {
            read(&[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", reset),
                ("x-ratelimit-remaining-tokens", "12"),
                ("x-ratelimit-reset-tokens", "1h"),
            ])
        };
        assert_eq!(spent("20ms"), Some(20));
        assert_eq!(spent("6m0s"), Some(360_000));
        assert_eq!(spent("1h0m1.5s"), Some(3_601_500));
        assert_eq!(spent("7.5"), Some(7500));
        assert_eq!(spent("later"), None);
        for unit in [1.0, 1e3] {
            let time = (jiff::Timestamp::now().as_second() as f64 + 100.0) * unit;
            let wait = spent(&time.to_string()).unwrap();
            assert!((95_000..=100_000).contains(&wait), "{wait}");
        }
        assert_eq!(spent("1700000000"), Some(0), "a time that has passed");
        // No header states that the limit is exhausted.
        assert_eq!(read(&[("x-ratelimit-reset-requests", "1s")]), None);
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        let read = |value: &str| {
            let value = value.parse().unwrap();
            retry_after(&HeaderMap::from_iter([(header::RETRY_AFTER, value)]))
        };
        assert_eq!(read("2"), Some(Duration::from_secs(2)));
        assert_eq!(read(" 0.5 "), Some(Duration::from_millis(500)));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("soon"), None);
        assert_eq!(read("-1"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
        let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(100);
        let text = jiff::fmt::rfc2822::to_string(&later.to_zoned(jiff::tz::TimeZone::UTC)).unwrap();
        let wait = read(&text).unwrap().as_secs();
        assert!((95..=100).contains(&wait), "{wait}");
    }
}
