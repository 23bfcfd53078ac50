//! The refusals. Their reasons are part of the public interface.

use std::time::Duration;

use isomer_proto::{
    ProtoEnum,
    gateway::v1::{AccessScope, BudgetPeriod},
};
use isomer_service_kit::Fault;
use tonic::Code;

/// How to create a key; part of every hint about a missing key.
pub(crate) const MAKE_A_KEY: &str = "make a key with `isomer keys create --name NAME --scope encode`";

fn unauthenticated(reason: &str, message: impl Into<String>) -> Fault {
    Fault::new(Code::Unauthenticated, reason, message)
}

pub(crate) fn no_key() -> Fault {
    unauthenticated("NO_KEY", "this server wants a key").hint(format!(
        "send `authorization: Bearer KEY` (the command line: ISOMER_API_KEY); {MAKE_A_KEY}"
    ))
}

pub(crate) fn several(one: &str, other: &str) -> Fault {
    let problem = format!("the headers `{one}` and `{other}` carry different keys");
    unauthenticated("SEVERAL_CREDENTIALS", problem).hint(format!("send one of them, `{one}` or `{other}`"))
}

pub(crate) fn twice(header: &str) -> Fault {
    unauthenticated(
        "SEVERAL_CREDENTIALS",
        format!("the request has the header `{header}` twice"),
    )
    .hint("send it once")
}

pub(crate) fn bad_header(header: &str, why: &str) -> Fault {
    unauthenticated("BAD_HEADER", format!("the header `{header}` {why}"))
        .hint("send `authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`")
}

pub(crate) fn mistyped() -> Fault {
    unauthenticated(
        "MISTYPED_KEY",
        "the key's checksum is wrong: it is mistyped or cut short",
    )
    .hint("copy the whole key: `iso_` and 62 more characters")
}

pub(crate) fn unknown_key() -> Fault {
    unauthenticated("UNKNOWN_KEY", "no such key here").hint(format!(
        "check that the key was made for this gateway's database; {MAKE_A_KEY}"
    ))
}

pub(crate) fn not_ours() -> Fault {
    unauthenticated(
        "UNKNOWN_KEY",
        "this is not a key of this gateway (they begin with `iso_`)",
    )
    .hint(MAKE_A_KEY)
}

pub(crate) fn revoked(id: &str) -> Fault {
    unauthenticated("REVOKED_KEY", format!("the key iso_{id} was revoked"))
        .hint("ask for a new one")
        .with("key_id", id)
}

pub(crate) fn expired(id: &str, when: &str) -> Fault {
    unauthenticated("EXPIRED_KEY", format!("the key iso_{id} expired at {when}"))
        .hint("ask for a new one")
        .with("key_id", id)
}

pub(crate) fn bad_token(why: impl std::fmt::Display) -> Fault {
    unauthenticated("BAD_TOKEN", format!("the token is not accepted: {why}"))
        .hint("ask the identity provider for a new one")
}

pub(crate) fn expired_token() -> Fault {
    unauthenticated("EXPIRED_TOKEN", "the token has expired").hint("ask the identity provider for a new one")
}

pub(crate) fn wrong_scope(name: &str, scope: AccessScope) -> Fault {
    Fault::new(
        Code::PermissionDenied,
        "WRONG_SCOPE",
        format!("{name} lacks the scope `{}`, which this needs", scope.name()),
    )
    .hint(format!("use a key with the scope {}", scope.name()))
    .with("scope", scope.name())
}

pub(crate) fn foreign_host(header: &str, host: &str) -> Fault {
    Fault::new(
        Code::PermissionDenied,
        "FOREIGN_HOST",
        format!("this server is open to its own machine only, and `{header}` says `{host}`"),
    )
    .hint(
        "ask at 127.0.0.1 or localhost; to serve under another name write access.mode = \"required\", or \"open\" if anyone may \
         come",
    )
}

pub(crate) fn foreign_origin(origin: &str) -> Fault {
    Fault::new(
        Code::PermissionDenied,
        "FOREIGN_ORIGIN",
        format!("a page of `{origin}` asks, and this server is open to its own machine only"),
    )
    .hint(
        "name that origin in web.allowed_origins of the server's configuration; `*` counts only where \
         callers must send a key (access.mode = \"required\")",
    )
}

pub(crate) fn unknown_page() -> Fault {
    Fault::new(
        Code::PermissionDenied,
        "UNKNOWN_PAGE",
        "the browser does not say which page asked for this trial; it was not run",
    )
    .hint("open the page over https or on the gateway's own machine, or send the key as `authorization: Bearer KEY`")
}

pub(crate) fn rate_limited(name: &str, rate: f64, wait: Duration) -> Fault {
    Fault::new(
        Code::ResourceExhausted,
        "RATE_LIMITED",
        format!("{name} may make {rate} requests a second"),
    )
    .hint("wait and try again, or ask for a higher limit")
    .retry_after(wait)
}

pub(crate) fn too_many_at_once(name: &str, most: u32) -> Fault {
    Fault::new(
        Code::ResourceExhausted,
        "TOO_MANY_AT_ONCE",
        format!("{name} may have {most} requests in flight"),
    )
    .hint("wait for answers before sending more")
    .retry_after(Duration::from_millis(100))
}

/// Requests in flight may use up the rest of a budget.
pub(crate) fn budget_reserved(name: &str, per: BudgetPeriod, what: &str) -> Fault {
    let message = format!("what is left of {name}'s budget of {what} is reserved for its requests in flight");
    Fault::new(Code::ResourceExhausted, "BUDGET_RESERVED", message)
        .with("per", per.name())
        .hint("wait for them to end, send fewer requests at once, or ask for a larger budget")
        .retry_after(Duration::from_secs(1))
}

pub(crate) fn over_budget(name: &str, per: BudgetPeriod, what: &str, wait: Option<Duration>) -> Fault {
    let whole = match per {
        BudgetPeriod::Day => "for today (UTC)",
        BudgetPeriod::Month => "for this month (UTC)",
        BudgetPeriod::Total | BudgetPeriod::Unspecified => "in total",
    };
    let fault = Fault::new(
        Code::ResourceExhausted,
        "BUDGET_EXCEEDED",
        format!("{name} has used up its budget of {what} {whole}"),
    )
    .with("per", per.name());
    match wait {
        Some(wait) => fault
            .hint("wait for the next period, or ask for a larger budget")
            .retry_after(wait),
        None => fault.hint("ask for a larger budget, or for another key"),
    }
}
