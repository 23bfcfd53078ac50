//! Limits of a server that apply to several processes together: calls in flight, rates, budgets,
//! and pauses that the server requests. The component that keeps the counters implements
//! [`SharedLimits`].

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use isomer_service_kit::priority::Urgency;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The reason of a fault for a paused limit. A worker returns such a unit without counting it as
/// begun.
pub const PAUSED: &str = "GENERATOR_PAUSED";

/// The period of a budget that never ends.
pub const TOTAL: &str = "total";

/// The day, in UTC, of a time in milliseconds since 1970: `2026-11-24`.
pub fn day(now: u64) -> String {
    let at = i64::try_from(now)
        .ok()
        .and_then(|now| jiff::Timestamp::from_millisecond(now).ok());
    at.unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// The limits of this process.
pub trait SharedLimits: Debug + Send + Sync {
    /// Opens a limit. `key` is a content address (64 hexadecimal digits) that all processes derive
    /// from the limited resource; `name` is for logs and metrics.
    fn open(&self, key: &str, name: &str, terms: Terms) -> Arc<dyn SharedLimit>;
}

/// A limit from the view of one process's callers. When it is dropped, its holdings are released.
pub trait SharedLimit: Debug + Send + Sync {
    /// Begins a call if one more may be in flight. [`SharedLimit::end`] ends it.
    fn try_begin(&self) -> bool;

    /// Ends a call that has begun.
    fn end(&self);

    /// Reports how many calls would begin if more could be in flight.
    fn report_waiting(&self, waiting: usize);

    /// Changes when more calls may be in flight.
    fn more(&self) -> watch::Receiver<()>;

    /// The number of times that this process lost its lease of concurrent calls. A call in flight
    /// when the number changes must end, because its place may be granted to other processes.
    fn leases_lost(&self) -> watch::Receiver<u64>;

    /// Waits until a request of this many tokens may be sent: until a pause is over, and the rates
    /// and the budget permit it. Fails if the budget is spent, or if a pause takes longer than
    /// `patience`.
    fn turn<'a>(&'a self, tokens: u64, urgency: &'a Urgency, patience: Duration) -> BoxFuture<'a, Result<(), Denial>>;

    /// Takes a turn if no wait is needed.
    fn try_turn(&self) -> bool;

    /// Counts a call and its tokens.
    fn pay(&self, spent: &Spending);

    /// The server requested a pause: no process calls it before the pause is over.
    fn pause(&self, pause: Duration, why: &str);
}

/// The reason why a call gets no turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The budget is spent.
    Spent(ReachedLimit),
    /// The server requested a pause that is longer than the caller waits.
    Paused(Duration),
}

/// The period of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Days, in UTC.
    Day,
    /// Months, in UTC.
    Month,
    /// Total, from the first call on.
    #[default]
    Total,
}

/// The limits of a generator, for all processes together. A value of 0 or `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Terms {
    /// Maximum number of calls in flight.
    pub concurrency: usize,
    /// Maximum number of requests per second.
    pub requests_per_second: f64,
    /// Maximum number of tokens per second.
    pub tokens_per_second: f64,
    /// The limits on spending.
    pub budget: Budget,
}

impl Terms {
    /// Whether a request waits until it is granted.
    pub fn counts_requests(&self) -> bool {
        self.requests_per_second > 0.0 || self.tokens_per_second > 0.0 || self.budget.is_limited()
    }
}

/// The maximum spending in each period.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    pub requests: Option<u64>,
    /// Tokens of prompts and answers together.
    pub tokens: Option<u64>,
    /// Money, in the unit of the prices.
    pub cost: Option<f64>,
    /// The period.
    pub per: Per,
    /// Price of a million tokens of prompts.
    pub prompt_price: f64,
    /// Price of a million generated tokens.
    pub generated_price: f64,
}

impl Budget {
    /// Whether any limit is set.
    pub fn is_limited(&self) -> bool {
        self.requests.is_some() || self.tokens.is_some() || self.cost.is_some()
    }

    /// The period that contains a time (milliseconds since 1970).
    pub fn period(&self, now: u64) -> String {
        let day = day(now);
        match self.per {
            Per::Day => day,
            Per::Month => day[..7].to_owned(),
            Per::Total => TOTAL.to_owned(),
        }
    }

    /// Number of requests that may still be made.
    pub fn requests_left(&self, spent: &Spending) -> u64 {
        match self.requests {
            Some(limit) => limit.saturating_sub(spent.requests),
            None => u64::MAX,
        }
    }

    /// The cost of this spending.
    pub fn cost(&self, spent: &Spending) -> f64 {
        (spent.prompt_tokens as f64 * self.prompt_price + spent.generated_tokens as f64 * self.generated_price) / 1e6
    }

    /// The limit that is reached: the amount spent, and its field.
    pub fn reached(&self, spent: &Spending) -> Option<ReachedLimit> {
        let tokens = spent.prompt_tokens + spent.generated_tokens;
        if let Some(limit) = self.tokens.filter(|limit| tokens >= *limit) {
            return Some(ReachedLimit {
                what: format!("{tokens} of {limit} tokens"),
                field: "tokens",
            });
        }
        let cost = self.cost(spent);
        if let Some(limit) = self.cost.filter(|limit| cost >= *limit) {
            return Some(ReachedLimit {
                what: format!("a cost of {cost:.4} of {limit}"),
                field: "cost",
            });
        }
        None
    }

    /// The limit on requests, which is reached when no more are granted.
    pub fn requests_reached(&self, spent: &Spending) -> Option<ReachedLimit> {
        let limit = self.requests.filter(|limit| spent.requests >= *limit)?;
        Some(ReachedLimit {
            what: format!("{} of {limit} requests", spent.requests),
            field: "requests",
        })
    }
}

/// A budget limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedLimit {
    /// The amount spent of it.
    pub what: String,
    pub field: &'static str,
}

/// The spending so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spending {
    /// Calls, including failed ones.
    pub requests: u64,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
}

impl Spending {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The maximum of each field.
    pub fn at_least(&self, other: &Self) -> Self {
        Self {
            requests: self.requests.max(other.requests),
            prompt_tokens: self.prompt_tokens.max(other.prompt_tokens),
            generated_tokens: self.generated_tokens.max(other.generated_tokens),
        }
    }

    /// The sum.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            generated_tokens: self.generated_tokens + other.generated_tokens,
        }
    }

    /// The spending without a part of it.
    pub fn without(&self, part: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(part.requests),
            prompt_tokens: self.prompt_tokens.saturating_sub(part.prompt_tokens),
            generated_tokens: self.generated_tokens.saturating_sub(part.generated_tokens),
        }
    }
}
