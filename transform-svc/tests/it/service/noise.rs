//! Errors in texts at a dose.

use isomer_proto::transform::v1::{
    Check, ListTransformationsRequest, Noise, OnFailure, Outcome, TextItem, TransformRequest, TransformResponse,
    TransformSpec, transformation::Kind,
};
use isomer_service_kit::Fault;
use isomer_stubs::openai::{Answer, Stub};
use isomer_transformations::wire::from_proto;
use tonic::Code;

use crate::support::{Client, client, config, spec, transform, try_transform};

const TEXT: &str = "A good friend bought fresh water and white bread near the quiet house before the 24 guests came.";

fn noise(channel: &str, dose: f64) -> TransformSpec {
    spec(Kind::Noise(Noise {
        channel: channel.to_owned(),
        dose: Some(dose),
    }))
}

async fn opened(home: &std::path::Path) -> (Client, Stub) {
    let stub = Stub::start(Answer::Good).await;
    let client = client(config(&stub, home), home).await;
    (client, stub)
}

fn texts(response: &TransformResponse) -> Vec<&str> {
    response.results.iter().map(|result| result.text.as_str()).collect()
}

#[tokio::test]
async fn every_listed_channel_and_dose_is_served_without_a_generator() {
    let home = tempfile::tempdir().unwrap();
    let (mut client, stub) = opened(home.path()).await;
    let listed = client.list_transformations(ListTransformationsRequest::default()).await;
    let listed = listed.unwrap().into_inner().transformations;
    let info = listed.iter().find(|info| info.name == "noise").unwrap();
    let values = |name: &str| {
        let parameter = info.parameters.iter().find(|parameter| parameter.name == name).unwrap();
        parameter.values.iter().map(from_proto).collect::<Vec<_>>()
    };
    let channels: Vec<String> = values("channel")
        .iter()
        .map(|one| one.as_str().unwrap().to_owned())
        .collect();
    let doses: Vec<f64> = values("dose").iter().map(|one| one.as_f64().unwrap()).collect();
    assert_eq!((channels.len(), doses.len(), info.calls), (9, 6, 0));
    for channel in channels.iter().filter(|channel| *channel != "diacritics") {
        let mut changed = 0;
        for dose in &doses {
            let response = transform(&mut client, noise(channel, *dose), &[TEXT]).await;
            let result = &response.results[0];
            assert_eq!(result.outcome(), Outcome::Ok, "{channel} {dose}: {}", result.error);
            assert!(result.text.contains("24") || channel == "truncation", "{}", result.text);
            changed += usize::from(result.text != TEXT);
        }
        assert!(changed > 0, "{channel} changes nothing at any dose");
    }
    assert_eq!(stub.calls(), 0);
}

#[tokio::test]
async fn a_draw_is_of_the_seed_and_the_text_alone() {
    let home = tempfile::tempdir().unwrap();
    let (mut client, _stub) = opened(home.path()).await;
    let first = transform(&mut client, noise("keyboard", 0.2), &[TEXT]).await;
    let among = transform(&mut client, noise("keyboard", 0.2), &["Hello there.", TEXT, TEXT]).await;
    assert_eq!(texts(&among)[1..], [texts(&first)[0], texts(&first)[0]]);
    let other = TransformSpec {
        seed: Some(7),
        ..noise("keyboard", 0.2)
    };
    let other = transform(&mut client, other, &[TEXT]).await;
    assert_ne!(texts(&other), texts(&first));
}

#[tokio::test]
async fn a_text_that_cannot_have_the_noise_fails_and_says_why() {
    let home = tempfile::tempdir().unwrap();
    let (mut client, _stub) = opened(home.path()).await;
    for (on_failure, outcome) in [
        (OnFailure::KeepOriginal, Outcome::KeptOriginal),
        (OnFailure::Drop, Outcome::Failed),
    ] {
        let wanted = TransformSpec {
            on_failure: on_failure.into(),
            ..noise("diacritics", 0.4)
        };
        let response = transform(&mut client, wanted, &[TEXT]).await;
        let result = &response.results[0];
        assert_eq!(
            (result.outcome(), result.failed_checks.as_slice()),
            (outcome, &[i32::from(Check::TooFew)][..])
        );
        assert!(result.error.contains("no unit"), "{}", result.error);
    }
    let japanese = |language: Option<&str>| TransformRequest {
        spec: Some(noise("case", 0.4)),
        items: vec![TextItem {
            id: "a".into(),
            text: "昨日、私は友達と一緒に新しい映画を見に行きました。とても面白かったです。".into(),
            language: language.map(str::to_owned),
        }],
        ..Default::default()
    };
    let fault = Fault::from_status(&client.transform(japanese(Some("ja"))).await.unwrap_err());
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("items[0].language"))
    );
    let detected = client.transform(japanese(None)).await.unwrap().into_inner();
    assert_eq!(detected.results[0].outcome(), Outcome::KeptOriginal);
    assert!(
        detected.results[0].error.contains("no letter case"),
        "{}",
        detected.results[0].error
    );
}

#[tokio::test]
async fn an_unknown_channel_or_dose_names_its_field() {
    let home = tempfile::tempdir().unwrap();
    let (mut client, _stub) = opened(home.path()).await;
    for (spec, field) in [
        (noise("", 0.1), "spec.transformation.noise.channel"),
        (noise("Keyboard", 0.1), "spec.transformation.noise.channel"),
        (noise("keyboard", 0.3), "spec.transformation.noise.dose"),
        (noise("keyboard", f64::NAN), "spec.transformation.noise.dose"),
        (noise("keyboard", -0.1), "spec.transformation.noise.dose"),
    ] {
        let fault = try_transform(&mut client, spec, &[TEXT]).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some(field))
        );
    }
}
