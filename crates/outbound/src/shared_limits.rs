//! Limits of a server that hold over several processes together: calls in flight, rates, budgets,
//! and pauses that the server asks for. [`SharedLimits`] is implemented by the keeper of the
//! counters.

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use isomer_service_kit::priority::Urgency;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The reason of a fault that says that a limit is paused. A worker hands such a unit back without
/// counting it as begun.
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
    /// from what is limited; `name` is for logs and metrics.
    fn open(&self, key: &str, name: &str, terms: Terms) -> Arc<dyn SharedLimit>;
}

/// A limit as the callers of one process see it. When it is dropped, what it holds is given back.
pub trait SharedLimit: Debug + Send + Sync {
    /// Begins a call if one more may be in flight. [`SharedLimit::end`] ends it.
    fn try_begin(&self) -> bool;

    /// Ends a call that has begun.
    fn end(&self);

    /// Reports how many calls would begin if more could be in flight.
    fn report_waiting(&self, waiting: usize);

    /// Changes when more calls may be in flight.
    fn more(&self) -> watch::Receiver<()>;

    /// How often this process lost its lease of concurrent calls. A call that is in flight when the
    /// number changes must end: other processes may be granted its place.
    fn leases_lost(&self) -> watch::Receiver<u64>;

    /// Waits until a request of so many tokens may be sent: until a pause is over, and the rates
    /// and the budget allow it. Fails if the budget is spent, or if a pause takes longer than
    /// `patience`.
    fn turn<'a>(&'a self, tokens: u64, urgency: &'a Urgency, patience: Duration) -> BoxFuture<'a, Result<(), NoTurn>>;

    /// Takes a turn if that needs no wait.
    fn try_turn(&self) -> bool;

    /// Counts a call and the tokens that it used.
    fn pay(&self, spent: &Spent);

    /// The server asked not to be called for a time: no process calls it before.
    fn pause(&self, pause: Duration, why: &str);
}

/// Why a call gets no turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTurn {
    /// The budget is spent.
    Spent(Reached),
    /// The server asked for a pause that is longer than the caller waits.
    Paused(Duration),
}

/// Over which time a budget is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Days, in UTC.
    Day,
    /// Months, in UTC.
    Month,
    /// From the first call on.
    #[default]
    Total,
}

/// The limits of a generator, for all processes together. What is 0 or not set has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Terms {
    /// Most calls in flight.
    pub concurrency: usize,
    /// Most requests a second.
    pub requests_per_second: f64,
    /// Most tokens a second.
    pub tokens_per_second: f64,
    /// What may be spent.
    pub budget: Budget,
}

impl Terms {
    /// Whether a request waits until it is granted.
    pub fn counts_requests(&self) -> bool {
        self.requests_per_second > 0.0 || self.tokens_per_second > 0.0 || self.budget.is_limited()
    }
}

/// What may be spent in each period.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Requests.
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
    /// Whether anything is limited.
    pub fn is_limited(&self) -> bool {
        self.requests.is_some() || self.tokens.is_some() || self.cost.is_some()
    }

    /// The period that a time (milliseconds since 1970) lies in.
    pub fn period(&self, now: u64) -> String {
        let day = day(now);
        match self.per {
            Per::Day => day,
            Per::Month => day[..7].to_owned(),
            Per::Total => TOTAL.to_owned(),
        }
    }

    /// Requests that may still be made.
    pub fn requests_left(&self, spent: &Spent) -> u64 {
        match self.requests {
            Some(limit) => limit.saturating_sub(spent.requests),
            None => u64::MAX,
        }
    }

    /// What so much has cost.
    pub fn cost(&self, spent: &Spent) -> f64 {
        (spent.prompt_tokens as f64 * self.prompt_price + spent.generated_tokens as f64 * self.generated_price) / 1e6
    }

    /// The limit that is reached: what was spent of it, and its field.
    pub fn reached(&self, spent: &Spent) -> Option<Reached> {
        let tokens = spent.prompt_tokens + spent.generated_tokens;
        if let Some(limit) = self.tokens.filter(|limit| tokens >= *limit) {
            return Some(Reached {
                what: format!("{tokens} of {limit} tokens"),
                field: "tokens",
            });
        }
        let cost = self.cost(spent);
        if let Some(limit) = self.cost.filter(|limit| cost >= *limit) {
            return Some(Reached {
                what: format!("a cost of {cost:.4} of {limit}"),
                field: "cost",
            });
        }
        None
    }

    /// The limit on requests, which is reached when none is granted any more.
    pub fn requests_reached(&self, spent: &Spent) -> Option<Reached> {
        let limit = self.requests.filter(|limit| spent.requests >= *limit)?;
        Some(Reached {
            what: format!("{} of {limit} requests", spent.requests),
            field: "requests",
        })
    }
}

/// A limit of a budget that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// What was spent of it.
    pub what: String,
    /// Its field.
    pub field: &'static str,
}

/// What has been spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Calls, those that failed included.
    pub requests: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
}

impl Spent {
    /// Whether nothing is spent.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The larger of each.
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

    /// What is left without a part.
    pub fn without(&self, part: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(part.requests),
            prompt_tokens: self.prompt_tokens.saturating_sub(part.prompt_tokens),
            generated_tokens: self.generated_tokens.saturating_sub(part.generated_tokens),
        }
    }
}
