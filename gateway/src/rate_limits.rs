//! Headers of HTTP answers that state the remaining allowance of the caller's limits, under
//! OpenAI's names.
//!
//! `requests` describes the rate limiter of this process: its capacity, the remaining part, and the
//! time until it is full again. `tokens` describes the budget with the fewest tokens left, before
//! this call's own are counted. A limit that the caller does not have has no headers.

use std::time::Duration;

use axum::{extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue};
use isomer_access::{Allowance, Caller, RemainingLimits};
use isomer_service_kit::{Next, Wrap, wrap};

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Adds these headers to answers.
pub(crate) fn shown() -> Wrap {
    wrap(show)
}

async fn show(request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned();
    let mut response = next.run(request).await;
    if let Some(caller) = caller {
        write(response.headers_mut(), &caller.remaining());
    }
    response
}

fn write(headers: &mut HeaderMap, limits: &RemainingLimits) {
    for (names, allowance) in [(REQUESTS, limits.requests), (TOKENS, limits.tokens)] {
        let Some(Allowance {
            limit,
            remaining,
            reset,
        }) = allowance
        else {
            continue;
        };
        let [limit_name, remaining_name, reset_name] = names;
        headers.insert(limit_name, limit.into());
        headers.insert(remaining_name, remaining.into());
        if let Some(value) = reset.and_then(|reset| HeaderValue::from_str(&span(reset)).ok()) {
            headers.insert(reset_name, value);
        }
    }
}

/// A duration in OpenAI's notation, rounded up: `120ms`, `1.5s`, `6m0s`, `23h59m0s`.
fn span(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    if millis < 1000 {
        return format!("{millis}ms");
    }
    if millis < 60_000 {
        return format!("{}s", millis as f64 / 1000.0);
    }
    let seconds = millis.div_ceil(1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_openai_writes_them_and_never_too_short() {
        for (millis, written) in [
            (0, "0ms"),
            (120, "120ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (360_000, "6m0s"),
            (60_001, "1m1s"),
            (86_340_000, "23h59m0s"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), written);
        }
        assert_eq!(span(Duration::from_nanos(1)), "1ms");
    }

    #[test]
    fn only_limits_that_there_are_have_headers() {
        let limits = RemainingLimits {
            requests: Some(Allowance {
                limit: 40,
                remaining: 39,
                reset: Some(Duration::from_millis(50)),
            }),
            tokens: Some(Allowance {
                limit: 1000,
                remaining: 0,
                reset: None,
            }),
        };
        let mut headers = HeaderMap::new();
        write(&mut headers, &limits);
        let got = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(got("x-ratelimit-limit-requests"), Some("40"));
        assert_eq!(got("x-ratelimit-remaining-requests"), Some("39"));
        assert_eq!(got("x-ratelimit-reset-requests"), Some("50ms"));
        assert_eq!(got("x-ratelimit-remaining-tokens"), Some("0"));
        assert_eq!(
            got("x-ratelimit-reset-tokens"),
            None,
            "a budget for all times is never reset"
        );
        let mut none = HeaderMap::new();
        write(&mut none, &RemainingLimits::default());
        assert!(none.is_empty());
    }
}
