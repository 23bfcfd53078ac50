use std::path::Path;

use isomer_access::{Access, AccessConfig, AccessScope, Budget, BudgetPeriod, Limits, Mode, Total};
use isomer_database::Database;
use isomer_stubs::postgres::empty_schema;

use super::support::*;

const RUN: &str = "/isomer.eval.v1.RunService/CreateRun";

fn file_in(folder: &Path) -> String {
    folder.join("gateway.sqlite").display().to_string()
}

fn limits(tokens: u64, cost_usd: f64) -> Limits {
    Limits {
        budgets: vec![Budget {
            per: BudgetPeriod::Day,
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
    charged_once(&file_in(folder.path())).await;
}

#[tokio::test]
async fn what_a_tab_charges_uses_up_a_budget_at_once_and_the_run_may_still_be_seen() {
    let folder = tempfile::tempdir().unwrap();
    used_up(&file_in(folder.path())).await;
}

#[tokio::test]
async fn postgresql_keeps_tabs_as_sqlite_does() {
    for _ in 0..2 {
        let (Some(once), Some(used)) = (empty_schema("tabs_once").await, empty_schema("tabs_used").await) else {
            return;
        };
        charged_once(&once).await;
        used_up(&used).await;
    }
}

async fn charged_once(database: &str) {
    let first = open(database).await;
    let (id, text) = make(&first.keys(), key(&[AccessScope::Evaluate], limits(1000, 9.0))).await;
    let caller = ask_with(&first, RUN, &text).await.unwrap();
    let mut deferred = first
        .open_deferred_charge(&caller, "run:1", Total::default())
        .await
        .unwrap()
        .unwrap();
    let again = first
        .open_deferred_charge(&caller, "run:1", Total::default())
        .await
        .unwrap();
    assert!(again.is_none(), "the caller that opened it first pays");
    for tokens in [100, 100, 250, 40] {
        assert!(deferred.charge(used(tokens)).await.unwrap());
    }
    let spent = async |access: &Access| access.keys().get(&id).await.unwrap().1.total;
    assert_eq!(spent(&first).await.tokens, 250, "a smaller total charges nothing");
    assert!((spent(&first).await.cost_usd - 0.25).abs() < 1e-9);

    let second = open(database).await;
    assert!(
        second.take_over_deferred_charges().await.unwrap().is_empty(),
        "another gateway holds it"
    );
    first.release_deferred_charges().await.unwrap();
    let mut taken = second.take_over_deferred_charges().await.unwrap();
    assert_eq!(taken.len(), 1);
    let mut taken = taken.remove(0);
    assert_eq!((taken.work(), taken.charged()), ("run:1", used(250)));
    assert!(
        !deferred.charge(used(300)).await.unwrap(),
        "the first no longer holds it"
    );
    assert!(taken.charge(used(300)).await.unwrap());
    assert_eq!(spent(&second).await.tokens, 300);

    // The second gateway is killed, so its lease is not renewed.
    let time_goes_by = "UPDATE access_tabs SET lease = lease - 16000000";
    let keeper = Database::open(database).await.unwrap();
    sqlx::raw_sql(time_goes_by).execute(keeper.pool()).await.unwrap();
    let mut back = first.take_over_deferred_charges().await.unwrap();
    assert_eq!(
        (back.len(), back[0].charged(), back[0].principal()),
        (1, used(300), format!("key:{id}").as_str())
    );
    assert!(
        !taken.charge(used(350)).await.unwrap(),
        "also if the second gateway was only slow"
    );
    assert!(back[0].charge(used(400)).await.unwrap());
    assert_eq!(spent(&first).await.tokens, 400);
    back[0].close().await.unwrap();
    first.release_deferred_charges().await.unwrap();
    assert!(
        second.take_over_deferred_charges().await.unwrap().is_empty(),
        "it is closed"
    );
}

async fn used_up(database: &str) {
    let access = open(database).await;
    let (id, text) = make(&access.keys(), key(&[AccessScope::Evaluate], limits(1000, 9.0))).await;
    let caller = ask_with(&access, RUN, &text).await.unwrap();
    let mut deferred = access
        .open_deferred_charge(&caller, "run:1", used(5000))
        .await
        .unwrap()
        .unwrap();
    deferred.charge(used(5999)).await.unwrap();
    deferred.check().await.unwrap();
    ask_with(&access, RUN, &text).await.expect("999 of 1000");
    deferred.charge(used(6000)).await.unwrap();
    assert_eq!(deferred.check().await.unwrap_err().reason, "BUDGET_EXCEEDED");
    let fault = ask_with(&access, RUN, &text).await.unwrap_err();
    assert_eq!(fault.reason, "BUDGET_EXCEEDED");
    for method in ["GetRun", "CancelRun", "GetReport"] {
        let path = format!("/isomer.eval.v1.RunService/{method}");
        ask_with(&access, &path, &text).await.expect("the call uses nothing");
    }
    access.keys().revoke("test", &id).await.unwrap();
    assert_eq!(deferred.check().await.unwrap_err().reason, "REVOKED_KEY");
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
            .open_deferred_charge(&anyone, "run:1", Total::default())
            .await
            .unwrap()
            .is_none()
    );
}
