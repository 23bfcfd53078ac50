//! Tests the rules of a sweep, one at a time.

use std::{
    collections::BTreeMap,
    fs::File,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use isomer_blobs::{BlobStore, StoreConfig};

use super::{AT_ONCE, digest, in_memory, name, names, removed, run, silent};
use crate::{
    Amount, Holder, Holds, Kind, Policy, RetentionError, Sweep, announcement::announce, release, segment::Segment,
    sweep, sweep::sweep_in_parts, usage,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Blobs of a digest that [`fill`] writes: one of every kind but `Held`.
const EACH: u64 = Kind::ALL.len() as u64 - 1;

fn folder(path: &Path) -> BlobStore {
    let config = StoreConfig {
        url: path.display().to_string(),
        ..StoreConfig::default()
    };
    BlobStore::open(&config).unwrap().unwrap()
}

/// Makes a blob older.
fn age(store: &Path, name: &str, by: Duration) {
    let file = File::options().write(true).open(store.join(name)).unwrap();
    file.set_modified(SystemTime::now() - by).unwrap();
}

/// Writes the blobs of every kind for some digests.
async fn fill(blobs: &BlobStore, numbers: std::ops::Range<u8>) {
    for n in numbers {
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Held) {
            blobs.put_new(&name(kind, n), b"body").await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_run_holds_is_kept_until_it_is_released() {
    let blobs = in_memory();
    fill(&blobs, 0..4).await;
    let holds = Holds::new(blobs.clone());
    run(&holds, "one").hold(vec![digest(0), digest(1)]).await.unwrap();
    run(&holds, "two").hold(vec![digest(1), digest(2)]).await.unwrap();
    let swept = removed(&blobs).await;
    assert_eq!(
        (swept.total().objects, swept.held.objects, swept.runs),
        (EACH, 3 * EACH, 2)
    );
    assert_eq!(swept.removed[&Kind::Answers].objects, 1);
    for n in 0..4 {
        assert_eq!(blobs.exists(&name(Kind::Texts, n)).await.unwrap(), n < 3, "{n}");
    }
    release(&blobs, "one").await.unwrap();
    release(&blobs, "one").await.unwrap();
    assert_eq!(removed(&blobs).await.total().objects, EACH);
    assert!(blobs.exists(&name(Kind::Scores, 1)).await.unwrap());
    assert!(!blobs.exists(&name(Kind::Scores, 0)).await.unwrap());
    release(&blobs, "two").await.unwrap();
    assert_eq!(removed(&blobs).await.total().objects, 2 * EACH);
    assert_eq!(removed(&blobs).await.total().objects, 0);
}

#[tokio::test]
async fn a_store_of_more_references_than_fit_in_memory_is_swept_in_parts() {
    let (whole, parts) = (in_memory(), in_memory());
    for blobs in [&whole, &parts] {
        fill(blobs, 0..60).await;
        let held = (0..30).map(digest).collect();
        run(&Holds::new(blobs.clone()), "one").hold(held).await.unwrap();
    }
    let expected = removed(&whole).await;
    assert_eq!(expected.total().objects, 30 * EACH);
    let swept = sweep_in_parts(&parts, AT_ONCE, Sweep::Remove, &silent, 3)
        .await
        .unwrap();
    assert_eq!(swept, expected);
    assert_eq!(names(&parts, "answers").await, names(&whole, "answers").await);
}

#[tokio::test]
async fn a_dry_run_says_what_would_go_and_writes_nothing() {
    let blobs = in_memory();
    fill(&blobs, 0..3).await;
    run(&Holds::new(blobs.clone()), "one")
        .hold(vec![digest(0)])
        .await
        .unwrap();
    let before = names(&blobs, "").await;
    let dry = sweep(&blobs, AT_ONCE, Sweep::DryRun, &silent).await.unwrap();
    assert_eq!(names(&blobs, "").await, before);
    assert_eq!(dry.total().objects, 2 * EACH);
    // The removed blobs are those that were reported.
    assert_eq!(removed(&blobs).await, dry);
}

#[tokio::test]
async fn what_is_young_stays_and_the_blobs_of_one_digest_go_together() {
    let place = tempfile::tempdir().unwrap();
    let blobs = folder(place.path());
    fill(&blobs, 0..3).await;
    let policy = Policy {
        older_than: HOUR,
        ..AT_ONCE
    };
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Held) {
        age(place.path(), &name(kind, 0), 2 * HOUR);
    }
    // An old answer with a new claim.
    age(place.path(), &name(Kind::Answers, 1), 2 * HOUR);
    let swept = sweep(&blobs, policy, Sweep::Remove, &silent).await.unwrap();
    assert_eq!((swept.total().objects, swept.young.objects), (EACH, 2 * EACH));
    assert!(blobs.exists(&name(Kind::Answers, 1)).await.unwrap());
    assert!(!blobs.exists(&name(Kind::Answers, 0)).await.unwrap());
}

#[tokio::test]
async fn what_a_unit_held_is_kept_as_long_as_the_unit() {
    let blobs = in_memory();
    let unit = Holder::Unit(digest(1));
    blobs.put_new(&name(Kind::Answers, 1), b"answer").await.unwrap();
    blobs.put_new(&name(Kind::Texts, 9), b"text").await.unwrap();
    let holds = Holds::new(blobs.clone());
    holds.of(&unit).hold(vec![digest(9)]).await.unwrap();
    run(&holds, "one").hold(vec![digest(1)]).await.unwrap();
    assert_eq!(removed(&blobs).await.total().objects, 0);
    let used = usage(&blobs, &silent).await.unwrap();
    // The answer, the blobs that its execution held, and that record itself.
    assert_eq!((used.runs[0].held.objects, used.unheld.objects), (3, 0));
    release(&blobs, "one").await.unwrap();
    assert_eq!(removed(&blobs).await.total().objects, 2);
    assert!(blobs.exists(&name(Kind::Texts, 9)).await.unwrap());
    assert_eq!(removed(&blobs).await.total().objects, 1);
    assert_eq!(names(&blobs, "").await, [""; 0]);
}

#[tokio::test]
async fn a_run_is_forgotten_when_it_has_not_been_active_and_not_before() {
    let place = tempfile::tempdir().unwrap();
    let blobs = folder(place.path());
    fill(&blobs, 0..3).await;
    for id in ["old", "taken-up-again", "new"] {
        let n = id.len() as u8 % 3;
        let hold = run(&Holds::new(blobs.clone()), id);
        hold.hold(vec![digest(n)]).await.unwrap();
        // The first sign of life is also removed. A hold that is dropped early writes none.
        while names(&blobs, &format!("runs/{id}/alive")).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(hold);
    }
    for id in ["old", "taken-up-again"] {
        for name in names(&blobs, &format!("runs/{id}")).await {
            age(place.path(), &name, 40 * DAY);
        }
    }
    let policy = Policy {
        forget_runs: Some(30 * DAY),
        ..AT_ONCE
    };
    let later = Policy {
        forget_runs: Some(41 * DAY),
        ..AT_ONCE
    };
    let swept = sweep(&blobs, later, Sweep::DryRun, &silent).await.unwrap();
    assert!(swept.forgotten_runs.is_empty() && swept.runs == 3, "{swept:?}");
    let other = run(&Holds::new(blobs.clone()), "taken-up-again");
    other.hold(vec![digest(2)]).await.unwrap();
    let swept = sweep(&blobs, policy, Sweep::Remove, &silent).await.unwrap();
    assert_eq!(swept.forgotten_runs, ["old"]);
    // `old` held 0, which `new` also holds; `taken-up-again` held 2.
    assert_eq!(swept.total().objects, EACH);
    assert_eq!(names(&blobs, "runs/old").await, [""; 0]);
    assert!(!names(&blobs, "runs/new").await.is_empty());
}

#[tokio::test]
async fn references_that_cannot_be_read_end_a_sweep_before_it_removes_anything() {
    let blobs = in_memory();
    fill(&blobs, 0..3).await;
    blobs
        .put_new("runs/one/refs/018f", b"of another version")
        .await
        .unwrap();
    for mode in [Sweep::DryRun, Sweep::Remove] {
        let error = sweep(&blobs, AT_ONCE, mode, &silent).await.unwrap_err();
        let RetentionError::Unreadable { name, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(name, "runs/one/refs/018f");
    }
    assert_eq!(names(&blobs, "texts").await.len(), 3);
    release(&blobs, "one").await.unwrap();
    assert_eq!(removed(&blobs).await.total().objects, 3 * EACH);
}

#[tokio::test]
async fn blobs_of_no_known_kind_are_never_removed() {
    let blobs = in_memory();
    for name in ["texts/avx2/00/notes", "README", "other/00/x"] {
        blobs.put_new(name, b"").await.unwrap();
    }
    assert_eq!(removed(&blobs).await.total(), Amount::default());
    assert_eq!(usage(&blobs, &silent).await.unwrap().unknown.objects, 3);
    assert_eq!(names(&blobs, "").await.len(), 3);
}

#[tokio::test]
async fn a_sweep_that_is_interrupted_anywhere_can_be_run_again() {
    use super::jittery::Jittery;
    for turns in (0..400).step_by(7) {
        let store = Jittery::new(turns);
        let blobs = BlobStore::over(Arc::new(store), "memory");
        fill(&blobs, 0..6).await;
        let holds = Holds::new(blobs.clone());
        run(&holds, "one").hold(vec![digest(0)]).await.unwrap();
        {
            let mut interrupted = std::pin::pin!(sweep(&blobs, AT_ONCE, Sweep::Remove, &silent));
            for _ in 0..turns {
                if futures::poll!(interrupted.as_mut()).is_ready() {
                    break;
                }
            }
        }
        let again = removed(&blobs).await;
        assert_eq!(again.held.objects, EACH);
        assert_eq!(names(&blobs, "answers").await, [name(Kind::Answers, 0)]);
    }
}

#[tokio::test]
async fn a_holder_waits_for_the_end_of_a_removal_unless_it_was_abandoned() {
    let place = tempfile::tempdir().unwrap();
    let blobs = folder(place.path());
    let announced = announce(&blobs, vec![digest(1), digest(2)]).await.unwrap();
    let holds = Holds::new(blobs.clone());
    let hold = run(&holds, "one");
    // Another digest is not affected.
    hold.hold(vec![digest(3)]).await.unwrap();
    let waiting = tokio::spawn({
        let hold = hold.clone();
        async move { hold.hold(vec![digest(2)]).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    blobs.remove(&announced).await.unwrap();
    waiting.await.unwrap().unwrap();
    let abandoned = announce(&blobs, vec![digest(1)]).await.unwrap();
    age(place.path(), &abandoned, HOUR);
    hold.hold(vec![digest(1)]).await.unwrap();
    removed(&blobs).await;
    assert_eq!(names(&blobs, "gc").await, [""; 0]);
}

#[tokio::test]
async fn small_segments_are_repeated_in_one_and_then_removed() {
    let place = tempfile::tempdir().unwrap();
    let blobs = folder(place.path());
    let hold = run(&Holds::new(blobs.clone()), "one");
    fill(&blobs, 0..70).await;
    for n in 0..70 {
        hold.hold(vec![digest(n)]).await.unwrap();
        // The digest is held already.
        hold.hold(vec![digest(n)]).await.unwrap();
    }
    let references = names(&blobs, "runs/one/refs").await;
    assert_eq!(references.len(), 71);
    assert_eq!(removed(&blobs).await.total().objects, 0);
    assert_eq!(names(&blobs, "runs/one/refs").await.len(), 71);
    for name in &references {
        age(place.path(), name, 2 * HOUR);
    }
    assert_eq!(removed(&blobs).await.total().objects, 0);
    assert_eq!(names(&blobs, "runs/one/refs").await.len(), 7);
    assert_eq!(removed(&blobs).await.total().objects, 0);
}

#[tokio::test]
async fn a_segment_that_names_others_removes_no_blob_of_another_kind() {
    let place = tempfile::tempdir().unwrap();
    let blobs = folder(place.path());
    fill(&blobs, 0..1).await;
    let hold = run(&Holds::new(blobs.clone()), "one");
    hold.hold(vec![digest(0)]).await.unwrap();
    let evil = Segment {
        digests: Vec::new(),
        replaces: vec![name(Kind::Answers, 0), "README".to_owned()],
    };
    blobs.put_new("README", b"").await.unwrap();
    blobs.put_new("runs/two/refs/018f", &evil.encode()).await.unwrap();
    age(place.path(), "runs/two/refs/018f", 2 * HOUR);
    removed(&blobs).await;
    assert!(blobs.exists("README").await.unwrap());
    assert!(blobs.exists(&name(Kind::Answers, 0)).await.unwrap());
}

#[tokio::test]
async fn what_is_held_soon_is_written_without_waiting() {
    let blobs = in_memory();
    fill(&blobs, 0..3).await;
    let holds = Holds::new(blobs.clone());
    let hold = run(&holds, "one");
    hold.hold_soon(vec![digest(0)]);
    hold.hold_soon(vec![digest(1)]);
    assert_eq!(names(&blobs, "runs/one/refs").await, [""; 0]);
    hold.flush().await.unwrap();
    assert_eq!(names(&blobs, "runs/one/refs").await.len(), 1);
    assert_eq!(removed(&blobs).await.total().objects, EACH);
}

#[tokio::test]
async fn usage_says_what_each_run_holds_and_what_it_holds_alone() {
    let blobs = in_memory();
    fill(&blobs, 0..3).await;
    let holds = Holds::new(blobs.clone());
    run(&holds, "one").hold(vec![digest(0), digest(1)]).await.unwrap();
    run(&holds, "two").hold(vec![digest(1)]).await.unwrap();
    let used = usage(&blobs, &silent).await.unwrap();
    let by_id: BTreeMap<&str, (u64, u64)> = used
        .runs
        .iter()
        .map(|run| (run.id.as_str(), (run.held.objects, run.alone.objects)))
        .collect();
    assert_eq!(by_id, [("one", (2 * EACH, EACH)), ("two", (EACH, 0))].into());
    assert_eq!((used.kinds[&Kind::Texts].objects, used.unheld.objects), (3, EACH));
    let all = used.kinds.values().map(|kind| kind.objects).sum::<u64>() + used.records.objects + used.unknown.objects;
    assert_eq!(used.total.objects, all);
    assert!(used.runs.iter().all(|run| run.active > 0));
}
