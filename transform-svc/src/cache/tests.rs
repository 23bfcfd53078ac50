#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{io::Write, sync::Arc, thread};

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

/// Counts of entries, segments and corrupt lines.
fn held(cache: &Cache) -> (usize, usize, u64) {
    let stats = cache.stats();
    (stats.entries, stats.segments, stats.corrupt_lines)
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect()
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
    assert_eq!(held(&cache), (1, 1, 0));
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
fn a_line_torn_by_a_kill_is_ignored_and_the_segment_is_carried_on() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    cache.put(key(1), &entry(1)).unwrap();
    drop(cache);
    let path = segments(directory.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(&whole[..whole.len() / 2])
        .unwrap();

    let cache = Cache::open(directory.path()).unwrap();
    assert_eq!(held(&cache), (1, 1, 0));
    cache.put(key(2), &entry(2)).unwrap();
    let again = Cache::open(directory.path()).unwrap();
    assert_eq!(held(&again), (2, 1, 0));
    assert_eq!(again.get(&key(2)).unwrap(), Some(entry(2)));
}

#[test]
fn a_corrupt_line_is_counted_and_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    for n in 0..3 {
        cache.put(key(n), &entry(n)).unwrap();
    }
    drop(cache);
    let path = segments(directory.path()).remove(0);
    let text = fs::read_to_string(&path).unwrap().replace("source 1", "source X");
    fs::write(&path, text).unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    assert_eq!(held(&cache), (2, 1, 1));
    assert_eq!(cache.get(&key(1)).unwrap(), None);
    assert_eq!(cache.get(&key(2)).unwrap(), Some(entry(2)));
}

#[test]
fn damage_while_open_is_a_miss_not_a_wrong_answer() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    cache.put(key(1), &entry(1)).unwrap();
    let path = segments(directory.path()).remove(0);
    let text = fs::read_to_string(&path).unwrap().replace("output 1", "output 7");
    fs::write(&path, text).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), None);
    assert_eq!(cache.stats().corrupt_lines, 1);
}

#[test]
fn two_open_caches_write_to_their_own_segments_and_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (
        Cache::open(directory.path()).unwrap(),
        Cache::open(directory.path()).unwrap(),
    );
    a.put(key(1), &entry(1)).unwrap();
    b.put(key(2), &entry(2)).unwrap();
    assert_eq!(segments(directory.path()).len(), 2);
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
fn a_segment_that_an_older_version_wrote_is_read_and_carried_on() {
    let fixture = Path::new(".").join("tests/fixtures/cache");
    let directory = tempfile::tempdir().unwrap();
    for path in isomer_segment_log::paths(&fixture, &FORMAT).unwrap() {
        fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let before = segments(directory.path());
    let cache = Cache::open(directory.path()).unwrap();
    assert_eq!(held(&cache), (3, 1, 0));
    assert!((0..3).all(|n| cache.get(&key(n)).unwrap() == Some(written_before(n))));
    cache.put(key(3), &entry(3)).unwrap();
    assert_eq!(cache.get(&key(3)).unwrap(), Some(entry(3)));
    assert_eq!(segments(directory.path()), before, "the segment has room");

    // An older version can read new segments: the bytes are the same.
    let anew = tempfile::tempdir().unwrap();
    let cache = Cache::open(anew.path()).unwrap();
    (0..3).for_each(|n| cache.put(key(n), &written_before(n)).unwrap());
    let now = fs::read(&segments(anew.path())[0]).unwrap();
    assert!(fs::read(&before[0]).unwrap().starts_with(&now));
}
