//! Every module of a sentence-transformers pipeline against sentence-transformers' own numbers
//! (`tests/fixtures/pipeline`).

use std::{fs, path::Path};

use isomer_embed::{
    activation::Elementwise,
    batch::Sequence,
    device::Device,
    model::Model,
    pooling::normalise,
    tokenise::{Cut, Tokens},
};
use serde::Deserialize;
use serde_json::json;

use crate::common::{self, assembled, cosine, edit_json, fixtures, write_json};

#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    models: Vec<Case>,
    x: Vec<f32>,
    activations: std::collections::BTreeMap<String, Vec<f32>>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    prompt: String,
    transformer: bool,
    /// Null represents a value that is not finite.
    vectors: Vec<Vec<Option<f32>>>,
}

fn golden() -> Golden {
    serde_json::from_slice(&fs::read(fixtures().join("pipeline/vectors.json")).unwrap()).unwrap()
}

/// The result of a request: prompt, tokens, vectors, scaled if the pipeline ends with scaling.
fn encode(model: &Model, prompt: &str, texts: &[String]) -> Vec<Vec<f32>> {
    let unpooled = model.unpooled(prompt).unwrap();
    let sequences: Vec<Sequence> = texts
        .iter()
        .map(|text| {
            let tokens = model.tokenise(prompt, text, Cut::Tail).unwrap();
            Tokens {
                prompt: unpooled,
                ..tokens
            }
            .into()
        })
        .collect();
    let vectors = model.encode_sequences(sequences.iter()).unwrap().text_vectors;
    let mut vectors: Vec<Vec<f32>> = vectors.chunks(model.dimensions()).map(<[f32]>::to_vec).collect();
    if model.normalises() {
        vectors.iter_mut().for_each(|vector| normalise(vector));
    }
    vectors
}

#[test]
fn every_pipeline_gives_the_vectors_of_sentence_transformers() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    for case in &golden.models {
        let path = assembled(&case.name, case.transformer, folder.path());
        let model = Model::load(&path, &Device::Cpu).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let got = encode(&model, &case.prompt, &golden.texts);
        for ((got, want), text) in got.iter().zip(&case.vectors).zip(&golden.texts) {
            assert_eq!(got.len(), want.len(), "{}", case.name);
            // A text without a known word gives zeros here and in the reference, except that max
            // pooling there gives -inf.
            if want.iter().all(|x| x.is_none_or(|x| x == 0.0)) {
                assert!(got.iter().all(|x| *x == 0.0), "{} on {text:?}", case.name);
                continue;
            }
            let want: &Vec<f32> = &want.iter().map(|x| x.expect("finite")).collect();
            let similarity = cosine(got, want);
            assert!(similarity > 0.999_999, "{}: {similarity} on {text:?}", case.name);
            let largest = want.iter().fold(1.0f32, |most, x| most.max(x.abs()));
            for (got, want) in got.iter().zip(want) {
                assert!(
                    (got - want).abs() < 2e-5 * largest,
                    "{} on {text:?}: {got} {want}",
                    case.name
                );
            }
        }
        let mut backwards = golden.texts.clone();
        backwards.reverse();
        let mut again = encode(&model, &case.prompt, &backwards);
        again.reverse();
        assert_eq!(got, again, "{}: order does not matter", case.name);
    }
}

#[test]
fn activations_are_those_of_torch() {
    let golden = golden();
    assert_eq!(golden.activations.len(), Elementwise::names().split(", ").count());
    for (name, want) in &golden.activations {
        let mut got = golden.x.clone();
        Elementwise::of_torch(&format!("torch.nn.modules.activation.{name}"))
            .unwrap()
            .apply(&mut got);
        for ((got, want), x) in got.iter().zip(want).zip(&golden.x) {
            assert!(
                (got - want).abs() <= 3e-6 * want.abs().max(0.1),
                "{name}({x}) = {got}, torch says {want}"
            );
        }
    }
}

#[test]
fn a_description_of_the_pipeline_names_every_step_but_the_last_scaling() {
    let folder = tempfile::tempdir().unwrap();
    let describe = |name: &str, transformer| {
        let model = Model::load(&assembled(name, transformer, folder.path()), &Device::Cpu).unwrap();
        (model.pipeline(), model.normalises())
    };
    let chain = "dense>normalize>weightedmean+lasttoken>layernorm>dense>normalize>dense>dense";
    assert_eq!(describe("long-chain", true), (chain.into(), true));
    let (without, _) = describe("pool-all-without-prompt", true);
    assert!(without.ends_with("lasttoken-prompt"), "{without}");
    assert_ne!(without, describe("pool-all", true).0);
    assert_eq!(describe("static", false), ("mean>dense".into(), true));
    assert_eq!(describe("glove.txt", false), ("mean".into(), false));
}

#[test]
fn words_beyond_the_limit_are_cut_at_either_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = assembled("words", false, folder.path());
    edit_json(&path.join("wordembedding_config.json"), |config| {
        config["max_seq_length"] = json!(2)
    });
    let model = Model::load(&path, &Device::Cpu).unwrap();
    let cut = |cut| model.tokenise("", "one two three four", cut).unwrap();
    let alone = |text| model.tokenise("", text, Cut::Tail).unwrap().ids;
    assert_eq!((cut(Cut::Tail).ids, cut(Cut::Tail).count), (alone("one two"), 4));
    assert_eq!(
        (cut(Cut::Head).ids, cut(Cut::Head).truncated()),
        (alone("three four"), true)
    );
}

#[track_caller]
fn refused(name: &str, transformer: bool, damage: impl FnOnce(&Path), parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = assembled(name, transformer, folder.path());
    damage(&path);
    let error = Model::load(&path, &Device::Cpu)
        .err()
        .expect("the folder must be refused");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn modules_where_they_cannot_run_are_refused_with_the_pipeline_that_was_found() {
    let swap = |a: usize, b: usize| {
        move |folder: &Path| {
            edit_json(&folder.join("modules.json"), |modules| {
                modules.as_array_mut().unwrap().swap(a, b);
            });
        }
    };
    refused("words", false, swap(0, 1), &["modules.json", "Pooling stands where"]);
    refused("long-chain", true, swap(2, 3), &["Normalize stands where"]);
    refused(
        "long-chain",
        true,
        swap(3, 4),
        &["LayerNorm stands where", "Transformer, Dense"],
    );
    let twice = |folder: &Path| {
        edit_json(&folder.join("modules.json"), |modules| {
            let pooling = modules[1].clone();
            modules.as_array_mut().unwrap().push(pooling);
        });
    };
    refused("words", false, twice, &["Pooling stands where"]);
}

#[test]
fn unfit_settings_of_modules_are_refused_by_file() {
    refused(
        "long-chain",
        true,
        |folder| {
            edit_json(&folder.join("7_Dense/config.json"), |config| {
                config["activation_function"] = json!("evil.Code")
            })
        },
        &["7_Dense", "evil.Code", "SiLU"],
    );
    refused(
        "long-chain",
        true,
        |folder| {
            edit_json(&folder.join("7_Dense/config.json"), |config| {
                config["module_output_name"] = json!("elsewhere")
            })
        },
        &["7_Dense", "elsewhere"],
    );
    refused(
        "long-chain",
        true,
        |folder| {
            edit_json(&folder.join("4_LayerNorm/config.json"), |config| {
                config["dimension"] = json!(23)
            })
        },
        &["4_LayerNorm", "23", "24 columns"],
    );
    refused(
        "words-weighted",
        false,
        |folder| {
            edit_json(&folder.join("1_WordWeights/config.json"), |config| {
                config["vocab"].as_array_mut().unwrap().pop();
            })
        },
        &["1_WordWeights", "22 words", "23"],
    );
    refused(
        "words",
        false,
        |folder| {
            edit_json(&folder.join("wordembedding_config.json"), |config| {
                config["tokenizer_class"] = json!("sentence_transformers.models.tokenizer.PhraseTokenizer")
            })
        },
        &["wordembedding_config.json", "PhraseTokenizer"],
    );
    refused(
        "words",
        false,
        |folder| {
            edit_json(&folder.join("whitespacetokenizer_config.json"), |config| {
                config["vocab"].as_array_mut().unwrap().push(json!("more"));
            })
        },
        &["24 tokens", "23 rows"],
    );
    refused(
        "model2vec",
        false,
        |folder| {
            fs::remove_file(folder.join("modules.json")).unwrap();
            write_json(&folder.join("config.json"), &json!({"model_type": "model2vec"}));
        },
        &["modules.json", "StaticEmbedding"],
    );
}

#[test]
fn text_files_that_hold_no_vectors_are_refused_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vectors.txt");
    let refusal = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        Model::load(&file, &Device::Cpu)
            .err()
            .expect("must be refused")
            .to_string()
    };
    assert!(refusal(b"").contains("no vectors"));
    assert!(refusal(b"2 3\n").contains("no vectors"));
    assert!(refusal(b"a 1 2\nb 1 x\n").contains("line 2: `x`"));
    assert!(refusal(b"a 1 2\nb \xff 3\n").contains("line 2"));
    fs::write(&file, "2 3\na 1 2 3 \nb -1e-3 nan 1\n").unwrap();
    let model = Model::load(&file, &Device::Cpu).unwrap();
    assert_eq!(
        (model.dimensions(), model.tokenise("", "b a", Cut::Tail).unwrap().ids),
        (3, vec![2, 1])
    );
}

#[test]
#[ignore = "tests/more models: a model of 80 MB"]
fn other_real_model_glove_agrees_with_sentence_transformers() {
    #[derive(Deserialize)]
    struct Glove {
        texts: Vec<String>,
        vectors: Vec<Vec<f32>>,
    }
    let folder = common::other_model("glove-6b-50d");
    let golden: Glove =
        serde_json::from_slice(&fs::read(fixtures().join("pipeline/glove-6b-50d.json")).unwrap()).unwrap();
    let model = Model::load(&folder, &Device::Cpu).unwrap();
    let got = encode(&model, "", &golden.texts);
    for ((got, want), text) in got.iter().zip(&golden.vectors).zip(&golden.texts) {
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{text:?}");
    }
}
