//! Selection of prompts, and refusals.

use std::fs;

use isomer_proto::transform::v1::{
    Distractors, Keywords, ListTransformationsRequest, OnFailure, Outcome, StopwordRemoval, SummarisedExpansion,
    TextItem, TransformRequest, TransformSpec, Translation, transformation::Kind,
};
use isomer_service_kit::Fault;
use isomer_stubs::openai::{Answer, Stub};
use isomer_transform::TransformService;
use tonic::Code;

use super::TEXT;
use crate::support::{Client, client, config, paraphrase, resolver, spec, transform, try_transform};

fn with_prompts(spec: TransformSpec, prompts: &[&str]) -> TransformSpec {
    TransformSpec {
        prompts: prompts.iter().map(|id| (*id).to_owned()).collect(),
        ..spec
    }
}

#[tokio::test]
async fn each_wording_of_the_paraphrase_prompt_is_another_text_in_the_cache() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let mut keys = Vec::new();
    for (id, calls) in [
        ("paraphrase", 1),
        ("paraphrase-b", 2),
        ("paraphrase-c", 3),
        ("paraphrase-b", 3),
        ("paraphrase-d", 4),
    ] {
        let response = transform(&mut client, with_prompts(paraphrase(), &[id]), &[TEXT]).await;
        let provenance = response.results[0].provenance.clone().unwrap();
        assert!(
            provenance.prompt_version.starts_with(&format!("{id}@")),
            "{provenance:?}"
        );
        assert_eq!(stub.calls(), calls, "{id}");
        keys.push(provenance.content_key);
    }
    assert!(keys[1] == keys[3] && keys[0] != keys[1] && keys[1] != keys[2]);
    let instructions: Vec<_> = stub.seen().iter().map(|seen| seen.messages()[0].1.to_owned()).collect();
    assert!(instructions[0] != instructions[1] && instructions[1] != instructions[2]);
}

#[tokio::test]
async fn the_catalogue_names_every_wording() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let listed = client
        .list_transformations(ListTransformationsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .transformations;
    let ids = |name: &str| -> Vec<String> {
        let info = listed.iter().find(|info| info.name == name).unwrap();
        info.prompts.iter().map(|prompt| prompt.id.clone()).collect()
    };
    assert_eq!(
        ids("paraphrase"),
        ["paraphrase", "paraphrase-b", "paraphrase-c", "paraphrase-d"]
    );
    assert_eq!(ids("backtranslation"), ["translation"]);
    assert_eq!(
        ids("summarised_expansion"),
        ["expansion", "expansion-short", "summarisation"]
    );
    assert!(ids("random_keywords").is_empty());
}

#[tokio::test]
async fn a_generator_gets_its_own_wording_unless_the_request_names_one() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let prompts = home.path().join("prompts");
    fs::create_dir(&prompts).unwrap();
    fs::write(
        prompts.join("paraphrase-stubs.txt"),
        "+++\nid = \"paraphrase-stubs\"\nversion = 7\ngenerators = [\"st*b\"]\n+++\nIn {target_language}:\n<text>\n{text}\n</text>",
    )
    .unwrap();
    let mut config = config(&stub, home.path());
    config.prompts_dir = Some(prompts);
    let mut client = client(config, home.path()).await;
    let version = async |client: &mut Client, prompts: &[&str]| {
        let response = transform(client, with_prompts(paraphrase(), prompts), &[TEXT]).await;
        response.results[0].provenance.clone().unwrap().prompt_version
    };
    assert_eq!(version(&mut client, &[]).await, "paraphrase-stubs@7");
    assert_eq!(stub.seen()[0].user(), format!("In English:\n<text>\n{TEXT}\n</text>"));
    assert!(version(&mut client, &["paraphrase"]).await.starts_with("paraphrase@"));
}

#[tokio::test]
async fn a_prompt_directory_with_a_fault_ends_the_start() {
    for (name, content, parts) in [
        (
            "keywords.txt",
            "+++\nid = \"keywords\"\nversion = 1\n+++\nExtract the keywords.",
            ["keywords.txt", "{text}"],
        ),
        ("keyword.txt", "", ["keyword.txt", "keywords.txt"]),
    ] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(Answer::Good).await;
        fs::write(home.path().join(name), content).unwrap();
        let mut config = config(&stub, home.path());
        config.prompts_dir = Some(home.path().to_owned());
        let fault = Fault::from(TransformService::new(config, resolver(home.path())).unwrap_err());
        assert_eq!(fault.code, Code::FailedPrecondition);
        for part in parts {
            assert!(fault.message.contains(part), "{fault}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_the_field_and_the_nearest_right_value() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let target = |tag: &str| {
        spec(Kind::Translation(Translation {
            target_language: Some(tag.into()),
            seed_rank: None,
        }))
    };
    let count = |count| spec(Kind::Distractors(Distractors { count: Some(count) }));
    for (spec, field, part) in [
        (
            with_prompts(paraphrase(), &["parafrase-b"]),
            "spec.prompts[0]",
            "`paraphrase-b`",
        ),
        (
            with_prompts(paraphrase(), &["keywords"]),
            "spec.prompts[0]",
            "paraphrase-c",
        ),
        (
            with_prompts(paraphrase(), &["paraphrase-b", "paraphrase-c"]),
            "spec.prompts[1]",
            "name one",
        ),
        (
            with_prompts(spec(Kind::StopwordRemoval(StopwordRemoval {})), &["paraphrase"]),
            "spec.prompts[0]",
            "leave it out",
        ),
        (target("Germn"), "target_language", "`de` (German)"),
        (target("xx"), "target_language", "BCP-47"),
        (count(11), "distractors.count", "1 to 10"),
        (count(0), "distractors.count", "1 to 10"),
    ] {
        let fault = try_transform(&mut client, spec, &[TEXT]).await.unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument, "{fault}");
        let told = format!("{fault} {:?} {:?}", fault.field, fault.hint);
        assert!(told.contains(field) && told.contains(part), "{told}");
    }
    let long = "word ".repeat(20_000);
    let fault = try_transform(&mut client, paraphrase(), &[&long]).await.unwrap_err();
    assert!(
        fault.message.contains("100000 characters") && fault.message.contains("20000"),
        "{fault}"
    );
    assert_eq!(stub.calls(), 0);
}

#[tokio::test]
async fn both_prompts_of_two_calls_can_be_named() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let prompts = home.path().join("prompts");
    fs::create_dir(&prompts).unwrap();
    for id in ["expansion-x", "summarisation-y"] {
        fs::write(
            prompts.join(format!("{id}.txt")),
            format!("+++\nid = \"{id}\"\nversion = 1\n+++\n{id}\n<text>\n{{text}}\n</text>"),
        )
        .unwrap();
    }
    let mut config = config(&stub, home.path());
    config.prompts_dir = Some(prompts);
    let mut client = client(config, home.path()).await;
    let order = with_prompts(
        spec(Kind::SummarisedExpansion(SummarisedExpansion {})),
        &["summarisation-y", "expansion-x"],
    );
    let response = transform(&mut client, order, &[TEXT]).await;
    let provenance = response.results[0].provenance.clone().unwrap();
    assert_eq!(provenance.prompt_version, "expansion-x@1+summarisation-y@1");
    assert_eq!(provenance.prompt_digest.len(), 129);
}

#[tokio::test]
async fn an_empty_text_ends_as_the_policy_says_without_a_call() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    for kind in [
        Kind::Keywords(Keywords {}),
        Kind::SummarisedExpansion(SummarisedExpansion {}),
        Kind::Translation(Translation::default()),
    ] {
        for (policy, outcome) in [
            (OnFailure::KeepOriginal, Outcome::KeptOriginal),
            (OnFailure::Drop, Outcome::Failed),
        ] {
            let order = TransformSpec {
                on_failure: policy.into(),
                ..spec(kind.clone())
            };
            let request = TransformRequest {
                spec: Some(order),
                items: vec![TextItem::default()],
                ..Default::default()
            };
            let response = client.transform(request).await.unwrap().into_inner();
            assert_eq!(response.results[0].outcome(), outcome);
        }
    }
    assert_eq!(stub.calls(), 0);
}
