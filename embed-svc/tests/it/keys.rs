//! The keys of model folders: the table has every key that the reference reads, and a folder is
//! encoded as the reference does or refused by name.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use isomer_embed::{
    device::Device,
    folder::keys::{FolderFile, KeyRule, TABLE, rule},
    model::Model,
    tokenise::Cut,
};
use isomer_proto::encoder::v1::EncodeRequest;
use serde_json::{Value, json};

use crate::common::{
    assembled, copy, cosine, edit_json, fixtures,
    harness::{Harness, texts},
    is_computed, tiny, write_json,
};

fn recorded(file: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join("keys").join(file)).unwrap()).unwrap()
}

#[test]
fn the_table_has_every_key_that_the_reference_reads() {
    let mut missing = Vec::new();
    for (file, keys) in recorded("keys.json")["files"].as_object().unwrap() {
        let kind = TABLE.iter().map(|group| group.file).find(|kind| kind.name() == file);
        let kind = kind.unwrap_or_else(|| panic!("{file} is not in the table"));
        let keys = keys.as_object().unwrap().keys();
        missing.extend(
            keys.filter(|key| rule(kind, key).is_none())
                .map(|key| format!("{file}: {key}")),
        );
    }
    assert!(missing.is_empty(), "keys without a rule: {missing:?}");
}

#[test]
fn no_key_has_two_rules() {
    let mut seen = Vec::new();
    for group in TABLE {
        for key in group.keys() {
            assert!(!seen.contains(&(group.file.name(), key)), "{} {key}", group.file.name());
            seen.push((group.file.name(), key));
        }
    }
    assert!(seen.len() > 350, "{}", seen.len());
}

#[test]
fn a_key_that_changes_a_vector_is_read() {
    let mut read = 0;
    for (key, facts) in recorded("keys.json")["files"]["config.json"].as_object().unwrap() {
        // Fixtures whose vectors `make.py` saw change with the key.
        let fixtures_of_key: Vec<String> = serde_json::from_value(facts["changes"].clone()).unwrap_or_default();
        for fixture in fixtures_of_key.iter().filter(|name| is_computed(Path::new(name))) {
            assert_eq!(rule(FolderFile::Config, key), Some(KeyRule::Obeyed), "{key}");
            let folder = tempfile::tempdir().unwrap();
            copy(&fixtures().join(fixture), folder.path());
            edit_json(&folder.path().join("config.json"), |config| {
                config[key] = json!({"not": "a value"});
            });
            let error = Model::load(folder.path(), &Device::Cpu).err();
            let error = error.unwrap_or_else(|| panic!("{fixture} loads with nonsense in {key}"));
            assert!(error.to_string().contains(key), "{fixture}, {key}: {error}");
            read += 1;
        }
    }
    assert!(read > 50, "{read}");
}

/// Applies the edits of a pair to its folder; see `edit` in `make.py`.
fn apply(folder: &Path, edits: &Value) {
    for (name, changes) in edits.as_object().unwrap() {
        let file = folder.join(name);
        match changes {
            Value::Null => fs::remove_file(&file).unwrap(),
            Value::String(text) => fs::write(&file, text).unwrap(),
            changes => {
                if !file.is_file() {
                    write_json(&file, &json!({}));
                }
                edit_json(&file, |content| {
                    for (pointer, new) in changes.as_object().unwrap() {
                        let (path, last) = pointer.rsplit_once('/').unwrap();
                        match content.pointer_mut(path).unwrap() {
                            Value::Array(entries) => entries[last.parse::<usize>().unwrap()] = new.clone(),
                            object => object[last] = new.clone(),
                        }
                    }
                });
            }
        }
    }
}

/// The least cosine of a folder's vectors and the recorded ones.
fn agreement(model: &Model, sentences: &[String], vectors: &[Vec<f32>]) -> f64 {
    let rows = sentences.iter().zip(vectors).map(|(text, vector)| {
        let tokens = model.tokenise("", text, Cut::Tail).unwrap().ids;
        let mut ours = model.encode(&[tokens]).unwrap();
        if model.normalises() {
            isomer_embed::pooling::normalise(&mut ours);
        }
        match ours.len() == vector.len() {
            // Vectors of zeros have no cosine.
            true if ours == *vector => 1.0,
            true => Some(cosine(&ours, vector))
                .filter(|cosine| !cosine.is_nan())
                .unwrap_or(0.0),
            false => 0.0,
        }
    });
    rows.fold(1.0, f64::min)
}

#[test]
fn a_folder_is_encoded_as_the_reference_does_or_refused_by_name() {
    let recorded = recorded("pairs.json");
    let sentences: Vec<String> = serde_json::from_value(recorded["texts"].clone()).unwrap();
    let (mut equal, mut refused, mut wrong) = (0, 0, Vec::new());
    for pair in recorded["pairs"].as_array().unwrap() {
        // The reference refuses the others, so there is no right answer.
        let Ok(vectors) = serde_json::from_value::<Vec<Vec<f32>>>(pair["vectors"].clone()) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        copy(&fixtures().join(pair["base"].as_str().unwrap()), folder.path());
        apply(folder.path(), &pair["edits"]);
        let label = format!("{}: {}", pair["base"], pair["edits"]);
        match Model::load(folder.path(), &Device::Cpu) {
            Ok(model) => {
                let least = agreement(&model, &sentences, &vectors);
                equal += 1;
                if least < 1.0 - 1e-6 && model.folder().warnings.is_empty() {
                    wrong.push(format!("{label}: cosine {least} without a warning"));
                }
            }
            Err(error) => {
                refused += 1;
                let error = error.to_string();
                let files = pair["edits"].as_object().unwrap();
                let named = files.iter().any(|(file, changes)| {
                    let keys = changes.as_object().into_iter().flatten();
                    let mut keys = keys.map(|(pointer, _)| pointer.rsplit('/').next().unwrap());
                    error.contains(file.rsplit('/').next().unwrap())
                        && (!changes.is_object() || keys.any(|key| error.contains(key)))
                });
                if !named {
                    wrong.push(format!("{label}: refused without its name: {error}"));
                }
            }
        }
    }
    println!("{equal} as the reference or with a warning, {refused} refused by name");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(equal > 100 && refused > 20, "{equal} {refused}");
}

/// Loads the tiny folder after an edit.
fn edited(edit: impl FnOnce(&Path)) -> Result<Model, String> {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    edit(folder.path());
    Model::load(folder.path(), &Device::Cpu).map_err(|error| error.to_string())
}

#[test]
fn a_key_that_the_reference_does_not_read_is_a_warning() {
    let model = edited(|folder| {
        edit_json(&folder.join("sentence_bert_config.json"), |config| {
            config["max_seq_lenght"] = json!(9)
        });
        edit_json(&folder.join("1_Pooling/config.json"), |config| {
            config["pooling_mod"] = json!("cls")
        });
        edit_json(&folder.join("config.json"), |config| {
            config["finetuning_task"] = json!("sts")
        });
    });
    let warnings = model.unwrap().folder().warnings.join("\n");
    assert!(
        warnings.contains("max_seq_lenght") && warnings.contains("pooling_mod"),
        "{warnings}"
    );
    assert!(!warnings.contains("finetuning_task"), "{warnings}");
}

#[test]
fn another_models_list_of_words_is_refused_and_a_few_other_words_are_not() {
    let words = |folder: &Path| -> Vec<String> {
        let tokenizer: Value = serde_json::from_slice(&fs::read(folder.join("tokenizer.json")).unwrap()).unwrap();
        let vocab: BTreeMap<String, usize> = serde_json::from_value(tokenizer["model"]["vocab"].clone()).unwrap();
        let mut words: Vec<_> = vocab.into_iter().collect();
        words.sort_by_key(|(_, id)| *id);
        words.into_iter().map(|(word, _)| word).collect()
    };
    for ending in ["\n", "\r\n"] {
        let same = edited(|folder| fs::write(folder.join("vocab.txt"), words(folder).join(ending) + ending).unwrap());
        assert!(same.is_ok(), "{:?}", same.err());
    }
    let error = edited(|folder| {
        let mut words = words(folder);
        words.reverse();
        fs::write(folder.join("vocab.txt"), words.join("\n")).unwrap();
    });
    let error = error.err().unwrap();
    assert!(
        error.contains("vocab.txt") && error.contains("tokenizer.json"),
        "{error}"
    );
}

/// Stored scores and vectors are found by these digests, which an older version wrote.
#[tokio::test]
async fn the_vector_spaces_of_the_fixtures_have_not_changed() {
    let known: BTreeMap<String, String> = serde_json::from_value(recorded("spaces.json")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let of = |name: &String| -> PathBuf {
        if fixtures().join("pipeline/models").join(name).is_dir() {
            let alone = ["words", "static", "model2vec"]
                .iter()
                .any(|kind| name.starts_with(kind));
            assembled(name, !alone, place.path())
        } else {
            fixtures().join(name)
        }
    };
    let names: Vec<&String> = known.keys().filter(|name| is_computed(&of(name))).collect();
    let mut harness = Harness::new(|_, config| {
        config.encoders = names.iter().map(|name| ((*name).clone(), of(name))).collect();
    })
    .await;
    assert!(names.len() > 30, "{}", names.len());
    for name in names {
        let request = EncodeRequest {
            encoder_id: name.clone(),
            inputs: texts(&["hello"]),
            ..EncodeRequest::default()
        };
        let space = harness.encode(request).await.vector_space.unwrap();
        assert_eq!(space.digest, known[name], "{name}");
    }
}
