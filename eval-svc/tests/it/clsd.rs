//! Discrimination beyond its scores: texts translated into a pivot language, and parts of speech of
//! differing words.

use std::sync::Arc;

use isomer_eval::{EvalConfig, mteb_result};
use isomer_proto::{
    common::v1::Provenance,
    eval::v1::{
        DatasetAugmentation, DatasetPivot, ScoreRequest, ScoreResponse, TaskOptions, TaskType,
        task_service_client::TaskServiceClient,
    },
    transform::v1::{
        Check, Outcome, TransformRequest, TransformResponse, TransformResult, Translation,
        transform_service_server::{TransformService, TransformServiceServer},
        transformation::Kind,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, Services};
use isomer_stubs::{encoder::StubEncoder, promise::promised, request, rpc::channel};
use parking_lot::Mutex;
use tonic::{Code, Request, Response, Status};

use crate::harness::{encoder, serve};

const DE_FR: &str = "\
{\"source\": \"der Hund bellt laut\", \"target\": \"le chien aboie fort\", \"distractors\": [\"le chat aboie fort\", \"un oiseau chante\"]}
{\"source\": \"die Preise steigen schnell\", \"target\": \"les prix montent vite\", \"distractors\": [\"les prix montent lentement\", \"les prix montent rapidement\"]}
{\"source\": \"kaputt\", \"target\": \"le train arrive demain\", \"distractors\": [\"le chat aboie fort\", \"le train arrive tard\"]}
";
const WORDS: &[(&str, &str)] = &[
    ("der Hund bellt laut", "the dog barks loudly"),
    ("le chien aboie fort", "the dog barks loudly"),
    ("le chat aboie fort", "the cat barks loudly"),
    ("un oiseau chante", "a bird sings"),
    ("die Preise steigen schnell", "the prices rise quickly"),
    ("les prix montent vite", "the prices rise quickly"),
    ("les prix montent lentement", "the prices rise slowly"),
    ("les prix montent rapidement", "the prices rise quickly"),
    ("le train arrive demain", "the train arrives tomorrow"),
    ("le train arrive tard", "the train is late"),
];

/// Translates only the texts in its list; if `dumb`, nothing at all.
#[derive(Clone, Default)]
struct Dictionary {
    seen: Arc<Mutex<Vec<TransformRequest>>>,
    dumb: bool,
}

#[tonic::async_trait]
impl TransformService for Dictionary {
    async fn transform(&self, request: Request<TransformRequest>) -> Result<Response<TransformResponse>, Status> {
        let request = request.into_inner();
        self.seen.lock().push(request.clone());
        let results = request.items.iter().enumerate().map(|(index, item)| {
            let known = WORDS.iter().find(|(text, _)| !self.dumb && *text == item.text);
            let provenance = Provenance {
                generator_id: "stub:dictionary".into(),
                generator_digest: "d1".into(),
                prompt_version: "translation@1".into(),
                prompt_digest: "p1".into(),
                cache_hit: item.text.starts_with("der"),
                ..Provenance::default()
            };
            let (outcome, text) = match known {
                Some((_, text)) if text.contains("bird") => (Outcome::Recovered, *text),
                Some((_, text)) => (Outcome::Ok, *text),
                None => (Outcome::KeptOriginal, item.text.as_str()),
            };
            TransformResult {
                index: index as u32,
                text: text.to_owned(),
                outcome: outcome.into(),
                failed_checks: match known {
                    Some(_) => Vec::new(),
                    None => vec![Check::WrongLanguage.into()],
                },
                provenance: Some(provenance),
                ..TransformResult::default()
            }
        });
        Ok(Response::new(TransformResponse {
            // The order of a response is not guaranteed.
            results: results.rev().collect(),
            ..TransformResponse::default()
        }))
    }
}

struct Harness {
    tasks: TaskServiceClient<GrpcChannel>,
    encoder: StubEncoder,
    dictionary: Dictionary,
    _home: tempfile::TempDir,
}

async fn harness(dumb: bool) -> Harness {
    let encoder = encoder(Arc::default());
    let dictionary = Dictionary {
        dumb,
        ..Dictionary::default()
    };
    let transform = channel(Services::new().add(TransformServiceServer::new(dictionary.clone()))).await;
    let (tasks, home) = serve(EvalConfig::default(), None, encoder.channel().await, transform).await;
    Harness {
        tasks: TaskServiceClient::new(tasks),
        encoder,
        dictionary,
        _home: home,
    }
}

fn english() -> Option<DatasetPivot> {
    Some(DatasetPivot {
        language: "en".into(),
        generator_id: "stub:dictionary".into(),
        seed: Some(5),
        max_attempts: None,
    })
}

fn request(task: TaskType, (file, rows): (&str, &str), pivot: Option<DatasetPivot>, tags: bool) -> ScoreRequest {
    let mut request = request::score(task, "fake", request::inline([(file, rows)]));
    request::dataset(&mut request).pivot = pivot;
    request.options = Some(TaskOptions {
        tag_parts_of_speech: tags,
        ..TaskOptions::default()
    });
    request
}

async fn score(harness: &mut Harness, request: ScoreRequest) -> Result<ScoreResponse, (Code, Fault)> {
    match harness.tasks.score(request).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err((status.code(), Fault::from_status(&status))),
    }
}

#[tokio::test]
async fn every_text_goes_through_the_pivot_once_and_the_answer_says_by_whom_and_what_was_kept() {
    let mut harness = harness(false).await;
    let asked = request(TaskType::Clsd, ("de-fr.jsonl", DE_FR), english(), true);
    let response = score(&mut harness, asked).await.unwrap();

    let seen = harness.dictionary.seen.lock().clone();
    let mut items: Vec<(String, String)> = seen
        .iter()
        .flat_map(|request| &request.items)
        .map(|item| (item.text.clone(), item.language.clone().unwrap_or_default()))
        .collect();
    items.sort();
    // Eleven distinct texts of twelve: one distractor occurs twice. German is the language of the
    // sources only.
    assert_eq!(items.len(), 11);
    let german: Vec<&str> = items
        .iter()
        .filter(|(_, l)| l == "de")
        .map(|(t, _)| t.as_str())
        .collect();
    assert_eq!(german, ["der Hund bellt laut", "die Preise steigen schnell", "kaputt"]);
    assert_eq!(items.iter().filter(|(_, language)| language == "fr").count(), 8);
    let spec = seen[0].spec.clone().unwrap();
    let target_language = Some("en".to_owned());
    assert_eq!(
        spec.transformation.unwrap().kind,
        Some(Kind::Translation(Translation {
            target_language,
            seed_rank: None,
        }))
    );
    assert_eq!((spec.generator_id.as_str(), spec.seed), ("stub:dictionary", Some(5)));

    let report = response.pivot.unwrap();
    assert_eq!(
        (
            report.translated,
            report.recovered,
            report.kept,
            report.already,
            report.cached
        ),
        (10, 1, 1, 0, 1)
    );
    assert_eq!(report.failed_checks["wrong_language"], 1);
    assert_eq!(
        (
            report.kept_texts[0].text_id.as_str(),
            report.kept_texts[0].reason.as_str()
        ),
        ("2:source", "wrong_language")
    );
    let provenance = report.provenance.unwrap();
    assert_eq!(
        (
            provenance.generator_digest.as_str(),
            provenance.prompt_version.as_str(),
            provenance.prompt_digest.as_str()
        ),
        ("d1", "translation@1", "p1")
    );
    assert!(response.profile_stamp.ends_with("; pivot through en"));
    assert!(
        response
            .notes
            .iter()
            .any(|note| note.contains("1 stayed as they were (wrong_language 1)"))
    );
    let document = mteb_result::to_json(&response.mteb_result.unwrap());
    let entry = &document["scores"]["test"][0]["isomer_pivot"];
    assert_eq!(
        (entry["generator"].as_str(), entry["kept"].as_f64()),
        (Some("stub:dictionary"), Some(1.0))
    );

    // The encoder received English texts, and those that could not be translated.
    let texts = harness.encoder.texts();
    assert!(texts.contains(&"kaputt".to_owned()) && texts.contains(&"the prices rise quickly".to_owned()));
    assert!(
        !texts
            .iter()
            .any(|text| text.contains("prix") || text.contains("Preise"))
    );
    // The second distractor of the second row has become its target: found in the corpus, but not
    // nearer than itself.
    assert!(response.scores["hit_rate_at_1"] >= 2.0 / 3.0, "{:?}", response.scores);
    assert!(
        (response.scores["candidates_precision_at_1"] - 1.0 / 3.0).abs() < 1e-12,
        "{:?}",
        response.scores
    );
    // dog and cat, quickly and slowly, of the translations; a train that is late differs in more.
    assert_eq!(
        (
            response.scores["one_word_pairs"],
            response.scores["one_word_pairs_noun"],
            response.scores["one_word_pairs_adv"]
        ),
        (2.0, 1.0, 1.0)
    );
    assert!(
        response
            .notes
            .iter()
            .any(|note| note.contains("parts of speech of 2 words"))
    );
}

#[tokio::test]
async fn a_side_that_is_in_the_pivot_language_is_left_alone() {
    let mut harness = harness(false).await;
    let rows =
        "{\"source\": \"der Hund bellt laut\", \"target\": \"the dog barks\", \"distractors\": [\"the cat barks\"]}
{\"source\": \"die Preise steigen schnell\", \"target\": \"prices rise\", \"distractors\": [\"prices fall\"]}
";
    let response = score(
        &mut harness,
        request(TaskType::Clsd, ("de-en.jsonl", rows), english(), false),
    )
    .await
    .unwrap();
    let report = response.pivot.unwrap();
    assert_eq!((report.translated, report.already), (2, 4));
    let note = "2 distractors differ from their target in one word; of 2 of the words no part of speech is known";
    assert!(
        response.notes.iter().any(|found| found.starts_with(note)),
        "{:?}",
        response.notes
    );
    // Tags also work without a pivot, because the targets are English.
    let tagged = score(&mut harness, request(TaskType::Clsd, ("de-en.jsonl", rows), None, true))
        .await
        .unwrap();
    assert_eq!(
        (
            tagged.scores["one_word_pairs_noun"],
            tagged.scores["one_word_pairs_verb"]
        ),
        (1.0, 1.0)
    );
    assert!(tagged.pivot.is_none() && !tagged.profile_stamp.contains("pivot"));
}

#[tokio::test]
async fn what_cannot_be_tagged_or_translated_is_refused() {
    let mut deaf = harness(true).await;
    let asked = request(TaskType::Clsd, ("de-fr.jsonl", DE_FR), english(), false);
    let (code, fault) = score(&mut deaf, asked.clone()).await.unwrap_err();
    assert_eq!(
        (code, fault.reason.as_str()),
        (Code::FailedPrecondition, "NO_TRANSLATIONS")
    );
    assert!(
        fault.message.contains("none of 11 texts") && fault.message.contains("wrong_language"),
        "{fault}"
    );

    let sts = "{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": 1}\n{\"sentence1\": \"c\", \"sentence2\": \"d\", \"score\": 2}\n";
    let mut both = asked.clone();
    request::dataset(&mut both).augmentation = Some(DatasetAugmentation::default());
    let mut nowhere = asked;
    request::dataset(&mut nowhere).pivot.as_mut().unwrap().language.clear();
    for file in ["de-fr.jsonl", "test.jsonl"] {
        let request = request(TaskType::Clsd, (file, DE_FR), None, true);
        let (_, fault) = score(&mut deaf, request).await.unwrap_err();
        promised(
            "TaskOptions.tag_parts_of_speech INVALID_ARGUMENT tag_parts_of_speech",
            &fault,
        );
    }
    for (request, field) in [
        (
            request(TaskType::Sts, ("test.jsonl", sts), None, true),
            "options.tag_parts_of_speech",
        ),
        (
            request(TaskType::Sts, ("test.jsonl", sts), english(), false),
            "dataset.pivot",
        ),
        (both, "dataset.pivot"),
        (nowhere, "dataset.pivot.language"),
    ] {
        let (code, fault) = score(&mut deaf, request).await.unwrap_err();
        assert_eq!(
            (code, fault.field.as_deref()),
            (Code::InvalidArgument, Some(field)),
            "{fault}"
        );
    }
}
