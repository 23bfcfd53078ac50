#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::run::record::{AttemptRecord, RunRequest, RunState, SuiteChoice};

fn record(request_id: Option<&str>) -> RunRecord {
    let id = uuid::Uuid::now_v7().to_string();
    RunRecord::new(
        id,
        request_id.map(str::to_owned),
        RunRequest::default(),
        Timestamp::now(),
    )
}

#[test]
fn a_run_whose_process_died_is_found_interrupted_and_one_that_lives_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).unwrap();
    let record = record(None);
    let lock = store.create_locked(&record).unwrap();
    let other = FolderStore::open(folder.path()).unwrap();
    assert_eq!(other.load(&record.id).unwrap().unwrap().state, RunState::Pending);
    drop(lock);
    let found = other.load(&record.id).unwrap().unwrap();
    assert_eq!(found.state, RunState::Failed);
    assert_eq!(found.failure.unwrap().message, INTERRUPTED);
}

#[test]
fn runs_are_listed_newest_first_and_found_by_request_id() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).unwrap();
    let (first, second) = (record(Some("../../etc/passwd")), record(None));
    drop((
        store.create_locked(&first).unwrap(),
        store.create_locked(&second).unwrap(),
    ));
    assert_eq!(store.ids().unwrap(), [second.id.clone(), first.id.clone()]);
    assert_eq!(store.find_request("../../etc/passwd"), Some(first.id.clone()));
    store.remove(&first).unwrap();
    assert_eq!(store.find_request("../../etc/passwd"), None);
    assert_eq!(store.ids().unwrap(), [second.id]);
}

#[test]
fn a_suite_lies_beside_the_record_and_lists_do_not_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).unwrap();
    let text = "# a long comment";
    let mut record = record(None);
    record.request.suite = SuiteChoice::Toml {
        text: text.to_owned(),
        file_name: "a.toml".to_owned(),
        base_dir: None,
    };
    drop(store.create_locked(&record).unwrap());
    let json = store.read_file(&record.id, RECORD).unwrap().unwrap();
    assert!(!String::from_utf8(json).unwrap().contains(text));
    // It is marked as interrupted and saved again here.
    assert_eq!(store.outline(&record.id).unwrap().unwrap().suite_text(), None);
    assert_eq!(store.load(&record.id).unwrap().unwrap().suite_text(), Some(text));

    // The form written by an older version.
    fs::remove_file(store.folder(&record.id).join(SUITE)).unwrap();
    let json = serde_json::to_vec(&record).unwrap();
    store.write_file(&record.id, RECORD, &json).unwrap();
    assert_eq!(store.outline(&record.id).unwrap().unwrap().suite_text(), None);
    assert_eq!(store.load(&record.id).unwrap().unwrap().suite_text(), Some(text));
}

#[test]
fn an_id_that_is_a_path_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).unwrap();
    assert!(store.load("../../../../../../../../../../etc/ssl").unwrap().is_none());
}

#[test]
fn a_run_is_deleted_while_its_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).unwrap();
    for _ in 0..50 {
        let record = record(None);
        let _lock = store.create_locked(&record).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| while store.write_file(&record.id, "report.json", b"{}").is_ok() {});
            std::thread::sleep(std::time::Duration::from_millis(2));
            store.remove(&record).unwrap();
            writer.join().unwrap();
        });
        assert_eq!(store.ids().unwrap(), [""; 0]);
    }
    // A file written in the meantime is removed when the store is next opened.
    FolderStore::open(folder.path()).unwrap();
    let mut left = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(left.all(|name| !name.to_string_lossy().starts_with(GONE)));
}

#[test]
fn attempts_are_recorded_once_a_run_counted_by_owner_and_expire_by_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).unwrap();
    let attempt = |run: &str, owner: Option<&str>, second: i64| {
        let record = AttemptRecord {
            subject: "s".to_owned(),
            run: run.to_owned(),
            owner: owner.map(str::to_owned),
            evidence: run.to_owned(),
            at: Timestamp::from_second(second).unwrap(),
        };
        let all = store.attempt(&record).unwrap();
        all.into_iter().map(|one| one.run).collect::<Vec<_>>()
    };
    assert_eq!(attempt("a", None, 1), ["a"]);
    assert_eq!(attempt("b", None, 2), ["a", "b"]);
    assert_eq!(attempt("b", None, 3), ["a", "b"]);
    assert_eq!(attempt("c", Some("team"), 3), ["c"]);
    store
        .retain_attempts(|one| one.at >= Timestamp::from_second(2).unwrap())
        .unwrap();
    assert_eq!(attempt("d", None, 4), ["b", "d"]);
}
