//! The names that a user may give, and the errors for invalid ones.

use isomer_fault::Fault;
use isomer_models::{ModelError, ModelKind, NoProgress, Resolver, digest};

use crate::support::{World, encoder_files, safetensors_bytes, write_files};

async fn error(resolver: &Resolver, text: &str, kind: ModelKind) -> ModelError {
    resolver.resolve(text, kind, &NoProgress).await.unwrap_err()
}

async fn message(resolver: &Resolver, text: &str, kind: ModelKind) -> String {
    error(resolver, text, kind).await.to_string()
}

#[tokio::test]
async fn an_unknown_id_is_answered_with_its_neighbours() {
    let resolver = World::new().resolver();
    let error = resolver
        .resolve("all-minilm-l6-v2", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ModelError::UnknownModel { nearest, .. } if nearest[0] == "all-MiniLM-L6-v2"),
        "{error}"
    );
    let fault = Fault::from(error);
    assert_eq!(fault.reason, "UNKNOWN_MODEL");
    assert!(
        fault.message.contains("did you mean all-MiniLM-L6-v2"),
        "{}",
        fault.message
    );
}

#[tokio::test]
async fn an_encoder_is_not_taken_for_a_generator() {
    let resolver = World::with_tiny().resolver();
    let error = message(&resolver, "tiny", ModelKind::Generator).await;
    assert_eq!(error, "model `tiny` is an encoder, but a generator is needed here");
}

#[tokio::test]
async fn a_folder_is_taken_as_it_is_and_its_weights_are_digested_once() {
    let world = World::new();
    let folder = world.dir.path().join("mine");
    write_files(&folder, &encoder_files());
    let resolver = world.resolver_with(|config| config.offline = true);
    let name = folder.to_str().unwrap();
    let model = resolver.resolve(name, ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_eq!(
        (model.path.as_path(), model.source.as_str(), model.id.as_str()),
        (folder.as_path(), "folder", name)
    );
    assert_eq!(
        model.weights_digest,
        digest::bytes(&safetensors_bytes([1.0, 2.0, 3.0, 4.0]))
    );
    assert!(world.home().join("digests.json").is_file());
    // A plain Hugging Face folder, without modules.json, is an encoder too; the encoder determines
    // its pooling.
    std::fs::remove_file(folder.join("modules.json")).unwrap();
    resolver.resolve(name, ModelKind::Encoder, &NoProgress).await.unwrap();
}

#[tokio::test]
async fn a_name_means_its_folder_and_not_the_catalogues_model() {
    let world = World::with_tiny();
    let folder = world.dir.path().join("mine");
    write_files(&folder, &encoder_files());
    let gone = world.dir.path().join("gone");
    let names = [("tiny", &folder), ("prod", &folder), ("old", &gone)];
    let resolver = world
        .resolver()
        .with_names(names.map(|(name, folder)| (name.to_owned(), folder.clone())).into());
    let mut digests = Vec::new();
    for name in ["tiny", "prod"] {
        let model = resolver.resolve(name, ModelKind::Encoder, &NoProgress).await.unwrap();
        assert_eq!((model.id.as_str(), &model.path), (name, &folder));
        digests.push(model.weights_digest);
    }
    assert_eq!(digests[0], digests[1]);
    let error = resolver
        .resolve("old", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ModelError::PathMissing { path } if *path == gone),
        "{error}"
    );
    assert_eq!(world.fetched(), 0);
}

#[tokio::test]
async fn a_folder_whose_modules_put_the_transformer_deeper_is_read_there() {
    let world = World::new();
    let folder = world.dir.path().join("deep");
    write_files(&folder.join("0_Transformer"), &encoder_files());
    std::fs::write(folder.join("modules.json"), br#"[{"path": "0_Transformer"}]"#).unwrap();
    let resolver = world.resolver();
    resolver
        .resolve(folder.to_str().unwrap(), ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    std::fs::remove_file(folder.join("0_Transformer/tokenizer.json")).unwrap();
    let error = message(&resolver, folder.to_str().unwrap(), ModelKind::Encoder).await;
    assert!(error.contains("0_Transformer/tokenizer.json missing"), "{error}");
}

#[tokio::test]
async fn what_a_folder_lacks_is_named_all_at_once() {
    let world = World::new();
    let folder = world.dir.path().join("mine");
    write_files(&folder, &[("README.md".into(), vec![])]);
    let error = message(&world.resolver(), folder.to_str().unwrap(), ModelKind::Encoder).await;
    assert!(
        error.contains("config.json, tokenizer.json, model.safetensors missing"),
        "{error}"
    );
}

#[tokio::test]
async fn a_pickle_is_not_opened_and_the_way_to_convert_it_is_said() {
    let world = World::new();
    let folder = world.dir.path().join("mine");
    let mut files = encoder_files();
    files.pop();
    files.push(("pytorch_model.bin".into(), b"pickle".to_vec()));
    write_files(&folder, &files);
    let error = message(&world.resolver(), folder.to_str().unwrap(), ModelKind::Encoder).await;
    assert!(
        error.contains("pickle") && error.contains("safe_serialization=True"),
        "{error}"
    );
}

#[tokio::test]
async fn truncated_and_unsound_files_are_named() {
    let world = World::new();
    let folder = world.dir.path().join("mine");
    let resolver = world.resolver();
    let whole = safetensors_bytes([1.0, 2.0, 3.0, 4.0]);
    // An end beyond the largest number.
    let endless = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}}"#;
    let endless = [&(endless.len() as u64).to_le_bytes(), &endless[..]].concat();
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("model.safetensors", endless, "promises 18446744073709551615 bytes"),
        (
            "modules.json",
            br#"[{"path":"","type":"sentence_transformers.models.Transformer"},{"path":"../mine","type":"x.Dense"}]"#
                .to_vec(),
            "modules.json names the module path `../mine`, which leaves the model's folder",
        ),
        ("model.safetensors", whole[..whole.len() - 3].to_vec(), "promises"),
        ("model.safetensors", whole[..20].to_vec(), "header would be"),
        ("model.safetensors", b"abc".to_vec(), "too few"),
        (
            "tokenizer.json",
            b"{\"a\": ".to_vec(),
            "tokenizer.json is not sound JSON",
        ),
        ("modules.json", b"[".to_vec(), "modules.json is not sound JSON"),
    ];
    for (file, data, expected) in cases {
        write_files(&folder, &encoder_files());
        std::fs::write(folder.join(file), data).unwrap();
        let error = message(&resolver, folder.to_str().unwrap(), ModelKind::Encoder).await;
        assert!(error.contains(expected) && error.contains(file), "{error}");
    }
}

#[tokio::test]
async fn weights_in_several_files_are_found_through_their_index() {
    let world = World::new();
    let folder = world.dir.path().join("sharded");
    let mut files = encoder_files();
    files.pop();
    files.push(("model-1.safetensors".into(), safetensors_bytes([1.0; 4])));
    files.push(("model-2.safetensors".into(), safetensors_bytes([2.0; 4])));
    let index = br#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    files.push(("model.safetensors.index.json".into(), index.to_vec()));
    write_files(&folder, &files);
    let resolver = world.resolver();
    let name = folder.to_str().unwrap();
    let whole = resolver.resolve(name, ModelKind::Encoder, &NoProgress).await.unwrap();
    std::fs::write(folder.join("model-2.safetensors"), safetensors_bytes([3.0; 4])).unwrap();
    let other = resolver.resolve(name, ModelKind::Encoder, &NoProgress).await.unwrap();
    assert_ne!(whole.weights_digest, other.weights_digest);
    std::fs::remove_file(folder.join("model-2.safetensors")).unwrap();
    assert!(
        message(&resolver, name, ModelKind::Encoder)
            .await
            .contains("model-2.safetensors missing")
    );
}

#[tokio::test]
async fn a_generator_is_a_gguf_file() {
    let world = World::new();
    let resolver = world.resolver();
    let file = world.dir.path().join("model.gguf");
    std::fs::write(&file, b"GGUF rest").unwrap();
    let model = resolver
        .resolve(file.to_str().unwrap(), ModelKind::Generator, &NoProgress)
        .await
        .unwrap();
    assert_eq!(
        (model.path, model.weights_digest),
        (file.clone(), digest::bytes(b"GGUF rest"))
    );
    std::fs::write(&file, b"PK").unwrap();
    assert!(
        message(&resolver, file.to_str().unwrap(), ModelKind::Generator)
            .await
            .contains("letters GGUF")
    );
    for (path, asked, found) in [
        (world.dir.path(), ModelKind::Generator, "folder"),
        (file.as_path(), ModelKind::Encoder, "file"),
    ] {
        let error = error(&resolver, path.to_str().unwrap(), asked).await;
        assert!(
            matches!(&error, ModelError::NotAModel { kind, reason, .. } if *kind == asked && reason.contains(found)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_path_where_nothing_is_says_so() {
    let resolver = World::new().resolver();
    for text in ["./no/such", "/no/such/model", "missing.gguf", "a/b/c"] {
        let error = error(&resolver, text, ModelKind::Generator).await;
        assert!(matches!(error, ModelError::PathMissing { .. }), "{text}: {error}");
    }
}

#[test]
fn a_broken_catalogue_of_ones_own_ends_the_start_with_its_name() {
    let world = World::new();
    world.add("[[model]]\nid = 'x'\nkind = 'encodr'\n");
    let error = Resolver::new(world.config()).unwrap_err().to_string();
    assert!(
        error.contains("catalogue.toml") && error.contains("`x`") && error.contains("kind"),
        "{error}"
    );
}
