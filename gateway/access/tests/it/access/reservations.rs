//! Reservations while requests are in flight.

use std::time::Duration;

use isomer_access::{Access, AccessScope, Budget, BudgetPeriod, Caller, Limits};
use isomer_stubs::{postgres::empty_schema, wait::found};

use super::support::*;

fn limits(tokens: Option<u64>, cost_usd: Option<f64>) -> Limits {
    Limits {
        budgets: vec![Budget {
            per: BudgetPeriod::Total,
            tokens,
            cost_usd,
        }],
        ..Limits::default()
    }
}

#[tokio::test]
async fn requests_at_once_overdraw_a_budget_by_at_most_one_of_them() {
    let access = door().await;
    for (budget, most) in [
        (limits(Some(100), None), (30, 0)),
        (limits(None, Some(0.1)), (0, 30_000_000)),
        (limits(Some(100), Some(9.0)), (30, 30_000_000)),
    ] {
        let (_, text) = make(&access.keys(), key(&[AccessScope::Encode], budget)).await;
        let caller = ask_with(&access, ENCODE, &text).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..40 {
            match caller.reserve(most.0, most.1).await {
                Ok(reservation) => held.push(reservation.unwrap()),
                Err(fault) => {
                    assert_eq!(fault.reason, "BUDGET_RESERVED");
                    assert!(fault.retry_after.is_some());
                }
            }
        }
        // 30, 60, 90, and the one request that may overdraw.
        assert_eq!(held.len(), 4, "{most:?}");
        // One request has used 10, the others nothing: the rest can be reserved again.
        caller.charge(most.0 / 3, most.1 / 3);
        drop(held);
        let _again = caller.reserve(most.0, most.1).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn gateways_of_one_database_share_what_is_set_aside_and_what_is_not_written_yet() {
    let folder = tempfile::tempdir().unwrap();
    shared(&folder.path().join("gateway.sqlite").display().to_string()).await;
}

#[tokio::test]
async fn gateways_of_one_postgresql_share_it_too() {
    for _ in 0..3 {
        let Some(url) = empty_schema("reservations").await else {
            return;
        };
        shared(&url).await;
    }
}

/// A gateway writes counts, which moves them from what is reserved to what is spent, while the
/// other asks for a grant.
#[tokio::test]
async fn counts_that_are_written_during_a_grant_are_missed_by_nobody() {
    let Some(url) = empty_schema("moving_counts").await else {
        return;
    };
    let (writing, asking) = (open(&url).await, open(&url).await);
    for round in 0..40 {
        let (_, text) = make(&writing.keys(), key(&[AccessScope::Encode], limits(Some(1000), None))).await;
        let (writer, asker) = (
            ask_with(&writing, ENCODE, &text).await.unwrap(),
            ask_with(&asking, ENCODE, &text).await.unwrap(),
        );
        let one = async |caller: &Caller, flushed: Option<&Access>| {
            let mut served = 0;
            for _ in 0..30 {
                if let Ok(reservation) = caller.reserve(90, 0).await {
                    caller.charge(90, 0);
                    drop(reservation);
                    served += 1;
                }
                if let Some(access) = flushed {
                    access.flush().await.unwrap();
                }
            }
            served
        };
        let (first, second) = tokio::join!(one(&writer, Some(&writing)), one(&asker, None));
        assert!(
            first + second <= 12,
            "round {round}: {first} and {second} at 90 tokens each were served out of 1000"
        );
        assert!(first + second >= 6, "round {round}: {first} and {second}");
    }
}

async fn shared(database: &str) {
    let first = open(database).await;
    let (_, text) = make(&first.keys(), key(&[AccessScope::Encode], limits(Some(1000), None))).await;
    let second = open(database).await;
    let callers = [
        ask_with(&first, ENCODE, &text).await.unwrap(),
        ask_with(&second, ENCODE, &text).await.unwrap(),
    ];
    let asked = (0..60).map(|n| {
        let caller = callers[n % 2].clone();
        tokio::spawn(async move {
            let reservation = caller.reserve(90, 0).await;
            if reservation.is_ok() {
                caller.charge(90, 0);
            }
            reservation.map(drop)
        })
    });
    let mut admitted = 0;
    for one in asked.collect::<Vec<_>>() {
        admitted += usize::from(one.await.unwrap().is_ok());
    }
    // 11 requests are 990 tokens, and one more begins while less than 1000 are spent.
    assert!(
        admitted <= 12,
        "{admitted} of 60 at 90 tokens each were served out of 1000"
    );
    // The unused part of a gateway's grant is returned with its next write.
    let mut served = admitted;
    let all = async || {
        for caller in &callers {
            if let Ok(reservation) = caller.reserve(90, 0).await {
                caller.charge(90, 0);
                drop(reservation);
                served += 1;
            }
        }
        (served >= 12).then_some(())
    };
    found("the budget is served", all).await;
    assert_eq!(served, 12, "the whole budget is served, and one request more at most");
    let fault = callers[0].reserve(90, 0).await.unwrap_err();
    assert!(
        fault.reason == "BUDGET_EXCEEDED" || fault.reason == "BUDGET_RESERVED",
        "{fault}"
    );
}

#[tokio::test]
async fn a_caller_without_budgets_sets_nothing_aside() {
    let access = door().await;
    let (_, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    let caller = ask_with(&access, ENCODE, &text).await.unwrap();
    assert!(caller.reserve(u64::MAX, u64::MAX).await.unwrap().is_none());
}

#[tokio::test]
async fn messages_of_a_stream_wait_for_the_rate_of_requests_and_count_as_requests() {
    let access = door().await;
    let rate = Limits {
        requests_per_second: Some(50.0),
        ..Limits::default()
    };
    let (id, text) = make(&access.keys(), key(&[AccessScope::Encode], rate)).await;
    let caller = ask_with(&access, ENCODE, &text).await.unwrap();
    let begun = std::time::Instant::now();
    // A burst of 100, of which the stream itself took one; the other 26 are admitted at 50 a
    // second.
    for _ in 0..125 {
        caller.next_message().await.unwrap();
    }
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    access.flush().await.unwrap();
    let (_, usage) = access.keys().get(&id).await.unwrap();
    assert_eq!(usage.total.requests, 126);
    access.keys().revoke("test", &id).await.unwrap();
    assert_eq!(caller.next_message().await.unwrap_err().reason, "REVOKED_KEY");
}
