//! Numbers that no honest provider reports.

use isomer_access::{AccessScope, Budget, BudgetPeriod, Limits};
use isomer_stubs::{postgres::empty_schema, wait::found};

use crate::access::support::*;

/// Counts of the honest key are written, the absurd ones can be read, and a revocation by another
/// gateway arrives.
async fn survives(database: &str) {
    let (here, there) = (open(database).await, open(database).await);
    let budgets = Limits {
        budgets: vec![Budget {
            per: BudgetPeriod::Total,
            tokens: Some(1_000_000),
            cost_usd: None,
        }],
        ..Limits::default()
    };
    let (_, absurd) = make(&here.keys(), key(&[AccessScope::Encode], budgets)).await;
    let (honest_id, honest) = make(&here.keys(), key(&[AccessScope::Encode], Limits::default())).await;
    for _ in 0..4 {
        let caller = ask_with(&here, ENCODE, &absurd).await;
        if let Ok(caller) = caller {
            caller.charge(u64::MAX, u64::MAX);
        }
        ask_with(&here, ENCODE, &honest).await.unwrap().charge(10, 10);
        here.flush().await.unwrap();
    }
    let fault = ask_with(&here, ENCODE, &absurd).await.unwrap_err();
    assert_eq!(fault.reason, "BUDGET_EXCEEDED");
    let mut tokens = Vec::new();
    for (record, usage) in here.keys().list(0, "").await.unwrap().0 {
        tokens.push((record.id == honest_id, usage.total.tokens));
    }
    tokens.sort_unstable();
    assert_eq!(tokens, [(false, 1 << 50), (true, 40)]);
    there.keys().revoke("test", &format!("iso_{honest_id}")).await.unwrap();
    let refused = found("the revocation arrives", async || {
        ask_with(&here, ENCODE, &honest).await.err()
    });
    assert_eq!(refused.await.reason, "REVOKED_KEY");
}

#[tokio::test]
async fn an_absurd_charge_stops_neither_counts_nor_revocations() {
    let folder = tempfile::tempdir().unwrap();
    survives(&folder.path().join("gateway.sqlite").display().to_string()).await;
}

#[tokio::test]
async fn an_absurd_charge_stops_neither_of_them_in_postgresql() {
    if let Some(url) = empty_schema("absurd").await {
        survives(&url).await;
    }
}
