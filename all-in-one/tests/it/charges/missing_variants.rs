//! Variants missing from a response are generated afterwards, once, and charged to the caller of
//! the request.

use isomer_proto::transform::v1::{
    AugmentationMode, AugmentationSpec, EncodeAugmentedRequest, EncodeAugmentedResponse, MissingReason, TextItem,
    VariantSource,
};
use isomer_stubs::wait::found;
use prost::Message;
use serde_json::{Value, json};
use tonic::Code;

use super::{
    calls,
    cases::{self, End},
};
use crate::{
    harness::{Harness, Key},
    models::{ENCODER, WRITTEN},
};

const PATH: &str = "/isomer.transform.v1.AugmentationService/EncodeAugmented";

/// One call to the transform service at a time, so that all earlier calls are complete when a later
/// text is generated. Keys share the caches.
async fn harness() -> Harness {
    Harness::with(|config| {
        config.missing_variants.calls = 1;
        config.access.share_caches = true;
    })
    .await
}

fn cached() -> AugmentationSpec {
    AugmentationSpec {
        sources: vec![VariantSource {
            transformation: Some(cases::paraphrase()),
            ..VariantSource::default()
        }],
        sampling: cases::sampling(),
        mode: AugmentationMode::Cached.into(),
        ..AugmentationSpec::default()
    }
}

fn request(spec: AugmentationSpec, text: &str) -> Vec<u8> {
    let request = EncodeAugmentedRequest {
        spec: Some(spec),
        items: vec![TextItem {
            text: text.to_owned(),
            language: Some("en".to_owned()),
            ..TextItem::default()
        }],
        encoder_id: ENCODER.to_owned(),
        ..EncodeAugmentedRequest::default()
    };
    request.encode_to_vec()
}

async fn encode(harness: &Harness, key: &Key, spec: AugmentationSpec, text: &str) -> EncodeAugmentedResponse {
    let answers = calls::all(harness, key, PATH, vec![request(spec, text)], End::Answer).await;
    EncodeAugmentedResponse::decode(answers.unwrap()[0].as_slice()).unwrap()
}

fn is_whole(answer: &EncodeAugmentedResponse) -> bool {
    let used = &answer.used[0];
    assert!(
        used.missing
            .iter()
            .all(|missing| missing.reason() == MissingReason::NotCached)
    );
    !used.variants.is_empty()
}

/// Repeats a request that generates no variants until the variant is present.
async fn until_made(harness: &Harness, key: &Key, text: &str) -> EncodeAugmentedResponse {
    let looking = AugmentationSpec {
        make_missing: Some(false),
        ..cached()
    };
    let whole = async || Some(encode(harness, key, looking.clone(), text).await).filter(is_whole);
    found(&format!("the variant of {text:?} is made"), whole).await
}

/// Number of calls to the language model with a text.
fn asked(harness: &Harness, text: &str) -> usize {
    let calls = harness.models.generator.calls();
    calls
        .iter()
        .filter(|call| call.body["messages"].to_string().contains(text))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_answer_lacked_is_made_once_and_charged_to_who_asked_first() {
    let harness = harness().await;
    let (first, second, looker) = (harness.key().await, harness.key().await, harness.key().await);
    let before = harness.models.counted();
    let text = cases::text(End::Answer);
    let lacking = encode(&harness, &first, cached(), &text).await;
    assert!(!is_whole(&lacking));
    assert_eq!(lacking.usage.unwrap().generator_calls, 0);
    encode(&harness, &second, cached(), &text).await;
    until_made(&harness, &looker, &text).await;
    let whole = encode(&harness, &second, cached(), &text).await;
    assert!(is_whole(&whole));
    assert_ne!(whole.embeddings, lacking.embeddings);
    assert_eq!(whole.vector_space, lacking.vector_space);
    assert_eq!(asked(&harness, &text), 1);

    let (paid, other) = (harness.settled(&first).await, harness.settled(&second).await);
    let looked = harness.settled(&looker).await;
    let total = [paid, other, looked].map(|counted| counted.finished);
    let (tokens, cost) = total.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let counted = harness.models.counted().since(&before);
    assert_eq!((tokens, cost), counted.finished, "{total:?}");
    assert!(
        paid.finished.0 >= WRITTEN && other.finished.0 < WRITTEN && looked.finished.0 < WRITTEN,
        "{total:?}"
    );
}

/// Value of the metric with these labels; 0 without such a line.
fn value(metrics: &str, name: &str, labels: &[(&str, &str)]) -> u64 {
    let has = |line: &&str| {
        let labelled = |(label, value): &(&str, &str)| line.contains(&format!("{label}=\"{value}\""));
        line.starts_with(&format!("{name}{{")) && labels.iter().all(labelled)
    };
    let lines = metrics.lines().filter(has);
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_what_texts_lacked_and_what_each_key_used() {
    let harness = harness().await;
    let (key, poor) = (harness.key().await, harness.key_for(1).await);
    let text = cases::text(End::Answer);
    encode(&harness, &key, cached(), &text).await;
    until_made(&harness, &key, &text).await;
    // Encoding the text uses up the budget.
    let other = cases::text(End::Answer);
    encode(&harness, &poor, cached(), &other).await;
    harness.settled(&poor).await;
    let refused = calls::all(&harness, &poor, PATH, vec![request(cached(), &other)], End::Answer).await;
    assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted);
    let used = harness.settled(&key).await.finished;

    let metrics = calls::get(&harness, &key, "/metrics").await;
    let texts = |variants| {
        let labels = [("mode", "cached"), ("variants", variants)];
        value(&metrics, "isomer_transform_augmented_texts_total", &labels)
    };
    let lacked = [("mode", "cached"), ("reason", "not_cached")];
    assert!(
        texts("none") >= 2 && texts("all") >= 1 && texts("some") == 0,
        "{metrics}"
    );
    assert_eq!(
        value(&metrics, "isomer_transform_missing_variants_total", &lacked),
        texts("none")
    );
    let of_key = |name, key: &Key| value(&metrics, name, &[("key", &key.id)]);
    assert_eq!(of_key("isomer_access_key_tokens_total", &key), used.0);
    assert_eq!(of_key("isomer_access_key_cost_nano_usd_total", &key), used.1);
    assert!(of_key("isomer_access_key_requests_total", &key) >= 3);
    assert_eq!(of_key("isomer_access_key_refused_total", &key), 0);
    let refusals = [("key", poor.id.as_str()), ("reason", "BUDGET_EXCEEDED")];
    assert_eq!(
        value(&metrics, "isomer_access_key_refused_total", &refusals),
        1,
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_tenants_lack_is_made_for_each_of_them() {
    let harness = Harness::new().await;
    let (first, second, looker) = (harness.key().await, harness.key().await, harness.key().await);
    let text = cases::text(End::Answer);
    for key in [&first, &second] {
        assert!(!is_whole(&encode(&harness, key, cached(), &text).await));
    }
    let made = [
        until_made(&harness, &first, &text).await,
        until_made(&harness, &second, &text).await,
    ];
    assert_eq!(made[0].embeddings, made[1].embeddings);
    assert_eq!(asked(&harness, &text), 2);
    // Requests of another caller find nothing.
    let looking = AugmentationSpec {
        make_missing: Some(false),
        ..cached()
    };
    assert!(!is_whole(&encode(&harness, &looker, looking, &text).await));
    let charged = [harness.settled(&first).await, harness.settled(&second).await];
    assert_eq!(charged[0], charged[1]);
    assert!(charged[0].finished.0 >= WRITTEN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_made_for_who_does_not_want_it_or_cannot_pay() {
    let harness = harness().await;
    // The second key has a budget that encoding the query uses up.
    let (rich, poor) = (harness.key().await, harness.key_for(1).await);
    let unwanted = cases::text(End::Answer);
    let spec = AugmentationSpec {
        make_missing: Some(false),
        ..cached()
    };
    assert!(!is_whole(&encode(&harness, &rich, spec, &unwanted).await));
    let unpaid = cases::text(End::Answer);
    assert!(!is_whole(&encode(&harness, &poor, cached(), &unpaid).await));
    // The text requested later has been generated, so these two would have been too.
    let wanted = cases::text(End::Answer);
    encode(&harness, &rich, cached(), &wanted).await;
    until_made(&harness, &rich, &wanted).await;
    let asked = [&unwanted, &unpaid, &wanted].map(|text| asked(&harness, text));
    assert_eq!(asked, [0, 0, 1]);
    assert!(harness.settled(&poor).await.finished.0 < WRITTEN);
}

/// Clients that send only a model's name get augmented vectors by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_may_stand_for_an_encoder_with_augmentation() {
    let augment = json!({ "transformations": ["paraphrase"], "language": "en" });
    let own = json!({ "gase": { "encoder": ENCODER, "augment": augment } });
    let harness = Harness::with(|config| config.augmented_models = serde_json::from_value(own).unwrap()).await;
    let key = harness.key().await;
    let text = cases::text(End::Answer);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async |path: &str, body: Value| -> Value {
        let request = client
            .post(format!("http://{}{path}", harness.address))
            .header("content-type", "application/json")
            .body(body.to_string())
            .bearer_auth(key.text.expose().unwrap());
        let answer = request.send().await.unwrap().bytes().await.unwrap();
        serde_json::from_slice(&answer).unwrap()
    };
    let plain = ask("/v1/embeddings", json!({ "model": ENCODER, "input": text })).await;
    let before = harness.settled(&key).await.finished;
    let named = ask("/v1/embeddings", json!({ "model": "gase", "input": text })).await;
    let after = harness.settled(&key).await.finished;
    assert!(after.0 >= before.0 + WRITTEN, "its variant is charged");
    let said = ask(
        "/v1/embeddings",
        json!({ "model": ENCODER, "input": text, "augment": augment }),
    )
    .await;
    assert_eq!(named["data"], said["data"], "{named}");
    assert_ne!(named["data"], plain["data"]);
    assert_eq!(named["model"], "gase");
    assert_ne!(named["augment"]["used"][0]["variants"], json!([]), "{named}");
    assert_eq!(asked(&harness, &text), 1, "the variant is kept for both");

    // Other APIs also accept the name, and refuse operations that augmented vectors do not support.
    let numbers = |answer: &Value| answer["data"][0]["embedding"].clone();
    let cohere =
        json!({ "model": "gase", "texts": [text], "embedding_types": ["float"], "input_type": "search_document" });
    let cohere = ask("/v2/embed", cohere).await;
    assert_eq!(cohere["embeddings"]["float"][0], numbers(&named), "{cohere}");
    let tei = ask(
        "/tei/gase/embed",
        json!({ "inputs": text, "truncate": true, "normalize": false }),
    )
    .await;
    assert_eq!(
        tei[0].as_array().map(Vec::len),
        numbers(&named).as_array().map(Vec::len),
        "{tei}"
    );
    let cut = ask("/tei/gase/embed", json!({ "inputs": text, "truncate": false })).await;
    assert!(cut["error"].as_str().unwrap().contains("cut at their end"), "{cut}");
    let ids = ask("/v1/embeddings", json!({ "model": "gase", "input": [1, 2] })).await;
    assert_eq!(ids["error"]["param"], "input", "{ids}");
    let twice = ask(
        "/v1/embeddings",
        json!({ "model": "gase", "input": text, "augment": augment }),
    )
    .await;
    assert_eq!(twice["error"]["param"], "augment", "{twice}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_the_same_over_http() {
    let harness = harness().await;
    let key = harness.key().await;
    let text = cases::text(End::Answer);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async |augment: Value| -> Value {
        let body = json!({ "model": ENCODER, "input": text, "augment": augment });
        let request = client
            .post(format!("http://{}/v1/embeddings", harness.address))
            .header("content-type", "application/json")
            .body(body.to_string())
            .bearer_auth(key.text.expose().unwrap());
        let answer = request.send().await.unwrap().bytes().await.unwrap();
        serde_json::from_slice(&answer).unwrap()
    };
    let cached = json!({ "transformations": ["paraphrase"], "mode": "cached", "language": "en" });
    let lacking = ask(cached.clone()).await;
    assert_eq!(
        lacking["augment"]["used"][0]["missing"][0]["reason"], "not_cached",
        "{lacking}"
    );
    let is_whole = |answer: &Value| answer["augment"]["used"][0]["variants"] != json!([]);
    let whole = async || Some(ask(cached.clone()).await).filter(is_whole);
    let whole = found("the variant is made", whole).await;
    assert_ne!(whole["data"], lacking["data"]);
    assert_eq!(asked(&harness, &text), 1);
    // The second step of a cascade, with the search results.
    let cascade = |evidence: Value| {
        json!({
            "transformations": ["paraphrase"], "mode": "cascade", "language": "en",
            "cascade": { "min_gap": 0.1 }, "evidence": evidence,
        })
    };
    let plain = ask(cascade(json!([[0.9, 0.5]]))).await;
    assert_eq!(
        plain["augment"]["used"][0]["missing"][0]["reason"], "not_needed",
        "{plain}"
    );
    assert_eq!(plain["data"], lacking["data"]);
    let augmented = ask(cascade(json!([[0.9, 0.85]]))).await;
    assert_eq!(augmented["data"], whole["data"]);
    let wrong = ask(cascade(json!([[0.1, 0.9]]))).await;
    assert_eq!(wrong["error"]["param"], "augment.evidence[0]", "{wrong}");
}
