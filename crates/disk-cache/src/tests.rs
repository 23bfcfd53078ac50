#![allow(clippy::unwrap_used)]

use std::{fs, path::Path, time::SystemTime};

use sha2::Digest;

use super::*;

const BOUND: u64 = 4 << 20;

fn old(folder: &Path) -> OldFiles {
    OldFiles {
        folder: folder.to_owned(),
        prefix: "old-",
        suffix: ".bin",
        framing: Framing::Fixed { content: 40 },
        decode: |content| content.split_first_chunk().map(|(key, value)| (*key, value.to_vec())),
    }
}

fn spec<'a>(folder: &Path, space: &'a str, bounds: Bounds) -> CacheSpec<'a> {
    CacheSpec {
        file: folder.join("entries.sqlite"),
        space,
        bounds,
        old: old(folder),
        on_damaged: |_| (),
        on_removed: |_| (),
    }
}

fn open(folder: &Path) -> DiskCache {
    DiskCache::open(spec(folder, "a", Bounds::default())).unwrap()
}

fn key(n: u32) -> Key {
    *blake3::hash(&n.to_le_bytes()).as_bytes()
}

/// About one kilobyte.
fn value(n: u32) -> Vec<u8> {
    format!("value {n} {}", "x".repeat(1000)).into_bytes()
}

fn put(cache: &DiskCache, numbers: impl Iterator<Item = u32>) {
    let entries: Vec<_> = numbers.map(|n| (key(n), value(n))).collect();
    cache.put(&entries).unwrap();
}

fn found(cache: &DiskCache, n: u32) -> bool {
    let found = cache.get(&[key(n)]).unwrap();
    found.get(&key(n)).is_some_and(|got| {
        assert_eq!(*got, value(n));
        true
    })
}

/// The bytes of all files of the folder.
fn content(folder: &Path) -> Vec<u8> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.flat_map(|path| fs::read(path).unwrap()).collect()
}

fn contains(content: &[u8], part: &[u8]) -> bool {
    content.windows(part.len()).any(|window| window == part)
}

#[test]
fn spaces_are_apart_and_processes_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (first, beside) = (open(folder.path()), open(folder.path()));
    let other = DiskCache::open(spec(folder.path(), "b", Bounds::default())).unwrap();
    put(&first, 0..3);
    put(&beside, 3..6);
    assert!((0..6).all(|n| found(&first, n) && found(&beside, n) && !found(&other, n)));
    assert_eq!((first.stats().unwrap().entries, other.stats().unwrap().entries), (6, 0));
    assert_eq!(first.get(&[key(1), key(9), key(5), key(1)]).unwrap().len(), 2);
    first.put(&[(key(1), b"another".to_vec())]).unwrap();
    assert_eq!(beside.get(&[key(1)]).unwrap()[&key(1)], b"another");
}

#[test]
fn a_log_cut_anywhere_loses_only_the_transactions_behind_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path());
    put(&cache, 0..1);
    let log = folder.path().join("entries.sqlite-wal");
    let lengths: Vec<u64> = (1..10)
        .map(|n| {
            put(&cache, n..n + 1);
            fs::metadata(&log).unwrap().len()
        })
        .collect();
    for cut in (lengths[0]..=lengths[8]).step_by(1237) {
        let copy = tempfile::tempdir().unwrap();
        for name in ["entries.sqlite", "entries.sqlite-wal"] {
            fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
        }
        let file = fs::OpenOptions::new()
            .write(true)
            .open(copy.path().join("entries.sqlite-wal"));
        file.unwrap().set_len(cut).unwrap();
        let after = open(copy.path());
        for (n, length) in (1..10).zip(&lengths) {
            assert_eq!(found(&after, n), *length <= cut, "entry {n} of a log cut at {cut}");
        }
        put(&after, 0..10);
        assert!((0..10).all(|n| found(&after, n)));
    }
}

#[test]
fn a_file_cut_or_damaged_anywhere_gives_no_wrong_value_and_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    put(&open(folder.path()), 0..20);
    let whole = fs::read(folder.path().join("entries.sqlite")).unwrap();
    let mut cut = Vec::new();
    for at in (0..whole.len()).step_by(1511) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        cut.push(damaged);
        cut.push(whole[..at].to_vec());
    }
    for bytes in cut {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("entries.sqlite"), bytes).unwrap();
        let cache = open(folder.path());
        // A value that is found is the right one.
        (0..20).for_each(|n| _ = found(&cache, n));
        put(&cache, 0..20);
        assert!((0..20).all(|n| found(&cache, n)));
    }
}

#[test]
fn a_damaged_value_costs_itself_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    put(&open(folder.path()), 0..5);
    let file = folder.path().join("entries.sqlite");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(7).position(|part| part == b"value 3").unwrap();
    bytes[at + 6] = b'7';
    fs::write(&file, bytes).unwrap();
    let cache = open(folder.path());
    assert_eq!((0..5).filter(|n| found(&cache, *n)).collect::<Vec<_>>(), [0, 1, 2, 4]);
    let stats = cache.stats().unwrap();
    assert_eq!((stats.entries, stats.damaged), (4, 1));
}

#[test]
fn an_erased_entry_is_in_no_file_while_other_processes_use_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, beside) = (open(folder.path()), open(folder.path()));
    put(&cache, 0..50);
    assert!(found(&beside, 7) && found(&beside, 8));
    let unwanted = |value: &[u8]| value.starts_with(b"value 7 ");
    let counted = cache.erase(Mode::Count, unwanted).unwrap();
    assert!(counted.records == 1 && found(&beside, 7), "it is only counted");
    assert_eq!(beside.erase(Mode::Erase, unwanted).unwrap(), counted);
    assert!(!found(&cache, 7) && found(&cache, 8));
    let left = content(folder.path());
    assert!(!contains(&left, b"value 7 ") && contains(&left, b"value 8 "));
    assert_eq!(beside.erase(Mode::Erase, unwanted).unwrap(), Erasure::default());
    put(&cache, 7..8);
    assert!(found(&beside, 7));
}

#[test]
fn files_of_older_versions_are_imported_once_with_their_age() {
    let folder = tempfile::tempdir().unwrap();
    let record = |n: u8| {
        let content = [[n; 32].as_slice(), &[n; 8]].concat();
        let sum = sha2::Sha256::digest(&content);
        [content.as_slice(), &sum[..8]].concat()
    };
    let mut bytes: Vec<u8> = (0..5).flat_map(record).collect();
    bytes[50] ^= 1;
    bytes.truncate(5 * 48 - 3);
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        - 3 * 24 * 3600;
    let id = uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
    let path = folder.path().join(format!("old-{id}.bin"));
    fs::write(&path, &bytes).unwrap();
    fs::write(folder.path().join("old-1.txt"), "").unwrap();
    let cache = open(folder.path());
    let mut keys = cache.keys().unwrap();
    keys.sort_unstable();
    assert_eq!(keys, [[0; 32], [2; 32], [3; 32]], "one is damaged, one is torn");
    assert_eq!(cache.get(&[[3; 32]]).unwrap()[&[3; 32]], [3; 8]);
    assert!(!path.exists() && folder.path().join("old-1.txt").exists());
    let days = |days| Bounds {
        bytes: 0,
        age: MaxAge::days(days),
    };
    let young = DiskCache::open(spec(folder.path(), "a", days(4))).unwrap();
    assert_eq!(young.stats().unwrap().entries, 3);
    let over = DiskCache::open(spec(folder.path(), "a", days(3))).unwrap();
    assert_eq!((over.stats().unwrap().entries, cache.stats().unwrap().entries), (0, 0));
}

#[test]
fn the_files_keep_to_the_bound_whichever_process_writes() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        bytes: BOUND,
        age: MaxAge::default(),
    };
    let caches = [0, 1].map(|_| DiskCache::open(spec(folder.path(), "a", bounds)).unwrap());
    for n in 0..1500 {
        let large = [(key(n), vec![b'x'; 8000])];
        caches[n as usize % 2].put(&large).unwrap();
        let files = fs::read_dir(folder.path()).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes <= BOUND, "{bytes} bytes after {n} entries");
    }
    let keys = |numbers: std::ops::Range<u32>| numbers.map(key).collect::<Vec<_>>();
    assert_eq!(caches[0].get(&keys(1400..1500)).unwrap().len(), 100);
    assert!(caches[0].get(&keys(0..1000)).unwrap().is_empty());
}
