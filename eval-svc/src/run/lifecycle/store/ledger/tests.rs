#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use isomer_stubs::postgres::empty_schema;
use jiff::Timestamp;

use super::*;
use crate::{
    report::GateReport,
    run::{
        events::{Event, EventKind},
        lifecycle::store::{Creation, RunPage, RunStore},
        record::{AttemptRecord, RecordedLook, RunRequest, RunState},
    },
};

/// An empty ledger with two replicas.
struct Two {
    first: Ledger,
    second: Ledger,
    store: Ledger,
    _folder: tempfile::TempDir,
}

impl Two {
    async fn open(database: Database, folder: tempfile::TempDir) -> Self {
        let join = || Ledger::join(database.clone(), Duration::from_secs(15), None);
        let (first, second) = (join().await.unwrap(), join().await.unwrap());
        Self {
            store: first.clone(),
            first,
            second,
            _folder: folder,
        }
    }

    async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.sqlite").display().to_string();
        Self::open(Database::open(&path).await.unwrap(), folder).await
    }

    async fn postgres(schema: &str) -> Option<Self> {
        let database = Database::open(&empty_schema(schema).await?).await.unwrap();
        Some(Self::open(database, tempfile::tempdir().unwrap()).await)
    }

    async fn lead(&self, record: &RunRecord) -> Box<dyn Leadership> {
        match self.store.create(record).await.unwrap() {
            Creation::New(leadership) => leadership,
            Creation::Existing(id) => panic!("the run is {id}"),
        }
    }
}

fn run(request: Option<&str>, owner: Option<&str>) -> RunRecord {
    let mut record = RunRecord::new(
        uuid::Uuid::now_v7().to_string(),
        request.map(str::to_owned),
        RunRequest::default(),
        Timestamp::now(),
    );
    record.owner = owner.map(str::to_owned);
    record
}

fn message(sequence: u64) -> Event {
    Event {
        sequence,
        time: Timestamp::now(),
        kind: EventKind::Message(format!("message {sequence}")),
    }
}

fn look() -> RecordedLook {
    let report = serde_json::json!({
        "verdict": "pass", "blocked": false, "undecided": "block", "alpha": 0.05, "adjust": "none",
        "max_unchanged": 0.1, "rewrites_rated": null, "ratings_refused": null, "unit": "data sets",
        "baseline": null, "rules": [], "encoders": [], "sequential": null,
    });
    RecordedLook {
        inputs: "digest".to_owned(),
        report: serde_json::from_value::<GateReport>(report).unwrap(),
    }
}

/// The properties that every ledger must have.
async fn holds(two: &Two) {
    records_are_found(two).await;
    a_superseded_leader_writes_nothing(two).await;
    a_handed_back_run_has_no_leader(two).await;
    of_two_that_claim_one_gets_the_run(two).await;
}

async fn records_are_found(two: &Two) {
    let store = &two.store;
    let mut first = run(Some("nightly"), Some("key:a"));
    let lead = two.lead(&first).await;
    let second = run(None, None);
    let _second = two.lead(&second).await;
    let again = run(Some("nightly"), Some("key:a"));
    assert!(matches!(store.create(&again).await.unwrap(), Creation::Existing(id) if id == first.id));
    assert_eq!(store.by_request("nightly").await.unwrap(), Some(first.id.clone()));
    assert_eq!(store.by_request("other").await.unwrap(), None);
    assert_eq!(store.load(&first.id).await.unwrap().unwrap(), first);
    assert_eq!(store.load("no such").await.unwrap(), None);

    let ids = |page: RunPage| {
        (
            page.runs.into_iter().map(|run| run.id).collect::<Vec<_>>(),
            page.has_more,
        )
    };
    let page = |before, viewer, size| async move { ids(store.page(before, viewer, size).await.unwrap()) };
    let all = vec![second.id.clone(), first.id.clone()];
    assert_eq!(page(None, None, 10).await, (all, false));
    assert_eq!(page(None, None, 1).await, (vec![second.id.clone()], true));
    assert_eq!(page(Some(&second.id), None, 1).await, (vec![first.id.clone()], false));
    assert_eq!(page(None, Some("key:a"), 10).await, (vec![first.id.clone()], false));
    assert_eq!(page(None, Some("key:b"), 10).await, (vec![], false));

    lead.save(&first, &[message(1), message(2)]).await.unwrap();
    // The reply to a write may be lost, and the write is then repeated.
    lead.save(&first, &[message(2), message(3)]).await.unwrap();
    let numbers = |events: Option<Vec<Event>>| events.unwrap().iter().map(|event| event.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(store.events(&first.id, 1).await.unwrap()), [2, 3]);
    let html = vec![0, 159, 146, 150, b'<'];
    lead.write_files(&first.id, &[("report.html", html.clone())])
        .await
        .unwrap();
    assert_eq!(store.file(&first.id, "report.html").await.unwrap(), Some(html));
    assert_eq!(store.file(&first.id, "report.md").await.unwrap(), None);
    assert_eq!(lead.look(&first.id, 1).await.unwrap(), None);
    lead.record_look(&first.id, 1, &look()).await.unwrap();
    assert_eq!(lead.look(&first.id, 1).await.unwrap(), Some(look()));

    assert!(store.ends().await.unwrap().iter().all(|run| run.ended.is_none()));
    first.state = RunState::Succeeded;
    first.ended = Some(Timestamp::now());
    lead.end(&first, &[]).await.unwrap();
    assert_eq!(store.load(&first.id).await.unwrap().unwrap(), first);
    store.delete(&second).await.unwrap();
    assert!(
        store.load(&second.id).await.unwrap().is_some(),
        "an active run is not deleted"
    );
    store.delete(&first).await.unwrap();
    assert_eq!(store.load(&first.id).await.unwrap(), None);
    assert_eq!(store.by_request("nightly").await.unwrap(), None);
    assert!(store.events(&first.id, 0).await.unwrap().unwrap().is_empty());
    assert_eq!(store.file(&first.id, "report.html").await.unwrap(), None);
}

async fn active(ledger: &Ledger, id: &str) -> ActiveRun {
    let all = ledger.active().await.unwrap();
    all.into_iter().find(|run| run.id == id).expect("an active run")
}

async fn a_superseded_leader_writes_nothing(two: &Two) {
    let mut record = run(None, None);
    let stale = two.lead(&record).await;
    stale.save(&record, &[message(1)]).await.unwrap();
    let seen = active(&two.second, &record.id).await;
    let claimed = two.second.claim(&seen).await.unwrap().expect("nobody else claims it");
    assert_eq!((claimed.record.id.as_str(), claimed.sequence), (record.id.as_str(), 1));

    record.state = RunState::Cancelled;
    record.ended = Some(Timestamp::now());
    let superseded = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Superseded));
    assert!(superseded(stale.save(&record, &[message(2)]).await));
    assert!(superseded(stale.end(&record, &[]).await));
    assert!(superseded(
        stale.write_files(&record.id, &[("report.md", b"stale".to_vec())]).await
    ));
    assert!(superseded(stale.record_look(&record.id, 1, &look()).await));
    assert!(matches!(
        stale.hand_back(&record, &[]).await,
        Err(StoreError::Superseded)
    ));
    let found = two.store.load(&record.id).await.unwrap().unwrap();
    assert_eq!(found.state, RunState::Pending);
    assert_eq!(two.store.events(&record.id, 0).await.unwrap().unwrap().len(), 1);
    assert_eq!(two.store.file(&record.id, "report.md").await.unwrap(), None);

    // The new leader's writes are accepted.
    let lead = claimed.leadership;
    assert_eq!(lead.look(&record.id, 1).await.unwrap(), None);
    lead.record_look(&record.id, 1, &look()).await.unwrap();
    lead.write_files(&record.id, &[("report.md", b"new".to_vec())])
        .await
        .unwrap();
    record.state = RunState::Succeeded;
    lead.end(&record, &[message(2)]).await.unwrap();
    // The reply may be lost.
    lead.end(&record, &[message(2)]).await.unwrap();
    assert_eq!(
        two.store.load(&record.id).await.unwrap().unwrap().state,
        RunState::Succeeded
    );
    assert_eq!(
        two.store.file(&record.id, "report.md").await.unwrap(),
        Some(b"new".to_vec())
    );
    let gone = ActiveRun {
        fence: seen.fence + 1,
        ..seen
    };
    assert!(two.first.claim(&gone).await.unwrap().is_none(), "it has ended");
}

async fn a_handed_back_run_has_no_leader(two: &Two) {
    let record = run(None, None);
    let lead = two.lead(&record).await;
    two.store.request_cancel(&record.id, "enough").await.unwrap();
    assert_eq!(
        two.first.cancelled().await.unwrap(),
        [(record.id.clone(), "enough".to_owned())]
    );
    assert!(two.second.cancelled().await.unwrap().is_empty());
    assert!(lead.hand_back(&record, &[]).await.unwrap());
    assert!(matches!(lead.save(&record, &[]).await, Err(StoreError::Superseded)));
    let seen = active(&two.second, &record.id).await;
    assert_eq!(seen.leader, "");
    let claimed = two.second.claim(&seen).await.unwrap().unwrap();
    assert_eq!(claimed.cancel.as_deref(), Some("enough"));
}

async fn of_two_that_claim_one_gets_the_run(two: &Two) {
    for _ in 0..20 {
        let record = run(None, None);
        let lead = two.lead(&record).await;
        assert!(lead.hand_back(&record, &[]).await.unwrap());
        let seen = active(&two.first, &record.id).await;
        let (first, second) = tokio::join!(two.first.claim(&seen), two.second.claim(&seen));
        let claimed = [first.unwrap().is_some(), second.unwrap().is_some()];
        assert_eq!(claimed.into_iter().filter(|claimed| *claimed).count(), 1);
    }
}

#[tokio::test]
async fn a_ledger_in_sqlite_holds() {
    holds(&Two::sqlite().await).await;
}

#[tokio::test]
async fn a_ledger_in_postgresql_holds() {
    if let Some(two) = Two::postgres("ledger_unit").await {
        holds(&two).await;
    }
}

#[tokio::test]
async fn replicas_without_runs_are_forgotten_and_those_with_runs_are_kept() {
    let two = Two::sqlite().await;
    let _lead = two.lead(&run(None, None)).await;
    let all = [two.first.replica().to_owned(), two.second.replica().to_owned()];
    two.first.forget(&all).await.unwrap();
    let beats = two.first.beats().await.unwrap();
    assert_eq!(beats.keys().collect::<Vec<_>>(), [two.first.replica()]);
}

#[tokio::test]
async fn a_sqlite_ledger_serves_one_replica() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/runs.sqlite").display().to_string();
    let config: LedgerConfig = serde_json::from_value(serde_json::json!({ "url": path })).unwrap();
    let first = Ledger::open(&config).await.unwrap();
    let fault = Ledger::open(&config).await.unwrap_err();
    assert_eq!(fault.reason, "LEDGER_IN_USE");
    assert!(fault.hint.unwrap().contains("postgres://"));
    drop(first);
    Ledger::open(&config).await.unwrap();
    for url in ["mysql://host/db", "sqlite::memory:", ""] {
        let config: LedgerConfig = serde_json::from_value(serde_json::json!({ "url": url })).unwrap();
        let fault = Ledger::open(&config).await.unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("eval.ledger.url"), "{url}");
    }
}

/// A run's attempt; a ledger keeps microseconds.
fn attempt(run: &RunRecord) -> AttemptRecord {
    AttemptRecord {
        subject: "s".to_owned(),
        run: run.id.clone(),
        owner: run.owner.clone(),
        evidence: run.id.clone(),
        at: Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap(),
    }
}

async fn attempts_are_recorded_once_a_run(two: Two) {
    let runs = [run(None, Some("team")), run(None, Some("team")), run(None, None)];
    let attempts = runs.each_ref().map(attempt);
    let mut found = Vec::new();
    for (record, attempt) in runs.iter().zip(&attempts) {
        let leadership = two.lead(record).await;
        // A replica that takes the run over records it again.
        leadership.attempt(attempt).await.unwrap();
        found.push(leadership.attempt(attempt).await.unwrap());
    }
    let [first, second, other] = attempts;
    assert_eq!(found, [vec![first.clone()], vec![first, second], vec![other]]);
    let later = Timestamp::now() + Duration::from_secs(1);
    two.store.expire_attempts(later).await.unwrap();
    let again = run(None, None);
    let own = attempt(&again);
    assert_eq!(two.lead(&again).await.attempt(&own).await.unwrap(), [own]);
}

#[tokio::test]
async fn attempts_are_recorded_once_a_run_on_sqlite() {
    attempts_are_recorded_once_a_run(Two::sqlite().await).await;
}

#[tokio::test]
async fn attempts_are_recorded_once_a_run_on_postgres() {
    if let Some(two) = Two::postgres("ledger_attempts").await {
        attempts_are_recorded_once_a_run(two).await;
    }
}
