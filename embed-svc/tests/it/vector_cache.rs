//! The vector cache: cached entries, and their survival.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use isomer_embed::{
    batch::TextView,
    cache::{Bounds, Key, VectorCache, forget_all, key, remove_over},
};
use isomer_proto::encoder::v1::{EncodeRequest, Truncation};
use isomer_segment_log::{MaxAge, Mode};
use proptest::prelude::*;
use serde_json::json;

use crate::common::{
    edit_json,
    harness::{Harness, request, rows},
    tensors, write_tensors,
};

const WIDTH: usize = 4;

fn bounds(bytes: u64) -> Bounds {
    let age = MaxAge::default();
    Bounds { bytes, age }
}

fn open(root: &Path) -> VectorCache {
    VectorCache::open(root, "space", WIDTH, bounds(8 << 20)).unwrap()
}

fn entry(n: u32) -> (Key, [f32; WIDTH]) {
    #[allow(clippy::cast_precision_loss)]
    let value = n as f32;
    (key(TextView::plain(&[n, 7]), None), [value, -value, 0.5, 1e-30])
}

fn put(cache: &VectorCache, numbers: impl Iterator<Item = u32>) {
    let entries: Vec<_> = numbers.map(entry).collect();
    cache
        .put(entries.iter().map(|(key, vector)| (*key, &vector[..])))
        .unwrap();
}

fn found(cache: &VectorCache, n: u32) -> bool {
    let (key, vector) = entry(n);
    match &cache.get(&[key])[0] {
        Some(got) => {
            assert_eq!(got, &vector);
            true
        }
        None => false,
    }
}

fn files(root: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = fs::read_dir(root.join("space"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn what_was_written_is_found_by_the_next_process_and_by_one_beside() {
    let root = tempfile::tempdir().unwrap();
    let (first, beside) = (open(root.path()), open(root.path()));
    put(&first, 0..100);
    put(&beside, 100..200);
    assert!((0..200).all(|n| found(&first, n) && found(&beside, n)));
    assert!(!found(&first, 200));
    assert_eq!(files(root.path()).len(), 2, "each writer has a file of its own");
    drop((first, beside));
    let next = open(root.path());
    assert_eq!(next.len(), 200);
    put(&next, 200..201);
    assert_eq!(files(root.path()).len(), 2, "a file that nobody holds is carried on");
}

#[test]
fn what_is_known_is_found_without_a_look_at_the_folder() {
    let root = tempfile::tempdir().unwrap();
    let (first, beside) = (open(root.path()), open(root.path()));
    let keys = |numbers: &[u32]| numbers.iter().map(|n| entry(*n).0).collect::<Vec<_>>();
    let vectors = |numbers: &[u32]| numbers.iter().map(|n| Some(entry(*n).1.to_vec())).collect::<Vec<_>>();
    put(&first, 1..4);
    assert_eq!(first.known(&keys(&[3, 1])), Some(vectors(&[3, 1])));
    assert_eq!(first.known(&keys(&[1, 4])), None, "all or none");
    assert_eq!(beside.known(&keys(&[1])), None);
    assert_eq!(beside.get(&keys(&[1])), vectors(&[1]));
    assert_eq!(
        beside.known(&keys(&[1, 3])),
        Some(vectors(&[1, 3])),
        "the look was at all of them"
    );
}

#[test]
fn vectors_of_a_removed_file_are_gone_for_those_who_read_it_too() {
    for look in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let (first, reader) = (open(root.path()), open(root.path()));
        put(&first, 0..10);
        assert!(found(&reader, 1));
        // No process writes to the file any more.
        drop(first);
        forget_all(root.path(), Mode::Erase).unwrap();
        assert!(files(root.path()).is_empty());
        if look {
            assert!(!found(&reader, 1));
            assert!(reader.is_empty(), "{}", reader.len());
        } else {
            assert_eq!(reader.known(&[entry(1).0]), None);
        }
        put(&reader, 1..2);
        assert!(found(&reader, 1), "and it is kept again");
    }
}

#[test]
fn keys_tell_texts_and_prompts_apart() {
    let plain = |ids| key(TextView::plain(ids), None);
    let prompted = TextView {
        prompt: 1,
        ..TextView::plain(&[1, 2])
    };
    let prompted = key(prompted, None);
    assert_ne!(plain(&[1, 2]), plain(&[2, 1]));
    assert_ne!(plain(&[1, 2]), prompted);
    assert_eq!(plain(&[1, 2]), plain(&[1, 2]));
    let of = |tenant| key(TextView::plain(&[1, 2]), Some(tenant));
    assert_ne!(of("one"), plain(&[1, 2]));
    assert_ne!(of("one"), of("two"));
}

#[test]
fn vectors_that_are_not_finite_are_never_kept() {
    let root = tempfile::tempdir().unwrap();
    let cache = open(root.path());
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let vector = [1.0, bad, 0.0, 0.0];
        cache.put([(entry(1).0, &vector[..])].into_iter()).unwrap();
    }
    cache.put([(entry(2).0, &[1.0][..])].into_iter()).unwrap();
    assert!(cache.is_empty());
    assert_eq!(cache.get(&[entry(1).0, entry(2).0]), [None, None]);
}

#[test]
fn the_oldest_files_go_when_the_bound_is_reached() {
    let root = tempfile::tempdir().unwrap();
    let most = 64 << 10;
    for round in 0..40 {
        // Each has its own writer, so that the files of the others may be removed.
        let cache = VectorCache::open(root.path(), "space", WIDTH, bounds(most)).unwrap();
        put(&cache, round * 100..round * 100 + 100);
    }
    let bytes: u64 = files(root.path())
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum();
    assert!(bytes <= most + 100 * 56, "{bytes}");
    let cache = VectorCache::open(root.path(), "space", WIDTH, bounds(most)).unwrap();
    assert!(!found(&cache, 0) && found(&cache, 3999));
}

#[test]
fn vectors_go_at_the_end_of_their_time_in_all_spaces() {
    let root = tempfile::tempdir().unwrap();
    put(&open(root.path()), 0..10);
    // Makes the files look as if they had been written a week ago.
    let week_ago = SystemTime::now() - Duration::from_secs(7 * 24 * 3600 + 1);
    let seconds = week_ago.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let id = uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
    let old = root.path().join(format!("space/vectors-{id}.bin"));
    fs::rename(files(root.path()).remove(0), &old).unwrap();
    let reader = open(root.path());
    assert!(found(&reader, 3), "without an age they stay");
    let of_days = |days| Bounds {
        bytes: 8 << 20,
        age: MaxAge::days(days),
    };
    // The eight days are not over, but the file is no longer written to.
    let cache = VectorCache::open(root.path(), "space", WIDTH, of_days(8)).unwrap();
    put(&cache, 10..20);
    assert!(found(&cache, 3) && found(&cache, 13));
    assert_eq!(files(root.path()).len(), 2);
    assert_eq!(cache.expire().unwrap().segments, 0);
    // Another space with a different age limit removes old files of this one, and keeps young ones.
    VectorCache::open(root.path(), "other", WIDTH, of_days(7)).unwrap();
    assert!(!old.exists());
    assert_eq!(cache.expire().unwrap().segments, 0);
    assert!(!found(&cache, 3) && found(&cache, 13));
    assert_eq!(
        remove_over(&root.path().join("none"), MaxAge::days(1))
            .unwrap()
            .segments,
        0
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_file_cut_or_damaged_anywhere_loses_no_more_than_what_was_hit(cut in 0usize..3000, hit in 0usize..3000, value in any::<u8>()) {
        let root = tempfile::tempdir().unwrap();
        put(&open(root.path()), 0..50);
        let file = files(root.path()).remove(0);
        let mut bytes = fs::read(&file).unwrap();
        let record = bytes.len() / 50;
        bytes.truncate(bytes.len().saturating_sub(cut % bytes.len()));
        let whole = bytes.len() / record;
        let changed = bytes.get_mut(hit).is_some_and(|byte| std::mem::replace(byte, value) != value);
        fs::write(&file, &bytes).unwrap();
        let cache = open(root.path());
        for n in 0..50 {
            let lost = n as usize >= whole || (changed && hit / record == n as usize);
            prop_assert_eq!(found(&cache, n), !lost, "record {}", n);
        }
        // The cache continues to be used.
        put(&cache, 0..60);
        drop(cache);
        let again = open(root.path());
        prop_assert!((0..60).all(|n| found(&again, n)));
    }
}

/// Set in the process that is killed: the path to write to.
const VICTIM: &str = "ISOMER_TEST_CACHE_VICTIM";

#[test]
fn a_writer_that_is_killed_loses_nothing_that_it_had_written() {
    if let Some(root) = std::env::var_os(VICTIM) {
        let cache = open(Path::new(&root));
        // Fewer entries than fill a file, however late the process is killed.
        for step in 0..1_500 {
            put(&cache, step * 10..step * 10 + 10);
        }
        std::thread::sleep(std::time::Duration::from_secs(3600));
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "vector_cache::a_writer_that_is_killed_loses_nothing_that_it_had_written",
        ])
        .env(VICTIM, root.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    let written = loop {
        let written = open(root.path()).len();
        if written > 300 || started.elapsed().as_secs() > 120 {
            break u32::try_from(written).unwrap();
        }
    };
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(written > 300, "the writer wrote {written}");
    let cache = open(root.path());
    assert!((0..written).all(|n| found(&cache, n)));
    let there = u32::try_from(cache.len()).unwrap();
    put(&cache, there..there + 5);
    assert!((0..there + 5).all(|n| found(&cache, n)));
    assert_eq!(
        files(root.path()).len(),
        1,
        "the file is carried on behind its last whole record"
    );
}

#[test]
fn writers_at_once_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for part in 0..4 {
            let root = root.path();
            scope.spawn(move || {
                let cache = open(root);
                for step in 0..25 {
                    let first = part * 1000 + step * 10;
                    put(&cache, first..first + 10);
                }
            });
        }
    });
    let cache = open(root.path());
    assert!((0..4).all(|part| (0..250).all(|n| found(&cache, part * 1000 + n))));
}

#[tokio::test]
async fn a_text_that_was_encoded_before_needs_no_model_whatever_is_asked_of_its_vector() {
    let place = tempfile::tempdir().unwrap();
    let kept = || {
        let place = place.path().to_path_buf();
        Harness::new(move |_, config| config.cache_dir = Some(place))
    };
    let mut harness = kept().await;
    let inputs = ["a b", "c", "a b", "", "query: a"];
    let first = harness.encode(request(&inputs)).await;
    assert_eq!(first.usage.as_ref().unwrap().cached_texts, 0);
    let second = harness.encode(request(&inputs)).await;
    assert_eq!(second.embeddings, first.embeddings, "bit for bit");
    assert_eq!(second.vector_space, first.vector_space);
    let usage = second.usage.unwrap();
    assert_eq!((usage.texts, usage.cached_texts, usage.tokens), (5, 5, 0));
    assert_eq!(
        (second.token_counts, second.truncated),
        (first.token_counts.clone(), first.truncated.clone())
    );
    drop(harness);

    let mut harness = kept().await;
    let more = harness.encode(request(&["new", "c", "a b"])).await;
    assert_eq!(more.usage.unwrap().cached_texts, 2, "found by the next process");
    let first_rows = rows(&first);
    let cut = EncodeRequest {
        dimensions: Some(8),
        normalise: Some(false),
        ..request(&["c"])
    };
    let answer = harness.encode(cut.clone()).await;
    assert_eq!(answer.usage.as_ref().unwrap().cached_texts, 1);
    let mut fresh = Harness::plain().await;
    assert_eq!(rows(&answer), rows(&fresh.encode(cut).await));
    assert_eq!(rows(&fresh.encode(request(&inputs)).await), first_rows);
    // Equal tokens are the same text; different ends of a long text are not.
    let long = "a b c d e f g h i j k l m n o p q r s t u v w x y z";
    let end = |truncation: Truncation| EncodeRequest {
        truncation: truncation.into(),
        ..request(&[long])
    };
    let tail = harness.encode(end(Truncation::Tail)).await;
    let head = harness.encode(end(Truncation::Head)).await;
    assert_eq!(head.usage.unwrap().cached_texts, 0);
    assert_ne!(tail.embeddings, head.embeddings);
}

#[tokio::test]
async fn another_pipeline_or_other_weights_are_another_space() {
    let place = tempfile::tempdir().unwrap();
    let harness = |edit: fn(&Path)| {
        let place = place.path().to_path_buf();
        Harness::new(move |model, config| {
            edit(model);
            config.cache_dir = Some(place);
        })
    };
    let edits: [fn(&Path); 4] = [
        |_| (),
        |model| {
            edit_json(&model.join("1_Pooling/config.json"), |c| {
                c["pooling_mode_cls_token"] = json!(true)
            })
        },
        |model| {
            edit_json(&model.join("config.json"), |config| {
                config["layer_norm_eps"] = json!(0.5)
            })
        },
        |model| {
            let mut all = tensors("");
            all.get_mut("embeddings.LayerNorm.bias").unwrap().1[0] += 1.0;
            write_tensors(&model.join("model.safetensors"), &all);
        },
    ];
    for edit in edits {
        let answer = harness(edit).await.encode(request(&["a b"])).await;
        assert_eq!(answer.usage.unwrap().cached_texts, 0);
    }
    assert_eq!(
        harness(|_| ())
            .await
            .encode(request(&["a b"]))
            .await
            .usage
            .unwrap()
            .cached_texts,
        1
    );
}

#[tokio::test]
async fn the_same_files_under_another_name_are_the_same_space() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().to_path_buf();
    let mut harness = Harness::new(move |model, config| {
        config.cache_dir = Some(root);
        config.encoders.insert("prod".into(), model.to_path_buf());
    })
    .await;
    let first = harness.encode(request(&["a b", "c"])).await;
    let named = EncodeRequest {
        encoder_id: "prod".into(),
        ..request(&["a b", "c"])
    };
    let second = harness.encode(named).await;
    assert_eq!(second.usage.unwrap().cached_texts, 2);
    assert_eq!(second.embeddings, first.embeddings);
    let (first, second) = (first.vector_space.unwrap(), second.vector_space.unwrap());
    assert_eq!(
        (first.model_id.as_str(), second.model_id.as_str()),
        ("tiny", "prod"),
        "each answer has the name that was asked for"
    );
    assert_eq!(first.digest, second.digest);
}

#[tokio::test]
async fn damaged_weights_are_an_error_each_time_and_never_in_the_cache() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().to_path_buf();
    let mut harness = Harness::new(move |model, config| {
        let mut all = tensors("");
        all.get_mut("encoder.layer.1.output.dense.bias").unwrap().1[3] = f32::NAN;
        write_tensors(&model.join("model.safetensors"), &all);
        config.cache_dir = Some(root);
    })
    .await;
    for _ in 0..2 {
        let fault = harness.refuse(request(&["a", "b"])).await;
        assert_eq!(
            (fault.reason.as_str(), fault.field.as_deref()),
            ("VECTOR_NOT_FINITE", Some("inputs[0]"))
        );
    }
    let bytes: u64 = fs::read_dir(place.path())
        .unwrap()
        .flat_map(|space| fs::read_dir(space.unwrap().path()).unwrap())
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(bytes, 0);
}

/// Vectors of the fixture `vector_cache`, which was written before segments had their own crate.
fn written_before() -> Vec<(Key, [f32; WIDTH])> {
    let vector = |n: u8| std::array::from_fn(|i| f32::from(n) + i as f32 / 8.0 - 1.0);
    (0..3).map(|n| ([n; 32], vector(n))).collect()
}

#[test]
fn a_file_that_an_older_version_wrote_is_read_and_carried_on() {
    let fixture = Path::new(".").join("tests/fixtures/vector_cache/space");
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("space")).unwrap();
    for file in fs::read_dir(fixture).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), root.path().join("space").join(file.file_name())).unwrap();
    }
    let before = files(root.path());
    let cache = open(root.path());
    assert_eq!(cache.len(), 3);
    for (key, vector) in written_before() {
        assert_eq!(cache.get(&[key]), [Some(vector.to_vec())]);
    }
    put(&cache, 0..1);
    assert!(found(&cache, 0));
    assert_eq!(files(root.path()), before, "the file has room");

    // An older version can read new files: the bytes are the same.
    let anew = tempfile::tempdir().unwrap();
    let entries = written_before();
    open(anew.path())
        .put(entries.iter().map(|(key, vector)| (*key, &vector[..])))
        .unwrap();
    let now = fs::read(&files(anew.path())[0]).unwrap();
    assert!(fs::read(&before[0]).unwrap().starts_with(&now));
}

#[test]
fn forgotten_vectors_are_gone_from_every_space_and_from_the_process_that_wrote_them() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    put(&writer, 0..50);
    put(
        &VectorCache::open(root.path(), "other", WIDTH, bounds(8 << 20)).unwrap(),
        0..10,
    );
    let planned = forget_all(root.path(), Mode::Count).unwrap();
    assert!(planned.records == 2 && found(&writer, 7), "{planned:?}");
    assert_eq!(forget_all(root.path(), Mode::Erase).unwrap(), planned);
    assert!((0..50).all(|n| !found(&writer, n)));
    let bytes = files(root.path()).into_iter().flat_map(|file| fs::read(file).unwrap());
    assert!(bytes.into_iter().all(|byte| byte == 0));
    assert!(open(root.path()).is_empty());
    put(&writer, 0..50);
    assert!((0..50).all(|n| found(&writer, n)));
    assert_eq!(forget_all(&root.path().join("absent"), Mode::Erase).unwrap().records, 0);
}
