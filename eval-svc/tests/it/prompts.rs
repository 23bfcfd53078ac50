//! Prompts of encoders against the reference: a real encoder scored with prompts gives the same
//! scores as for data with the same texts prepended by hand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_embed::{EmbedConfig, EmbedService};
use isomer_eval::EvalConfig;
use isomer_models::{ModelsConfig, Resolver};
use isomer_proto::{
    encoder::v1::{EncodeRequest, encode_request::Prompt, encoder_service_client::EncoderServiceClient},
    eval::v1::{
        DatasetAugmentation, EncoderPrompt, ScoreResponse, TaskType, prompt_use, task_service_client::TaskServiceClient,
    },
    transform::v1::{
        AugmentationSpec, EncodeAugmentedRequest, EncodeAugmentedResponse, TransformResult, Variants,
        augmentation_service_server::{AugmentationService, AugmentationServiceServer},
    },
};
use isomer_service_kit::{Fault, GrpcChannel, Services};
use isomer_stubs::{request, rpc::channel};
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use crate::harness::serve;

const ENCODER: &str = "tiny";

/// An augmentation service whose only variant replaces the text by the text with two words
/// appended, so that a prefix of the text is also a prefix of the variant.
#[derive(Clone)]
struct Augmenter {
    encoder: GrpcChannel,
}

#[tonic::async_trait]
impl AugmentationService for Augmenter {
    async fn encode_augmented(
        &self,
        request: Request<EncodeAugmentedRequest>,
    ) -> Result<Response<EncodeAugmentedResponse>, Status> {
        let request = request.into_inner();
        let named = (!request.prompt_name.is_empty()).then_some(Prompt::PromptName(request.prompt_name));
        let prompt = request.literal_prompt.map(Prompt::LiteralPrompt).or(named);
        let texts = request.items.iter().map(|item| format!("{} and so", item.text));
        let asked = EncodeRequest {
            prompt,
            ..request::encode(&request.encoder_id, texts)
        };
        let answer = EncoderServiceClient::new(self.encoder.clone())
            .encode(asked)
            .await?
            .into_inner();
        let used = (0..request.items.len() as u32).map(|index| Variants {
            index,
            variants: vec![TransformResult::default()],
            sources: vec![0],
            ..Variants::default()
        });
        Ok(Response::new(EncodeAugmentedResponse {
            used: used.collect(),
            embeddings: answer.embeddings,
            vector_space: answer.vector_space,
            ..EncodeAugmentedResponse::default()
        }))
    }
}

struct Harness {
    tasks: TaskServiceClient<GrpcChannel>,
    _folders: [tempfile::TempDir; 2],
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The tiny encoder of embed-svc's fixtures, with prompts in its folder.
async fn harness(prompts: &Value, default: Option<&str>) -> Harness {
    let home = tempfile::tempdir().unwrap();
    let model: PathBuf = home.path().join("model");
    let tiny = Path::new(".").join("../embed-svc/tests/fixtures/distilbert");
    copy(&tiny, &model);
    let settings = json!({"prompts": prompts, "default_prompt_name": default, "similarity_fn_name": "cosine"});
    fs::write(model.join("config_sentence_transformers.json"), settings.to_string()).unwrap();
    let models = ModelsConfig {
        home: home.path().join("models"),
        offline: true,
        ..ModelsConfig::default()
    };
    let embed = EmbedConfig {
        encoders: [(ENCODER.to_owned(), model)].into(),
        ..EmbedConfig::default()
    };
    let embed = EmbedService::new(embed, Resolver::new(models).unwrap()).unwrap();
    let encoder = channel(isomer_embed::services(embed)).await;
    let augmenter = AugmentationServiceServer::new(Augmenter {
        encoder: encoder.clone(),
    });
    let transform = channel(Services::new().add(augmenter)).await;
    let (tasks, folder) = serve(EvalConfig::default(), None, encoder, transform).await;
    Harness {
        tasks: TaskServiceClient::new(tasks),
        _folders: [home, folder],
    }
}

pub(crate) fn given(prompts: &[(&str, &str)]) -> Vec<EncoderPrompt> {
    let one = |(role, text): &(&str, &str)| EncoderPrompt {
        role: (*role).to_owned(),
        text: (*text).to_owned(),
        encoder_id: String::new(),
    };
    prompts.iter().map(one).collect()
}

type Files = Vec<(&'static str, String)>;

async fn try_score(
    harness: &mut Harness,
    task: TaskType,
    files: &Files,
    prompts: Vec<EncoderPrompt>,
    augment: bool,
) -> Result<ScoreResponse, Fault> {
    let files = files.iter().map(|(path, content)| (*path, content.as_str()));
    let mut request = request::score(task, ENCODER, request::inline(files));
    let input = request::dataset(&mut request);
    input.prompts = prompts;
    input.augmentation = augment.then(|| DatasetAugmentation {
        spec: Some(AugmentationSpec::default()),
        ..DatasetAugmentation::default()
    });
    let answer = harness.tasks.score(request).await;
    answer
        .map(Response::into_inner)
        .map_err(|status| Fault::from_status(&status))
}

async fn score(harness: &mut Harness, task: TaskType, files: &Files, prompts: &[(&str, &str)]) -> ScoreResponse {
    try_score(harness, task, files, given(prompts), false).await.unwrap()
}

const PAIRS: [(&str, &str, f64); 8] = [
    ("a dog runs in the park", "the dog is running", 4.5),
    ("rain falls on the town", "a dog runs in the park", 0.5),
    ("he plays a song", "he sings a song", 3.0),
    ("the shop opens at nine", "the shop closes at nine", 2.0),
    ("two cats sleep", "cats are asleep", 4.0),
    ("she reads a book", "the train was late", 0.0),
    ("the soup is hot", "hot soup was served", 3.5),
    ("a man walks", "a woman swims", 1.0),
];

fn sts(prefix: &str) -> Files {
    let rows = PAIRS.map(|(first, second, score)| {
        json!({"sentence1": format!("{prefix}{first}"), "sentence2": format!("{prefix}{second}"), "score": score})
            .to_string()
    });
    vec![("test.jsonl", rows.join("\n"))]
}

/// Queries and documents with prefixes. One query's text is also a document's.
fn retrieval(query: &str, document: &str) -> Files {
    let mut corpus = Vec::new();
    let mut queries = Vec::new();
    let mut qrels = vec!["query-id\tcorpus-id\tscore".to_owned()];
    for (i, (first, second, _)) in PAIRS.iter().enumerate() {
        corpus.push(json!({"_id": format!("d{i}"), "title": "", "text": format!("{document}{second}")}).to_string());
        queries.push(json!({"_id": format!("q{i}"), "text": format!("{query}{first}")}).to_string());
        qrels.push(format!("q{i}\td{i}\t1"));
    }
    vec![
        ("corpus.jsonl", corpus.join("\n")),
        ("queries.jsonl", queries.join("\n")),
        ("qrels/test.tsv", qrels.join("\n")),
    ]
}

const QUERY: &str = "query: 5 w 1 ; ";
const PASSAGE: &str = "passage: t 2 , ";

fn asymmetric() -> [(&'static str, &'static str); 2] {
    [("query", QUERY), ("passage", PASSAGE)]
}

#[tokio::test(flavor = "multi_thread")]
async fn retrieval_with_prompts_scores_as_data_with_the_prompts_written_into_it() {
    let mut plain = harness(&json!({}), None).await;
    let by_hand = score(&mut plain, TaskType::Retrieval, &retrieval(QUERY, PASSAGE), &[]).await;
    let without = score(&mut plain, TaskType::Retrieval, &retrieval("", ""), &[]).await;
    let asked = score(&mut plain, TaskType::Retrieval, &retrieval("", ""), &asymmetric()).await;
    assert_eq!(asked.scores, by_hand.scores);
    assert_ne!(asked.scores, without.scores, "the prompts change the ranking");
    let swapped = score(
        &mut plain,
        TaskType::Retrieval,
        &retrieval("", ""),
        &[("query", PASSAGE), ("passage", QUERY)],
    )
    .await;
    assert_ne!(asked.scores, swapped.scores);
    assert_eq!(
        swapped.scores,
        score(&mut plain, TaskType::Retrieval, &retrieval(PASSAGE, QUERY), &[])
            .await
            .scores
    );
    // The folder's own prompts give the same result, and a request's prompts take precedence.
    let mut own = harness(&json!({"query": QUERY, "passage": PASSAGE}), None).await;
    let by_folder = score(&mut own, TaskType::Retrieval, &retrieval("", ""), &[]).await;
    assert_eq!(by_folder.scores, by_hand.scores);
    assert_eq!(by_folder.vector_space, asked.vector_space);
    assert_eq!(by_folder.vector_space.unwrap().prompt, QUERY);
    let over = score(
        &mut own,
        TaskType::Retrieval,
        &retrieval("", ""),
        &[("query", ""), ("document", "")],
    )
    .await;
    assert_eq!(over.scores, without.scores);
    // The used prompts are reported.
    let told: Vec<_> = asked
        .prompts
        .iter()
        .map(|used| (used.part.as_str(), used.role.as_str(), used.text()))
        .collect();
    assert_eq!(told, [("query", "query", QUERY), ("document", "passage", PASSAGE)]);
    assert!(
        asked
            .prompts
            .iter()
            .all(|used| used.source() == prompt_use::Source::Request)
    );
    assert!(
        by_folder
            .prompts
            .iter()
            .all(|used| used.source() == prompt_use::Source::Encoder)
    );
    assert!(asked.unused_prompts.is_empty() && without.prompts.is_empty());
    let unused: Vec<&str> = over.unused_prompts.iter().map(|one| one.role.as_str()).collect();
    assert_eq!(unused, ["passage", "query"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_type_s_prompt_goes_in_front_of_both_sides_of_a_pair() {
    let mut plain = harness(&json!({}), None).await;
    let without = score(&mut plain, TaskType::Sts, &sts(""), &[]).await;
    let by_hand = score(&mut plain, TaskType::Sts, &sts(QUERY), &[]).await;
    assert_ne!(by_hand.scores, without.scores);
    assert_eq!(
        score(&mut plain, TaskType::Sts, &sts(""), &[("sts", QUERY)])
            .await
            .scores,
        by_hand.scores
    );
    let mut own = harness(&json!({"STS": QUERY, "query": PASSAGE}), None).await;
    assert_eq!(
        score(&mut own, TaskType::Sts, &sts(""), &[]).await.scores,
        by_hand.scores
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_that_no_text_gets_are_named() {
    let mut harness = harness(&json!({"query": QUERY, "passage": PASSAGE}), None).await;
    let scored = score(&mut harness, TaskType::Sts, &sts(""), &[("document", "x ")]).await;
    assert!(scored.prompts.is_empty());
    assert_eq!(scored.unused_prompts.len(), 3);
    assert!(
        scored
            .notes
            .iter()
            .any(|note| note.contains("prompts given for document")),
        "{:?}",
        scored.notes
    );
    assert!(
        scored
            .notes
            .iter()
            .any(|note| note.contains("has prompts (passage, query), but none for")),
        "{:?}",
        scored.notes
    );
    let document = format!("{:?}", scored.mteb_result.unwrap());
    assert!(document.contains("isomer_prompts"), "{document}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_prompt_of_a_folder_holds_where_no_role_has_one() {
    let mut plain = harness(&json!({}), None).await;
    let by_hand = score(&mut plain, TaskType::Sts, &sts(QUERY), &[]).await;
    let mut own = harness(&json!({"query": QUERY}), Some("query")).await;
    assert_eq!(
        score(&mut own, TaskType::Sts, &sts(""), &[]).await.scores,
        by_hand.scores
    );
    let none = score(&mut own, TaskType::Sts, &sts(""), &[("sts", "")]).await;
    assert_eq!(
        none.scores,
        score(&mut plain, TaskType::Sts, &sts(""), &[]).await.scores
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn augmented_vectors_have_the_prompt_in_front_of_variants_too() {
    let mut plain = harness(&json!({}), None).await;
    let mut of = async |files: Files, prompts: &[(&str, &str)]| {
        try_score(&mut plain, TaskType::Retrieval, &files, given(prompts), true)
            .await
            .unwrap()
            .scores
    };
    let by_hand = of(retrieval(QUERY, PASSAGE), &[]).await;
    let without = of(retrieval("", ""), &[]).await;
    let asked = of(retrieval("", ""), &asymmetric()).await;
    assert_eq!(asked, by_hand);
    assert_ne!(asked, without);
    let mut own = harness(&json!({"query": QUERY, "passage": PASSAGE}), None).await;
    let by_folder = try_score(&mut own, TaskType::Retrieval, &retrieval("", ""), Vec::new(), true).await;
    assert_eq!(by_folder.unwrap().scores, by_hand);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_no_text_can_have_is_refused_with_the_nearest() {
    let mut harness = harness(&json!({}), None).await;
    let mut refused = async |prompts: Vec<EncoderPrompt>| {
        try_score(&mut harness, TaskType::Sts, &sts(""), prompts, false)
            .await
            .unwrap_err()
    };
    let fault = refused(given(&[("qurey", "x")])).await;
    assert_eq!(fault.field.as_deref(), Some("dataset.prompts[0].role"));
    assert!(fault.hint.as_deref().unwrap_or_default().contains("`query`"), "{fault}");
    let fault = refused(given(&[("sts", "x"), ("sts", "y")])).await;
    assert_eq!(fault.field.as_deref(), Some("dataset.prompts[1].role"));
    let mut other = given(&[("sts", "x")]);
    other[0].encoder_id = "another".to_owned();
    assert_eq!(
        refused(other).await.field.as_deref(),
        Some("dataset.prompts[0].encoder_id")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_the_encoder_cut_are_counted_each_once() {
    let mut harness = harness(&json!({}), None).await;
    let mut files = sts("");
    let long = "w ".repeat(200);
    let row = |second: &str| json!({"sentence1": long, "sentence2": second, "score": 1.5}).to_string();
    files[0].1 = format!("{}\n{}\n{}", files[0].1, row("one more"), row(&long));
    let scored = score(&mut harness, TaskType::Sts, &files, &[]).await;
    let cut = scored.truncation.unwrap();
    // Fifteen distinct texts in the pairs, one of them twice; the long one and `one more`.
    assert_eq!((cut.texts, cut.cut, cut.unknown), (17, 1, 0));
    assert!(
        scored
            .notes
            .iter()
            .any(|note| note.contains("cut 1 of 17 distinct texts")),
        "{:?}",
        scored.notes
    );
    // A prompt takes space: texts that fit without it are truncated with it.
    let prompt = "w ".repeat(90);
    let scored = score(&mut harness, TaskType::Sts, &files, &[("sts", &prompt)]).await;
    assert!(scored.truncation.unwrap().cut > 1);
    // For augmented originals this stub reports nothing, which differs from zero.
    let augmented = try_score(&mut harness, TaskType::Sts, &files, Vec::new(), true)
        .await
        .unwrap();
    let cut = augmented.truncation.unwrap();
    assert_eq!((cut.cut, cut.unknown), (0, 17));
}
