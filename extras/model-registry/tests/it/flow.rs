//! Checks of versions, over a registry in memory: what is written, in which order, and what happens
//! when something changes or fails in the middle.

use isomer_model_registry::{RegistryError, check::Policy, reconcile::RecheckReason, registry::Registry, verdict};
use isomer_proto::eval::v1::Verdict;

use crate::support::{self, CHAMPION, FixedEngine, Memory, PASSED, checker, encoder, given, policy};

const VERDICT: &str = verdict::tag::VERDICT;

#[tokio::test]
async fn a_version_that_passed_gets_its_tags_and_then_the_alias() {
    let memory = Memory::with(&["1"]);
    let (checker, folder) = checker(&memory, given(Verdict::Pass), policy());
    let checked = checker.check("enc", "1").await.unwrap();
    assert_eq!((checked.verdict, checked.alias), (verdict::Verdict::Pass, true));
    assert_eq!(memory.alias(PASSED).as_deref(), Some("1"));
    assert_eq!(memory.alias(CHAMPION), None);
    let written = memory.written();
    let place = |what: &str| written.iter().position(|one| one == what).unwrap();
    assert_eq!(place("record 1"), 0);
    assert_eq!(place("tag 1 isomer.verdict"), written.len() - 3);
    assert_eq!(place("tag 1 isomer.listing_sha256"), written.len() - 2);
    assert_eq!(place(&format!("alias 1 {PASSED}")), written.len() - 1);
    assert_eq!(memory.tag("1", "isomer.baseline").as_deref(), Some("none"));
    // Nothing of its files is left.
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    assert!(left.into_iter().all(|one| one.path().is_file()), "only locks");
}

#[tokio::test]
async fn whatever_is_no_pass_gets_no_alias_and_loses_one_before_its_tags_change() {
    for gate in [
        Verdict::Fail,
        Verdict::Undecided,
        Verdict::Invalid,
        Verdict::Unspecified,
    ] {
        let memory = Memory::with(&["1"]);
        memory.set(PASSED, "1");
        let (checker, _folder) = checker(&memory, given(gate), policy());
        let checked = checker.check("enc", "1").await.unwrap();
        assert!(!checked.alias && checked.verdict != verdict::Verdict::Pass, "{gate:?}");
        assert_eq!(memory.alias(PASSED), None, "{gate:?}");
        assert_eq!(memory.written()[0], format!("unalias {PASSED}"), "{gate:?}");
    }
}

#[tokio::test]
async fn a_version_without_an_encoder_or_with_too_large_a_one_is_tagged_and_never_run() {
    let memory = Memory::with(&["1", "2", "3", "4"]);
    {
        let mut state = memory.0.lock();
        let pickle = [("python_model.pkl".to_owned(), vec![0])];
        state.files.insert("1".to_owned(), pickle.into());
        let weights = "0_StaticEmbedding/model.safetensors".to_owned();
        state.files.get_mut("2").unwrap().insert(weights, vec![0; 2 << 20]);
        for n in 0..20 {
            state.files.get_mut("3").unwrap().insert(format!("extra-{n}"), vec![]);
        }
        let cut = state.files["4"]["0_StaticEmbedding/model.safetensors"][..100].to_vec();
        state
            .files
            .get_mut("4")
            .unwrap()
            .insert("0_StaticEmbedding/model.safetensors".to_owned(), cut);
    }
    let engine = given(Verdict::Pass);
    let runs = engine.runs.clone();
    let (checker, _folder) = checker(&memory, engine, policy());
    for (version, wanted, word) in [
        ("1", "unsupported", "never loaded"),
        ("2", "refused", "--max-bytes"),
        ("3", "refused", "--max-files"),
        ("4", "unsupported", "model.safetensors"),
    ] {
        memory.set(PASSED, version);
        let checked = checker.check("enc", version).await.unwrap();
        assert_eq!(checked.verdict.name(), wanted);
        assert_eq!(memory.tag(version, VERDICT).as_deref(), Some(wanted));
        let reason = memory.tag(version, "isomer.reason").unwrap();
        assert!(reason.contains(word), "{reason}");
        assert_eq!(memory.alias(PASSED), None);
    }
    assert!(runs.lock().is_empty());
}

#[tokio::test]
async fn a_size_that_the_registry_keeps_back_is_bounded_all_the_same() {
    let memory = Memory::with(&["1"]);
    {
        let mut state = memory.0.lock();
        state.without_sizes = true;
        let large = state.files.get_mut("1").unwrap();
        large.insert("0_StaticEmbedding/model.safetensors".to_owned(), vec![0; 2 << 20]);
    }
    let (checker, _folder) = checker(&memory, given(Verdict::Pass), policy());
    assert_eq!(
        checker.check("enc", "1").await.unwrap().verdict,
        verdict::Verdict::Refused
    );
}

#[tokio::test]
async fn a_champion_that_changes_during_a_run_is_the_one_that_counts() {
    let memory = Memory::with(&["1", "2", "3"]);
    memory.set(CHAMPION, "1");
    let registry = memory.clone();
    let engine = FixedEngine {
        during: Box::new(move |number| {
            assert_eq!(registry.alias(PASSED), None, "no alias before the end");
            if number == 1 {
                registry.set(CHAMPION, "2");
            }
        }),
        ..given(Verdict::Pass)
    };
    let runs = engine.runs.clone();
    let (checker, _folder) = checker(&memory, engine, policy());
    let checked = checker.check("enc", "3").await.unwrap();
    assert_eq!(checked.baseline.as_deref(), Some("2"));
    assert_eq!(memory.tag("3", "isomer.baseline").as_deref(), Some("2"));
    let runs = runs.lock();
    let baselines: Vec<&str> = runs.iter().map(|run| run.baseline.as_deref().unwrap()).collect();
    assert_eq!(baselines, ["memory:/enc/1", "memory:/enc/2"]);
    assert!(runs.iter().all(|run| run.encoder == "memory:/enc/3"));
    assert_ne!(runs[0].request_id, runs[1].request_id);
    // The record of the first one was never written.
    assert_eq!(memory.0.lock().records.len(), 1);
}

#[tokio::test]
async fn a_champion_that_never_stands_still_leaves_no_alias_and_is_tried_again() {
    let memory = Memory::with(&["1", "2", "3"]);
    memory.set(CHAMPION, "1");
    let registry = memory.clone();
    let engine = FixedEngine {
        during: Box::new(move |number| registry.set(CHAMPION, if number % 2 == 1 { "2" } else { "1" })),
        ..given(Verdict::Pass)
    };
    let (checker, _folder) = checker(&memory, engine, policy());
    let error = checker.check("enc", "3").await.unwrap_err();
    assert!(
        error.passes() && error.to_string().contains("changed during each"),
        "{error}"
    );
    assert_eq!((memory.alias(PASSED), memory.tag("3", VERDICT)), (None, None));
}

#[tokio::test]
async fn a_champion_that_cannot_be_compared_with_is_an_error_and_no_silent_pass() {
    let memory = Memory::with(&["1", "2"]);
    memory
        .0
        .lock()
        .files
        .insert("1".to_owned(), [("model.pkl".to_owned(), vec![0])].into());
    memory.set(CHAMPION, "1");
    let (checker, _folder) = checker(&memory, given(Verdict::Pass), policy());
    let checked = checker.check("enc", "2").await.unwrap();
    assert_eq!(checked.verdict, verdict::Verdict::Error);
    assert!(
        ["version 1", "model.pkl", "move the alias", VERDICT]
            .iter()
            .all(|part| checked.reason.contains(part)),
        "{}",
        checked.reason
    );
    assert_eq!(memory.alias(PASSED), None);
}

#[tokio::test]
async fn the_alias_goes_to_later_versions_and_not_back() {
    let memory = Memory::with(&["9", "10"]);
    let (checker, _folder) = checker(&memory, given(Verdict::Pass), policy());
    checker.check("enc", "10").await.unwrap();
    let earlier = checker.check("enc", "9").await.unwrap();
    assert_eq!((earlier.verdict, earlier.alias), (verdict::Verdict::Pass, false));
    assert_eq!(memory.alias(PASSED).as_deref(), Some("10"));
    // A later one that has not passed changes nothing.
    memory
        .0
        .lock()
        .tags
        .get_mut("10")
        .unwrap()
        .insert(VERDICT.to_owned(), "fail".to_owned());
    assert!(checker.check("enc", "9").await.unwrap().alias);
    assert_eq!(memory.alias(PASSED).as_deref(), Some("9"));
}

#[tokio::test]
async fn the_champion_is_moved_only_when_told() {
    let memory = Memory::with(&["1", "2"]);
    memory.set(CHAMPION, "1");
    let told = support::checker(
        &memory,
        given(Verdict::Pass),
        Policy {
            promote: true,
            ..policy()
        },
    );
    let (plain, _folder) = checker(&memory, given(Verdict::Pass), policy());
    assert!(!plain.check("enc", "2").await.unwrap().promoted);
    assert_eq!(memory.alias(CHAMPION).as_deref(), Some("1"));
    assert!(told.0.check("enc", "2").await.unwrap().promoted);
    assert_eq!(memory.alias(CHAMPION).as_deref(), Some("2"));
    // It has no reference now, and its verdict stands.
    let version = memory.version("enc", "2").await.unwrap().unwrap();
    assert_eq!(told.0.stale(&version).await.unwrap(), None);
}

/// A version that passed in a process that ended before the champion's alias was set.
async fn left_before_promotion() -> (Memory, FixedEngine) {
    let memory = Memory::with(&["1", "2", "3"]);
    memory.set(CHAMPION, "1");
    let promoting = || Policy {
        promote: true,
        ..policy()
    };
    let (whole, _folder) = checker(&memory, given(Verdict::Pass), promoting());
    whole.check("enc", "2").await.unwrap();
    let at = format!("alias 2 {CHAMPION}");
    let place = memory.written().iter().position(|one| *one == at).unwrap();
    let memory = Memory::with(&["1", "2", "3"]);
    memory.set(CHAMPION, "1");
    memory.0.lock().fails_at = Some(place);
    let (cut, _folder) = checker(&memory, given(Verdict::Pass), promoting());
    cut.check("enc", "2").await.unwrap_err();
    assert_eq!(
        memory.alias(PASSED).as_deref(),
        Some("2"),
        "cut between the two aliases"
    );
    assert_eq!(memory.alias(CHAMPION).as_deref(), Some("1"));
    (memory, given(Verdict::Pass))
}

#[tokio::test]
async fn a_promotion_that_was_cut_off_is_finished_without_another_run() {
    for (promote, champion) in [(true, "2"), (false, "1")] {
        let (memory, engine) = left_before_promotion().await;
        let runs = engine.runs.clone();
        let (checker, _folder) = checker(&memory, engine, Policy { promote, ..policy() });
        let version = memory.version("enc", "2").await.unwrap().unwrap();
        assert_eq!(checker.stale(&version).await.unwrap(), None);
        assert_eq!(checker.finish_promotion(&version).await.unwrap(), promote);
        assert_eq!(memory.alias(CHAMPION).as_deref(), Some(champion));
        let version = memory.version("enc", "2").await.unwrap().unwrap();
        assert!(!checker.finish_promotion(&version).await.unwrap());
        assert!(runs.lock().is_empty());
    }
}

#[tokio::test]
async fn a_champion_that_a_person_chose_is_not_replaced_by_a_promotion_of_before() {
    // Another one, before the process came back: the version is compared with it first.
    let (memory, engine) = left_before_promotion().await;
    memory.set(CHAMPION, "3");
    let (checker, _folder) = checker(
        &memory,
        engine,
        Policy {
            promote: true,
            ..policy()
        },
    );
    let version = || async { memory.version("enc", "2").await.unwrap().unwrap() };
    assert!(!checker.finish_promotion(&version().await).await.unwrap());
    assert_eq!(memory.alias(CHAMPION).as_deref(), Some("3"));
    assert_eq!(
        checker.stale(&version().await).await.unwrap(),
        Some(RecheckReason::Champion)
    );
    // The one of before, after the promotion was made: it stays.
    memory.set(CHAMPION, "1");
    assert!(checker.finish_promotion(&version().await).await.unwrap());
    memory.set(CHAMPION, "1");
    assert!(!checker.finish_promotion(&version().await).await.unwrap());
    assert_eq!(memory.alias(CHAMPION).as_deref(), Some("1"));
}

#[tokio::test]
async fn a_change_that_keeps_all_sizes_is_found_when_the_files_are_read_again() {
    let memory = Memory::with(&["1"]);
    let (checker, _folder) = checker(&memory, given(Verdict::Pass), policy());
    checker.check("enc", "1").await.unwrap();
    let version = || async { memory.version("enc", "1").await.unwrap().unwrap() };
    assert!(!checker.reread(&version().await).await.unwrap());
    assert_eq!(memory.alias(PASSED).as_deref(), Some("1"));
    {
        let mut state = memory.0.lock();
        let weights = state
            .files
            .get_mut("1")
            .unwrap()
            .get_mut("0_StaticEmbedding/model.safetensors");
        let last = weights.unwrap().last_mut().unwrap();
        *last ^= 1;
    }
    assert_eq!(
        checker.stale(&version().await).await.unwrap(),
        None,
        "no listing shows it"
    );
    assert!(checker.reread(&version().await).await.unwrap());
    assert_eq!(memory.alias(PASSED), None);
    assert_eq!(
        checker.stale(&version().await).await.unwrap(),
        Some(RecheckReason::Files)
    );
    checker.check("enc", "1").await.unwrap();
    assert_eq!(checker.stale(&version().await).await.unwrap(), None);
    assert!(!checker.reread(&version().await).await.unwrap());
}

#[tokio::test]
async fn files_that_changed_lose_the_alias_before_the_new_run() {
    let memory = Memory::with(&["1"]);
    let registry = memory.clone();
    let engine = FixedEngine {
        during: Box::new(move |number| assert!(number == 1 || registry.alias(PASSED).is_none())),
        ..given(Verdict::Pass)
    };
    let (checker, _folder) = checker(&memory, engine, policy());
    checker.check("enc", "1").await.unwrap();
    let version = || async { memory.version("enc", "1").await.unwrap().unwrap() };
    assert_eq!(checker.stale(&version().await).await.unwrap(), None);
    let mut changed = encoder();
    changed.insert(
        "modules.json".to_owned(),
        [b" ", &*changed["modules.json"].clone()].concat(),
    );
    memory.0.lock().files.insert("1".to_owned(), changed);
    assert_eq!(
        checker.stale(&version().await).await.unwrap(),
        Some(RecheckReason::Files)
    );
    checker.check("enc", "1").await.unwrap();
    assert_eq!(memory.alias(PASSED).as_deref(), Some("1"));
    assert_eq!(checker.stale(&version().await).await.unwrap(), None);
}

#[tokio::test]
async fn the_version_at_the_alias_is_stale_when_another_is_champion() {
    let memory = Memory::with(&["1", "2", "3"]);
    memory.set(CHAMPION, "1");
    let (checker, _folder) = checker(&memory, given(Verdict::Pass), policy());
    checker.check("enc", "2").await.unwrap();
    checker.check("enc", "3").await.unwrap();
    let stale = |number: &'static str| {
        let (checker, memory) = (&checker, &memory);
        async move {
            checker
                .stale(&memory.version("enc", number).await.unwrap().unwrap())
                .await
                .unwrap()
        }
    };
    assert_eq!((stale("2").await, stale("3").await), (None, None));
    memory.set(CHAMPION, "2");
    assert_eq!(stale("3").await, Some(RecheckReason::Champion));
    // The champion itself has no reference.
    memory.set(CHAMPION, "3");
    assert_eq!(stale("3").await, None);
    memory.0.lock().aliases.remove(CHAMPION);
    assert_eq!(stale("3").await, None);
}

#[tokio::test]
async fn a_registry_that_fails_at_any_write_ends_the_same_when_it_is_tried_again() {
    // The version at the alias before, the verdict of other files that the version had, and whether
    // it is to become the champion.
    let before = [
        (Verdict::Pass, None, None, false),
        (Verdict::Fail, Some("1"), None, false),
        (Verdict::Pass, Some("1"), None, false),
        (Verdict::Pass, None, Some("fail"), false),
        (Verdict::Fail, Some("1"), Some("pass"), false),
        (Verdict::Pass, None, None, true),
        (Verdict::Fail, None, None, true),
        (Verdict::Pass, Some("1"), Some("pass"), true),
    ];
    for (gate, alias, other, promote) in before {
        let run = |fails_at: Option<usize>| async move {
            let memory = Memory::with(&["1"]);
            if let Some(version) = alias {
                memory.set(PASSED, version);
            }
            if let Some(verdict) = other {
                let tags = [
                    (VERDICT, verdict),
                    ("isomer.listing_sha256", "other"),
                    ("isomer.files_sha256", "other"),
                ];
                let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
                memory.0.lock().tags.insert("1".to_owned(), tags.into());
            }
            memory.0.lock().fails_at = fails_at;
            let policy = Policy { promote, ..policy() };
            let (checker, _folder) = checker(&memory, given(gate), policy);
            let first = checker.check("enc", "1").await;
            let failed = first.is_err();
            assert!(first.map_err(|error: RegistryError| assert!(error.passes())).is_ok() || fails_at.is_some());
            if failed {
                // In between, no version is at the alias that has not passed, but for a moment that
                // the order of writes excludes.
                if gate == Verdict::Fail && memory.tag("1", VERDICT).as_deref() == Some("fail") {
                    assert_eq!(memory.alias(PASSED), None);
                }
                // As the worker resumes after a restart: only stale results are checked again.
                let version = memory.version("enc", "1").await.unwrap().unwrap();
                if checker.stale(&version).await.unwrap().is_some() {
                    checker.check("enc", "1").await.unwrap();
                } else {
                    checker.finish_promotion(&version).await.unwrap();
                }
            }
            assert_eq!(memory.alias(CHAMPION).is_some(), promote && gate == Verdict::Pass);
            assert_eq!(memory.tag("1", "isomer.promotion"), None);
            let records = memory.0.lock().records.len();
            let verdict = memory.tag("1", VERDICT).unwrap();
            (memory.alias(PASSED), verdict, records, failed, memory.written().len())
        };
        let (alias, verdict, records, _, writes) = run(None).await;
        for place in 0..writes {
            let (again_alias, again_verdict, again_records, failed, _) = run(Some(place)).await;
            assert!(failed, "the fault at {place} was met");
            assert_eq!(
                (&again_alias, &again_verdict, again_records),
                (&alias, &verdict, records),
                "{place}"
            );
        }
    }
}
