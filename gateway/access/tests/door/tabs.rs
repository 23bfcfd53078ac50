use std::path::Path;

use isomer_access::{Access, AccessConfig, Budget, Limits, Mode, Period, Scope, Total};
use isomer_database::Database;

use crate::support::*;

const RUN: &str = "/isomer.eval.v1.RunService/CreateRun";

async fn open(folder: &Path) -> Access {
    let config = AccessConfig {
        mode: Mode::Required,
        ..AccessConfig::default()
    };
    let path = folder.join("gateway.sqlite");
    Access::open(config, Database::open(path.to_str().unwrap()).await.unwrap())
        .await
        .unwrap()
}

fn limits(tokens: u64, cost_usd: f64) -> Limits {
    Limits {
        budgets: vec![Budget {
            per: Period::Day,
            tokens: Some(tokens),
            cost_usd: Some(cost_usd),
        }],
        ..Limits::default()
    }
}

fn used(tokens: u64) -> Total {
    Total {
        tokens,
        cost_nano_usd: tokens * 1_000_000,
    }
}

#[tokio::test]
async fn a_tab_charges_what_was_added_once_also_after_a_restart_and_by_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path()).await;
    let (id, text) = make(&first.keys(), key(&[Scope::Evaluate], limits(1000, 9.0))).await;
    let caller = ask_with(&first, RUN, &text).await.unwrap();
    let mut tab = first
        .open_tab(&caller, "run:1", Total::default())
        .await
        .unwrap()
        .unwrap();
    let again = first.open_tab(&caller, "run:1", Total::default()).await.unwrap();
    assert!(again.is_none(), "who opened it first pays");
    for tokens in [100, 100, 250, 40] {
        assert!(tab.charge(used(tokens)).await.unwrap());
    }
    let spent = async |access: &Access| access.keys().get(&id).await.unwrap().1.total;
    assert_eq!(spent(&first).await.tokens, 250, "what goes back charges nothing");
    assert!((spent(&first).await.cost_usd - 0.25).abs() < 1e-9);

    let second = open(folder.path()).await;
    assert!(second.take_over_tabs().await.unwrap().is_empty(), "it is held");
    first.release_tabs().await.unwrap();
    let mut taken = second.take_over_tabs().await.unwrap();
    assert_eq!(taken.len(), 1);
    let mut taken = taken.remove(0);
    assert_eq!((taken.work(), taken.charged()), ("run:1", used(250)));
    assert!(!tab.charge(used(300)).await.unwrap(), "the first holds it no more");
    assert!(taken.charge(used(300)).await.unwrap());
    assert_eq!(spent(&second).await.tokens, 300);
    taken.close().await.unwrap();
    second.release_tabs().await.unwrap();
    assert!(first.take_over_tabs().await.unwrap().is_empty(), "it is closed");
}

#[tokio::test]
async fn what_a_tab_charges_uses_up_a_budget_at_once_and_the_run_may_still_be_seen() {
    let folder = tempfile::tempdir().unwrap();
    let access = open(folder.path()).await;
    let (id, text) = make(&access.keys(), key(&[Scope::Evaluate], limits(1000, 9.0))).await;
    let caller = ask_with(&access, RUN, &text).await.unwrap();
    let mut tab = access.open_tab(&caller, "run:1", used(5000)).await.unwrap().unwrap();
    tab.charge(used(5999)).await.unwrap();
    tab.check().await.unwrap();
    ask_with(&access, RUN, &text).await.expect("999 of 1000");
    tab.charge(used(6000)).await.unwrap();
    assert_eq!(tab.check().await.unwrap_err().reason, "BUDGET_EXCEEDED");
    let fault = ask_with(&access, RUN, &text).await.unwrap_err();
    assert_eq!(fault.reason, "BUDGET_EXCEEDED");
    for method in ["GetRun", "CancelRun", "GetReport"] {
        let path = format!("/isomer.eval.v1.RunService/{method}");
        ask_with(&access, &path, &text).await.expect("it uses up nothing");
    }
    access.keys().revoke("test", &id).await.unwrap();
    assert_eq!(tab.check().await.unwrap_err().reason, "REVOKED_KEY");
}

#[tokio::test]
async fn a_tab_that_nobody_counts_is_not_opened() {
    let config = AccessConfig {
        mode: Mode::Open,
        ..AccessConfig::default()
    };
    let access = door_with(config).await;
    let anyone = ask(&access, RUN, &[]).await.unwrap();
    assert!(
        access
            .open_tab(&anyone, "run:1", Total::default())
            .await
            .unwrap()
            .is_none()
    );
}
