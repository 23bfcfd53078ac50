#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs, thread,
    time::{Duration, SystemTime},
};

use isomer_disk_cache::MaxAge;
use sqlx::{Connection, SqliteConnection};

use super::*;

fn key(n: u32) -> Key {
    *blake3::hash(&n.to_le_bytes()).as_bytes()
}

fn entry(n: u32) -> Entry {
    Entry {
        output: format!("output {n} – with \"quotes\",\nlines and émojis 🎉"),
        seed: 1337,
        prompt_tokens: 10,
        generated_tokens: n.into(),
        source: format!("source {n}"),
        transformation: "paraphrase".into(),
        generator: "local:x".into(),
        prompt: "paraphrase@1".into(),
        language: "en".into(),
        tokens_estimated: n.is_multiple_of(2),
        cut: false,
        fingerprint: String::new(),
        made: None,
        dispatch: None,
    }
}

/// Counts of entries and of damaged entries.
fn held(cache: &Cache) -> (u64, u64) {
    let stats = cache.stats().unwrap();
    (stats.entries, stats.damaged)
}

/// Replaces bytes in a closed cache.
fn damage(directory: &Path, from: &str, to: &str) {
    let path = directory.join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(from.len())
        .position(|part| part == from.as_bytes())
        .unwrap();
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    fs::write(&path, bytes).unwrap();
}

#[test]
fn an_entry_is_found_again_now_and_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(&directory.path().join("made/on/demand")).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), None);
    cache.put(key(1), &entry(1)).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), Some(entry(1)));
    drop(cache);
    let cache = Cache::open(&directory.path().join("made/on/demand")).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), Some(entry(1)));
    assert_eq!(held(&cache), (1, 0));
}

#[test]
fn what_was_put_is_there_for_the_next_process_even_if_this_one_is_never_closed() {
    let directory = tempfile::tempdir().unwrap();
    let killed = Cache::open(directory.path()).unwrap();
    for n in 0..100 {
        killed.put(key(n), &entry(n)).unwrap();
    }
    std::mem::forget(killed);
    let cache = Cache::open(directory.path()).unwrap();
    assert!((0..100).all(|n| cache.get(&key(n)).unwrap() == Some(entry(n))));
}

#[test]
fn a_write_torn_by_a_kill_is_ignored_and_the_file_is_carried_on() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    cache.put(key(1), &entry(1)).unwrap();
    let log = format!("{FILE}-wal");
    let whole = fs::metadata(directory.path().join(&log)).unwrap().len();
    cache.put(key(2), &entry(2)).unwrap();
    let both = fs::metadata(directory.path().join(&log)).unwrap().len();
    let torn = tempfile::tempdir().unwrap();
    for name in [FILE, &log] {
        fs::copy(directory.path().join(name), torn.path().join(name)).unwrap();
    }
    let file = fs::OpenOptions::new().write(true).open(torn.path().join(&log)).unwrap();
    file.set_len(whole + (both - whole) / 2).unwrap();

    let cache = Cache::open(torn.path()).unwrap();
    assert_eq!(held(&cache), (1, 0));
    cache.put(key(2), &entry(2)).unwrap();
    let again = Cache::open(torn.path()).unwrap();
    assert_eq!(held(&again), (2, 0));
    assert_eq!(again.get(&key(2)).unwrap(), Some(entry(2)));
}

#[test]
fn a_damaged_entry_is_counted_and_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    for n in 0..3 {
        cache.put(key(n), &entry(n)).unwrap();
    }
    drop(cache);
    damage(directory.path(), "source 1", "source X");
    let cache = Cache::open(directory.path()).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), None);
    assert_eq!(cache.get(&key(2)).unwrap(), Some(entry(2)));
    assert_eq!(held(&cache), (2, 1));
}

#[test]
fn two_open_caches_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (
        Cache::open(directory.path()).unwrap(),
        Cache::open(directory.path()).unwrap(),
    );
    a.put(key(1), &entry(1)).unwrap();
    b.put(key(2), &entry(2)).unwrap();
    assert_eq!(a.get(&key(2)).unwrap(), Some(entry(2)));
    assert_eq!(b.get(&key(1)).unwrap(), Some(entry(1)));
    a.put(key(3), &entry(3)).unwrap();
    assert_eq!(b.get(&key(3)).unwrap(), Some(entry(3)));
}

#[test]
fn many_threads_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let caches = [
        Arc::new(Cache::open(directory.path()).unwrap()),
        Arc::new(Cache::open(directory.path()).unwrap()),
    ];
    let threads: Vec<_> = (0..8_u32)
        .map(|thread| {
            let cache = Arc::clone(&caches[thread as usize % 2]);
            thread::spawn(move || {
                (0..50).for_each(|n| cache.put(key(thread * 50 + n), &entry(thread * 50 + n)).unwrap())
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for cache in &caches {
        assert!((0..400).all(|n| cache.get(&key(n)).unwrap() == Some(entry(n))));
    }
}

#[test]
fn an_unwritable_place_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Cache::open(&file.join("cache")).unwrap_err().to_string();
    assert!(error.contains("file/cache") || error.contains("file\\cache"), "{error}");
}

/// Entries of the fixture `cache`, which was written before segments had their own crate.
fn written_before(n: u32) -> Entry {
    Entry {
        dispatch: None,
        made: (n > 1).then(|| GenerationKey {
            prompt_digest: "d1".into(),
            generator_key: "local:x".into(),
            temperature: 0.5,
            top_p: 1.0,
            max_tokens: 64,
            seeded: true,
            tenant: None,
        }),
        ..entry(n)
    }
}

#[test]
fn a_segment_that_an_older_version_wrote_is_imported() {
    let fixture = Path::new(".").join("tests/fixtures/cache");
    let directory = tempfile::tempdir().unwrap();
    for path in old_files(&fixture).paths().unwrap() {
        fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let cache = Cache::open(directory.path()).unwrap();
    assert_eq!(held(&cache), (3, 0));
    assert!((0..3).all(|n| cache.get(&key(n)).unwrap() == Some(written_before(n))));
    cache.put(key(3), &entry(3)).unwrap();
    assert_eq!(cache.get(&key(3)).unwrap(), Some(entry(3)));
    assert!(old_files(directory.path()).paths().unwrap().is_empty());
    assert_eq!(held(&Cache::open(directory.path()).unwrap()), (4, 0));
}

const BOUND: u64 = 4 << 20;

/// Entries of about eight kilobytes.
fn large(n: u32) -> Entry {
    Entry {
        output: format!("{n} {}", "x".repeat(8000)),
        ..entry(n)
    }
}

fn size(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn bounded(directory: &Path, bytes: u64) -> Cache {
    let age = MaxAge::default();
    Cache::open_bounded(directory, Bounds { bytes, age }).unwrap()
}

fn for_days(directory: &Path, days: u32) -> Cache {
    let age = MaxAge::days(days);
    Cache::open_bounded(directory, Bounds { bytes: 0, age }).unwrap()
}

/// Makes all entries look as if they had been written and used this many hours ago.
fn make_older(directory: &Path, hours: u64) {
    let then = SystemTime::now() - Duration::from_secs(hours * 3600);
    let micros = then.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    futures::executor::block_on(async {
        let url = format!("sqlite://{}", directory.join(FILE).display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let update = sqlx::query("UPDATE entries SET made = $1, used = $1").bind(i64::try_from(micros).unwrap());
        update.execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn an_entry_goes_at_the_end_of_its_time_however_often_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let first = for_days(directory.path(), 30);
    first.put(key(1), &entry(1)).unwrap();
    drop(first);
    make_older(directory.path(), 30 * 24 - 1);
    // The entry is in its last hour and is read.
    let cache = for_days(directory.path(), 30);
    assert_eq!(cache.get(&key(1)).unwrap(), Some(entry(1)));
    assert_eq!(cache.expire().unwrap(), Removal::default());
    make_older(directory.path(), 30 * 24);
    assert_eq!(cache.get(&key(1)).unwrap(), None, "between two removals");
    // A cache without a maximum age still finds the entry.
    let without = Cache::open(directory.path()).unwrap();
    assert_eq!(without.get(&key(1)).unwrap(), Some(entry(1)));
    let cache = for_days(directory.path(), 30);
    assert_eq!(cache.get(&key(1)).unwrap(), None);
    assert_eq!(without.get(&key(1)).unwrap(), None);
    assert_eq!(held(&without), (0, 0));
}

#[test]
fn a_bounded_cache_keeps_to_its_bound_and_loses_the_oldest_entries() {
    let directory = tempfile::tempdir().unwrap();
    let cache = bounded(directory.path(), BOUND);
    for n in 0..1500 {
        cache.put(key(n), &large(n)).unwrap();
        assert!(size(directory.path()) <= BOUND, "{}", size(directory.path()));
    }
    assert!(
        cache.stats().unwrap().bytes > BOUND / 2,
        "it is filled: {:?}",
        cache.stats()
    );
    assert!((1400..1500).all(|n| cache.get(&key(n)).unwrap().is_some()));
    assert!((0..900).all(|n| cache.get(&key(n)).unwrap().is_none()));
    // Another process finds the same entries, and so does the next one.
    let other = Cache::open(directory.path()).unwrap();
    assert_eq!(other.stats().unwrap(), cache.stats().unwrap());
}

#[test]
fn what_is_read_stays_and_what_is_not_goes() {
    let directory = tempfile::tempdir().unwrap();
    let cache = bounded(directory.path(), BOUND);
    (0..300).for_each(|n| cache.put(key(n), &large(n)).unwrap());
    make_older(directory.path(), 2);
    cache.get(&key(0)).unwrap().unwrap();
    (300..450).for_each(|n| cache.put(key(n), &large(n)).unwrap());
    assert!(cache.get(&key(0)).unwrap().is_some(), "read since");
    assert!(cache.get(&key(12)).unwrap().is_none(), "not read since");
}

#[test]
fn all_processes_notice_what_was_pruned() {
    let directory = tempfile::tempdir().unwrap();
    let writer = bounded(directory.path(), BOUND);
    let reader = Cache::open(directory.path()).unwrap();
    (0..100).for_each(|n| writer.put(key(n), &large(n)).unwrap());
    assert!((0..100).all(|n| reader.get(&key(n)).unwrap().is_some()));
    let half = reader.stats().unwrap().bytes / 2;
    let pruned = reader.prune(half).unwrap();
    assert!(pruned.entries >= 40 && pruned.bytes >= half, "{pruned:?}");
    assert_eq!(writer.get(&key(0)).unwrap(), None);
    assert_eq!(writer.get(&key(99)).unwrap(), Some(large(99)));
    writer.put(key(100), &large(100)).unwrap();
    assert_eq!(reader.get(&key(100)).unwrap(), Some(large(100)));
    assert_eq!(writer.stats().unwrap(), reader.stats().unwrap());
}

#[test]
fn a_smaller_bound_holds_from_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let cache = bounded(directory.path(), 2 * BOUND);
    (0..1000).for_each(|n| cache.put(key(n), &large(n)).unwrap());
    drop(cache);
    let cache = bounded(directory.path(), BOUND);
    assert!(size(directory.path()) <= BOUND);
    assert!(cache.get(&key(999)).unwrap().is_some());
}
