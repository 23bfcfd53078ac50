use std::time::{Duration, Instant};

use isomer_access::{Access, AccessConfig, AccessScope, Budget, BudgetPeriod, Limits, Mode};
use isomer_database::Database;
use isomer_stubs::{promise::promised, wait::found};

use super::support::*;

fn budget(per: BudgetPeriod, tokens: Option<u64>, cost_usd: Option<f64>) -> Limits {
    Limits {
        budgets: vec![Budget { per, tokens, cost_usd }],
        ..Limits::default()
    }
}

#[tokio::test]
async fn a_budget_of_tokens_ends_and_says_when_it_begins_again() {
    let access = door().await;
    let (_, text) = make(
        &access.keys(),
        key(&[AccessScope::Encode], budget(BudgetPeriod::Day, Some(100), None)),
    )
    .await;
    let caller = ask_with(&access, ENCODE, &text).await.unwrap();
    caller.charge(99, 0);
    ask_with(&access, ENCODE, &text).await.unwrap();
    caller.charge(1, 0);
    let fault = ask_with(&access, ENCODE, &text).await.unwrap_err();
    promised("AccessService RESOURCE_EXHAUSTED BUDGET_EXCEEDED", &fault);
    assert!(fault.retry_after.unwrap() <= Duration::from_secs(86_400));
    assert_eq!(caller.still_welcome().unwrap_err().reason, "BUDGET_EXCEEDED");
}

#[tokio::test]
async fn a_budget_of_dollars_ends_for_good_when_it_is_the_total() {
    let access = door().await;
    let (_, text) = make(
        &access.keys(),
        key(&[AccessScope::Encode], budget(BudgetPeriod::Total, None, Some(0.01))),
    )
    .await;
    let caller = ask_with(&access, ENCODE, &text).await.unwrap();
    (0..9).for_each(|_| caller.charge(1, 1_000_000));
    ask_with(&access, ENCODE, &text).await.unwrap().charge(1, 1_000_000);
    let fault = ask_with(&access, ENCODE, &text).await.unwrap_err();
    assert_eq!((fault.reason.as_str(), fault.retry_after), ("BUDGET_EXCEEDED", None));
}

#[tokio::test]
async fn a_budget_survives_a_restart_and_is_shared_by_gateways() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sqlite");
    let open = async || {
        let config = AccessConfig {
            mode: Mode::Required,
            ..AccessConfig::default()
        };
        Access::open(config, Database::open(path.to_str().unwrap()).await.unwrap())
            .await
            .unwrap()
    };
    let first = open().await;
    let (id, text) = make(
        &first.keys(),
        key(&[AccessScope::Encode], budget(BudgetPeriod::Month, Some(1000), None)),
    )
    .await;
    ask_with(&first, ENCODE, &text).await.unwrap().charge(600, 250_000_000);
    first.flush().await.unwrap();
    drop(first);

    let (second, third) = (open().await, open().await);
    ask_with(&second, ENCODE, &text)
        .await
        .expect("600 of 1000")
        .charge(300, 0);
    ask_with(&third, ENCODE, &text)
        .await
        .expect("at least 600 of 1000")
        .charge(100, 0);
    second.flush().await.unwrap();
    third.flush().await.unwrap();
    let fault = ask_with(&third, ENCODE, &text).await.unwrap_err();
    assert_eq!(fault.reason, "BUDGET_EXCEEDED", "600 + 300 + 100");
    let (_, usage) = third.keys().get(&id).await.unwrap();
    assert_eq!(
        (usage.total.tokens, usage.total.requests, usage.total.cost_usd),
        (1000, 3, 0.25)
    );
    assert!(usage.last_used.is_some());
}

#[tokio::test]
async fn counts_are_written_without_being_asked() {
    let access = door().await;
    let (id, text) = make(&access.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    ask_with(&access, ENCODE, &text).await.unwrap().charge(7, 0);
    let keys = access.keys();
    let written = async || (keys.get(&id).await.unwrap().1.day.tokens == 7).then_some(());
    found("the count is written", written).await;
}

#[tokio::test]
async fn rates_and_places_are_limited_and_refusals_say_when_to_come_back() {
    let access = door().await;
    let limits = Limits {
        requests_per_second: Some(0.5),
        ..Limits::default()
    };
    let (_, text) = make(&access.keys(), key(&[AccessScope::Encode], limits)).await;
    let begun = Instant::now();
    ask_with(&access, ENCODE, &text).await.unwrap();
    let fault = ask_with(&access, ENCODE, &text).await.unwrap_err();
    promised("AccessService RESOURCE_EXHAUSTED RATE_LIMITED", &fault);
    let (wait, most) = (fault.retry_after.unwrap(), Duration::from_secs(2));
    assert!(most.saturating_sub(begun.elapsed()) <= wait && wait <= most, "{wait:?}");

    let limits = Limits {
        max_concurrency: Some(1),
        ..Limits::default()
    };
    let (_, text) = make(&access.keys(), key(&[AccessScope::Encode], limits)).await;
    let held = ask_with(&access, ENCODE, &text).await.unwrap();
    promised(
        "AccessService RESOURCE_EXHAUSTED TOO_MANY_AT_ONCE",
        &ask_with(&access, ENCODE, &text).await.unwrap_err(),
    );
    drop(held);
    ask_with(&access, ENCODE, &text).await.unwrap();
}
