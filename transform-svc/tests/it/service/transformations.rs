//! Transformations with two calls, with drawn languages, with several texts; models that output
//! their reasoning.

use std::{collections::HashMap, path::Path};

use candle_core::quantized::gguf_file::Value;
use isomer_proto::transform::v1::{
    Backtranslation, Check, CrossTranslation, Distractors, Keywords, LanguageCheck, Outcome, Sampling,
    SummarisedExpansion, TextItem, TransformRequest, TransformResponse, TransformSpec, Translation,
    transformation::Kind,
};
use isomer_stubs::openai::{Answer, SENTENCES, Stub};
use isomer_transform::TransformConfig;

use super::{TEXT, one};
use crate::{
    support::{Client, client, client_of, config, paraphrase, service, spec},
    tiny::TinyModel,
};

fn backtranslation() -> TransformSpec {
    spec(Kind::Backtranslation(Backtranslation::default()))
}

fn cross_translation() -> TransformSpec {
    spec(Kind::CrossTranslation(CrossTranslation::default()))
}

fn item(id: &str, text: &str, language: Option<&str>) -> TextItem {
    TextItem {
        id: id.into(),
        text: text.into(),
        language: language.map(str::to_owned),
    }
}

async fn ask(client: &mut Client, spec: TransformSpec, items: Vec<TextItem>) -> TransformResponse {
    let request = TransformRequest {
        spec: Some(spec),
        items,
        ..Default::default()
    };
    client.transform(request).await.unwrap().into_inner()
}

fn sentence(code: &str) -> &'static str {
    SENTENCES.iter().find(|(known, ..)| *known == code).unwrap().2
}

#[tokio::test]
async fn backtranslation_goes_by_way_of_its_pivot_and_shows_both_calls() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Polyglot).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = ask(&mut client, backtranslation(), vec![item("a", TEXT, Some("en"))]).await;
    let result = &response.results[0];
    let provenance = result.provenance.as_ref().unwrap();
    let [pivot] = provenance.languages.as_slice() else {
        panic!("{provenance:?}");
    };
    assert_ne!(pivot, "en");
    assert_eq!((result.outcome(), result.text.as_str()), (Outcome::Ok, sentence("en")));
    assert_eq!(
        (result.language.as_str(), result.language_check()),
        ("en", LanguageCheck::Right)
    );
    let calls: Vec<_> = result
        .calls
        .iter()
        .map(|call| (call.language.as_str(), call.text.as_str()))
        .collect();
    assert_eq!(calls, [(pivot.as_str(), sentence(pivot)), ("en", sentence("en"))]);
    assert_eq!(result.calls[1].content_key, provenance.content_key);
    assert_ne!(result.calls[0].content_key, provenance.content_key);
    assert!(provenance.prompt_version.starts_with("translation@") && !provenance.prompt_version.contains('+'));
    assert_eq!(
        stub.seen()[1].user(),
        format!("<text>\n{}\n</text>", sentence(pivot)),
        "the second reads the first"
    );

    let again = ask(&mut client, backtranslation(), vec![item("a", TEXT, Some("en"))]).await;
    assert!(again.results[0].provenance.as_ref().unwrap().cache_hit);
    assert_eq!((again.results[0].calls.len(), stub.calls()), (2, 2));
}

#[tokio::test]
async fn a_text_without_a_language_to_go_back_to_ends_in_a_stated_outcome() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Polyglot).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = ask(&mut client, backtranslation(), vec![item("a", "Die Hard", None)]).await;
    let result = &response.results[0];
    assert_eq!(result.outcome(), Outcome::KeptOriginal);
    assert!(result.error.contains("give `language`"), "{}", result.error);
    let german = spec(Kind::Backtranslation(Backtranslation {
        pivot_language: Some("de".into()),
    }));
    let response = ask(&mut client, german, vec![item("a", sentence("de"), None)]).await;
    assert!(
        response.results[0].error.contains("the pivot is German"),
        "{}",
        response.results[0].error
    );
    assert_eq!(stub.calls(), 0);
}

#[tokio::test]
async fn the_checks_look_at_the_last_call_alone_and_an_empty_first_one_is_made_again() {
    let order = || spec(Kind::SummarisedExpansion(SummarisedExpansion {}));
    // An expansion that copies its input is not a fault of the whole.
    let short = "Someone plays guitar in a street.";
    let (response, stub) = one([Answer::Text(TEXT.into()), Answer::Text(short.into())], order()).await;
    let result = &response.results[0];
    assert_eq!(
        (result.outcome(), result.text.as_str(), stub.calls()),
        (Outcome::Ok, short, 2)
    );
    let texts: Vec<_> = result.calls.iter().map(|call| call.text.as_str()).collect();
    assert_eq!(texts, [TEXT, short]);
    assert_eq!(
        result.provenance.as_ref().unwrap().prompt_version.matches('+').count(),
        1
    );

    let script = [Answer::Text(String::new()), Answer::Good, Answer::Text(short.into())];
    let (response, stub) = one(script, order()).await;
    let result = &response.results[0];
    assert_eq!((result.outcome(), stub.calls()), (Outcome::Recovered, 3));
    assert!(result.retried_checks().any(|check| check == Check::Empty));
}

/// Ids with their drawn languages.
fn drawn(response: &TransformResponse) -> HashMap<String, Vec<String>> {
    let pairs = response.results.iter().map(|result| {
        let languages = result.provenance.as_ref().unwrap().languages.clone();
        (result.id.clone(), languages)
    });
    pairs.collect()
}

#[tokio::test]
async fn draws_depend_on_seed_run_and_id_not_on_order_or_concurrency() {
    let stub = Stub::start(Answer::Polyglot).await;
    let texts: Vec<_> = (0..30).map(|n| format!("{TEXT} The number is {n}.")).collect();
    let items = || -> Vec<TextItem> {
        let items = texts.iter().enumerate();
        items
            .map(|(n, text)| item(&format!("t{n}"), text, Some("en")))
            .collect()
    };
    for order in [backtranslation(), cross_translation()] {
        let mut plans = Vec::new();
        for (concurrency, shuffled) in [(1, false), (8, true)] {
            let home = tempfile::tempdir().unwrap();
            let mut config = config(&stub, home.path());
            config.generators.get_mut("stub").unwrap().concurrency = concurrency;
            let mut client = client(config, home.path()).await;
            let mut items = items();
            if shuffled {
                items.rotate_left(11);
                items.reverse();
            }
            plans.push(drawn(&ask(&mut client, order.clone(), items).await));
        }
        assert_eq!(plans[0], plans[1]);
        let home = tempfile::tempdir().unwrap();
        let mut client = client(config(&stub, home.path()), home.path()).await;
        for other in [
            TransformSpec {
                seed: Some(1338),
                ..order.clone()
            },
            TransformSpec {
                run: "second".into(),
                ..order.clone()
            },
        ] {
            assert_ne!(drawn(&ask(&mut client, other, items()).await), plans[0]);
        }
        let mut languages: Vec<_> = plans[0].values().flatten().collect();
        languages.sort_unstable();
        languages.dedup();
        assert_eq!(languages, ["ar", "de", "es", "fr", "tr"]);
    }
}

#[tokio::test]
async fn each_side_of_a_pair_has_its_own_target_and_a_permitted_one() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Polyglot).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let sides = |n: usize| {
        [
            item(&format!("{n}/a"), TEXT, Some("en")),
            item(&format!("{n}/b"), TEXT, Some("en")),
        ]
    };
    let response = ask(&mut client, cross_translation(), (0..20).flat_map(sides).collect()).await;
    let plan = drawn(&response);
    let differing = (0..20)
        .filter(|n| plan[&format!("{n}/a")] != plan[&format!("{n}/b")])
        .count();
    assert!((8..=20).contains(&differing), "{differing} of 20, expected 16");
    for result in &response.results {
        assert_eq!(result.text, sentence(&result.provenance.as_ref().unwrap().languages[0]));
        assert_eq!(result.language_check(), LanguageCheck::Right);
    }
    let turkish = spec(Kind::CrossTranslation(CrossTranslation {
        target_languages: vec!["tr".into(), "en".into()],
    }));
    let response = ask(&mut client, turkish, (0..3).flat_map(sides).collect()).await;
    assert!(drawn(&response).values().all(|languages| languages == &["tr"]));
}

#[tokio::test]
async fn the_targets_of_three_seeds_are_three_languages_in_any_order_of_requests() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Polyglot).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let translation = |seed: u64, rank: u32| TransformSpec {
        seed: Some(seed),
        run: "hteb-english".into(),
        ..spec(Kind::Translation(Translation {
            target_language: None,
            seed_rank: Some(rank),
        }))
    };
    let mut found = HashMap::new();
    // 1337, 1338 and 1339 drew de, fr, de by seed alone.
    for (seed, rank) in [(1339, 2), (1337, 0), (1338, 1), (1337, 0)] {
        let response = ask(&mut client, translation(seed, rank), vec![item("a", TEXT, Some("en"))]).await;
        let languages = drawn(&response)["a"].clone();
        assert!(
            found
                .insert(rank, languages.clone())
                .is_none_or(|before| before == languages)
        );
        assert_eq!(response.results[0].text, sentence(&languages[0]));
    }
    let mut languages: Vec<_> = found.into_values().flatten().collect();
    languages.sort();
    languages.dedup();
    assert_eq!(languages.len(), 3, "{languages:?}");
}

/// A client probes a service with empty texts before it sends any request that costs money.
#[tokio::test]
async fn an_empty_text_tells_whether_its_language_can_be_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Polyglot).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let into_french = spec(Kind::Translation(Translation {
        target_language: Some("fr".into()),
        seed_rank: None,
    }));
    let items = ["fra-Latn", "eng-Latn"].map(|language| item("", "", Some(language)));
    let response = ask(&mut client, into_french, items.to_vec()).await;
    let errors: Vec<&str> = response.results.iter().map(|result| result.error.as_str()).collect();
    assert!(
        errors[0].contains("the target is French, which the text is in"),
        "{errors:?}"
    );
    assert_eq!(errors[1], "");
    // Without a language, the text is only reported as empty.
    let response = ask(&mut client, backtranslation(), vec![item("", "", None)]).await;
    assert_eq!(response.results[0].error, "");
    assert_eq!(stub.calls(), 0);
}

#[tokio::test]
async fn a_language_too_short_to_tell_is_neither_passed_nor_failed() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Text("Howdy folks".into())).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = ask(&mut client, paraphrase(), vec![item("a", "Hello there", Some("en"))]).await;
    let result = &response.results[0];
    assert_eq!(
        (result.outcome(), result.language_check()),
        (Outcome::Ok, LanguageCheck::TooShort)
    );
    assert_eq!(response.summary.unwrap().language_too_short, 1);
}

#[tokio::test]
async fn reasoning_is_taken_off_and_a_truncated_one_is_made_again_with_more_room() {
    let thought =
        "<think>\nThe user wants a paraphrase. Let me think.\n</think>\n\nSomeone plays guitar in the street.";
    let (response, stub) = one([Answer::Text(thought.into())], paraphrase()).await;
    let result = &response.results[0];
    assert_eq!(
        (result.outcome(), result.text.as_str(), stub.calls()),
        (Outcome::Ok, "Someone plays guitar in the street.", 1)
    );
    let cut = "<think>\nThe user wants a paraphrase of a sentence about";
    let (response, stub) = one([Answer::Text(cut.into()), Answer::Text(thought.into())], paraphrase()).await;
    let result = &response.results[0];
    assert_eq!((result.outcome(), stub.calls()), (Outcome::Recovered, 2));
    assert!(result.retried_checks().any(|check| check == Check::Truncated));
    let seen = stub.seen();
    assert_eq!(seen[1].max_tokens(), 4 * seen[0].max_tokens());
}

fn distractors(count: Option<u32>) -> TransformSpec {
    spec(Kind::Distractors(Distractors { count }))
}

const FOUR: &str = "1) A man is selling the guitar on a busy street in town.\n2) A man is playing the violin on a busy street in \
                    town.\n3) A woman is playing the guitar on a quiet street in town.\n4) Nobody is playing the guitar on a busy \
                    street in town.";

#[tokio::test]
async fn distractors_are_four_texts_with_their_likeness() {
    let (response, stub) = one([Answer::Text(FOUR.into())], distractors(None)).await;
    let result = &response.results[0];
    assert_eq!(
        (result.outcome(), result.texts.len(), result.text.as_str()),
        (Outcome::Ok, 4, "")
    );
    assert_eq!(result.texts[1], "A man is playing the violin on a busy street in town.");
    assert_eq!(result.text_measures.len(), 4);
    let mean = result.text_measures.iter().map(|m| m.jaccard).sum::<f64>() / 4.0;
    assert!((result.measures.unwrap().jaccard - mean).abs() < 1e-12);
    assert!((0.4..0.9).contains(&result.set_jaccard.unwrap()));
    assert_eq!(result.language_check(), LanguageCheck::Right);
    assert!(stub.seen()[0].messages()[0].1.contains("write four sentences"));
    let (_, stub) = one([Answer::Text(FOUR.into())], distractors(Some(2))).await;
    assert!(stub.seen()[0].messages()[0].1.contains("write two sentences"));
}

#[tokio::test]
async fn too_few_distractors_are_made_again_and_in_the_end_there_are_none() {
    let copies = format!(
        "1. {TEXT}\n2. {TEXT}\n3. A man is selling the guitar in town.\n4. a man is selling the guitar in town"
    );
    let (response, stub) = one(
        [Answer::Text(copies.clone()), Answer::Text(FOUR.into())],
        distractors(None),
    )
    .await;
    let result = &response.results[0];
    assert_eq!(
        (result.outcome(), stub.calls(), result.texts.len()),
        (Outcome::Recovered, 2, 4)
    );
    let retried: Vec<_> = result.retried_checks().collect();
    assert_eq!(retried, [Check::Identical, Check::TooFew, Check::Duplicate]);

    let (response, _) = one(vec![Answer::Text(copies); 3], distractors(None)).await;
    let result = &response.results[0];
    // The original cannot replace texts with a different meaning.
    assert_eq!(
        (result.outcome(), result.text.as_str(), result.texts.len()),
        (Outcome::Failed, "", 0)
    );
    assert_eq!((result.measures, result.set_jaccard), (None, None));
    assert!(result.failed_checks().any(|check| check == Check::TooFew));
}

#[tokio::test]
async fn keywords_come_without_punctuation_and_a_lead_in_is_made_again() {
    let script = [
        Answer::Text("Keywords: man, guitar, street".into()),
        Answer::Text("man, guitar,\n- busy street.".into()),
    ];
    let (response, stub) = one(script, spec(Kind::Keywords(Keywords {}))).await;
    let result = &response.results[0];
    assert_eq!((result.outcome(), stub.calls()), (Outcome::Recovered, 2));
    assert_eq!(result.text, "man guitar busy street");
    assert!(result.retried_checks().any(|check| check == Check::InstructionPrefix));
}

/// A service whose generator is a tiny GGUF model: its texts are noise, but always the same noise.
async fn local(home: &Path, batch: usize, threads: usize) -> Client {
    let mut model = TinyModel::new("llama", 1);
    model.metadata.insert("llama.context_length".into(), Value::U32(8192));
    let path = home.join("tiny.gguf");
    model.write(&path);
    let mut config = TransformConfig {
        default_generator: format!("local:{}", path.display()),
        cache_dir: Some(home.join("cache")),
        allow_specs: true,
        by_owner: true,
        ..TransformConfig::default()
    };
    config.local.threads = threads;
    config.local.max_batch = batch;
    client_of(service(config, home)).await
}

#[tokio::test]
async fn at_temperature_0_a_local_model_gives_the_same_texts_in_any_order_and_company() {
    let texts = [
        TEXT,
        "The cat sleeps on the warm roof of the harness.",
        "How many people live in the capital?",
    ];
    let order = |kind: TransformSpec| TransformSpec {
        max_attempts: Some(1),
        sampling: Some(Sampling {
            max_tokens: Some(5),
            ..Sampling::default()
        }),
        ..kind
    };
    let items = || -> Vec<TextItem> {
        let items = texts.iter().enumerate();
        items
            .map(|(n, text)| item(&format!("t{n}"), text, Some("en")))
            .collect()
    };
    let mut runs = Vec::new();
    for (batch, threads, turn) in [(1, 1, 0), (3, 2, 2)] {
        let home = tempfile::tempdir().unwrap();
        let mut client = local(home.path(), batch, threads).await;
        let mut run = HashMap::new();
        for kind in [backtranslation(), cross_translation(), distractors(None)] {
            let mut items = items();
            items.rotate_left(turn);
            let name = format!("{:?}", kind.transformation);
            for result in ask(&mut client, order(kind), items).await.results {
                let calls: Vec<_> = result
                    .calls
                    .iter()
                    .map(|call| (call.language.clone(), call.text.clone()))
                    .collect();
                let checks: Vec<_> = result.failed_checks().collect();
                run.insert((name.clone(), result.id.clone()), (calls, checks, result.text.clone()));
            }
        }
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1]);
    assert!(
        runs[0]
            .values()
            .any(|(calls, ..)| calls.iter().any(|(_, text)| !text.is_empty())),
        "the model did speak"
    );
}
