//! The costs of calls and their payers. This module alone decides them, for gRPC, HTTP, the page
//! and streams.
//!
//! * [`charged`] gives each call of a paying caller a [`Count`], and charges each addition to it at
//!   once. So the charge does not depend on the end of the call: an answer, an error, its deadline,
//!   or a caller that disconnects.
//! * The router adds the usage of encoders (`routing`). The proxy to other services adds the usage
//!   that they report during the call, or else the usage in their answers ([`answer`]).
//! * [`reserve`] reserves the maximum usage of a call ([`most`]) before the call begins.
//! * [`OverspendGuard`] ends a call that exceeds its reservation once a budget is used up.
//!
//! Runs outlive their request. They are charged through deferred charges (`runs`), with the same
//! sums.

pub(crate) mod answer;
pub(crate) mod most;
#[cfg(test)]
mod settlement;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    response::Response,
};
use http::Extensions;
use http_body::{Frame, SizeHint};
use isomer_access::{Caller, Reservation};
use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{EncodeRequest, RerankRequest, RerankResponse},
};
use isomer_service_kit::{Fault, Next, Tenant, Wrap, wrap};
use isomer_usage::{Count, sum};
use tokio::{sync::Notify, time::Instant};

use crate::routing::{PricedVectors, Router};

/// Charges calls to their callers.
pub(crate) fn charged() -> Wrap {
    wrap(charge)
}

/// Wakes a call whenever it is charged.
#[derive(Debug, Clone, Default)]
struct Charges(Arc<Notify>);

async fn charge(mut request: Request, next: Next) -> Response {
    let caller = request
        .extensions()
        .get::<Caller>()
        .filter(|caller| caller.is_counted());
    let Some(caller) = caller.cloned() else {
        return next.run(request).await;
    };
    // The caller counts as in flight as long as the call may still be charged.
    let charges = Charges::default();
    request.extensions_mut().insert(charges.clone());
    let count = Count::telling(move |used| {
        caller.charge(sum::charged_tokens(used), used.cost_nano_usd);
        charges.0.notify_one();
    });
    let response = count.scope(next.run(request)).await;
    response.map(|body| Body::new(CountedBody { body, count }))
}

/// A body that is polled in the scope of its call's count.
struct CountedBody {
    body: Body,
    count: Count,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let (body, count) = (&mut this.body, &this.count);
        count.sync_scope(|| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reserves the maximum usage of a call. The caller of this function holds the reservation until
/// the call has ended.
///
/// # Errors
/// Those of [`Caller::reserve`].
pub(crate) async fn reserve(caller: Option<&Caller>, most: &Usage) -> Result<Option<Reservation>, Fault> {
    match caller {
        Some(caller) => caller.reserve(sum::charged_tokens(most), most.cost_nano_usd).await,
        None => Ok(None),
    }
}

/// Ends a call whose usage cannot be bounded before it begins: it has exceeded its reservation, and
/// a budget of its caller is used up.
pub(crate) struct OverspendGuard {
    caller: Caller,
    count: Count,
    charges: Charges,
    reserved: Usage,
}

impl OverspendGuard {
    /// Watches the current call; `None` if the caller does not pay.
    pub(crate) fn of_call(extensions: &Extensions, reserved: Usage) -> Option<Self> {
        Some(Self {
            caller: extensions.get::<Caller>()?.clone(),
            count: isomer_usage::current()?,
            charges: extensions.get::<Charges>()?.clone(),
            reserved,
        })
    }

    /// Whether the call may continue.
    ///
    /// # Errors
    /// Those of [`Caller::still_welcome`].
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let used = self.count.used();
        let is_within = sum::charged_tokens(&used) <= sum::charged_tokens(&self.reserved)
            && used.cost_nano_usd <= self.reserved.cost_nano_usd;
        match is_within {
            true => Ok(()),
            false => self.caller.still_welcome(),
        }
    }

    /// Waits until the call may not continue, and returns the reason.
    pub(crate) async fn found(&self) -> Fault {
        loop {
            self.charges.0.notified().await;
            if let Err(fault) = self.check() {
                return fault;
            }
        }
    }
}

/// Encodes texts of a tenant, and reserves what the call may cost if the caller pays.
///
/// # Errors
/// Those of [`reserve`] and [`Router::encode`].
pub(crate) async fn encode(
    router: &Router,
    (caller, tenant): (Option<&Caller>, &Tenant),
    request: EncodeRequest,
    deadline: Option<Instant>,
) -> Result<PricedVectors, Fault> {
    let _reserved = reserve(caller, &most::of_encode(router, &request)).await?;
    router.encode(request, tenant, deadline).await
}

/// Reranks, and reserves what the call may cost if the caller pays.
///
/// # Errors
/// Those of [`reserve`] and [`Router::rerank`].
pub(crate) async fn rerank(
    router: &Router,
    caller: Option<&Caller>,
    request: RerankRequest,
    deadline: Option<Instant>,
) -> Result<RerankResponse, Fault> {
    let _reserved = reserve(caller, &most::of_rerank(router, &request)).await?;
    router.rerank(request, deadline).await
}
