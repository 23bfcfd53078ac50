//! Transformations by name, with parameters as a struct.

use isomer_proto::transform::v1::{
    Distractors, ListTransformationsRequest, Noise, RandomKeywords, TransformSpec, Transformation, Translation,
    transformation::Kind,
};
use isomer_stubs::openai::{Answer, Stub};
use isomer_transformations::wire::to_proto;
use prost_types::Struct;
use serde_json::{Value, json};
use tonic::Code;

use crate::support::{client, config, spec, transform, try_transform};

const TEXT: &str = "A good friend bought fresh water and white bread near the quiet house before the guests came.";

fn open(name: &str, parameters: &Value) -> Transformation {
    let fields = parameters.as_object().unwrap().iter();
    Transformation {
        name: name.to_owned(),
        parameters: Some(Struct {
            fields: fields.map(|(name, value)| (name.clone(), to_proto(value))).collect(),
        }),
        kind: None,
    }
}

fn of(transformation: Transformation) -> TransformSpec {
    TransformSpec {
        transformation: Some(transformation),
        ..spec(Kind::Noise(Noise::default()))
    }
}

#[tokio::test]
async fn a_name_and_a_message_make_the_same_text() {
    let (home, stub) = (tempfile::tempdir().unwrap(), Stub::start(Answer::Good).await);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let translation = Kind::Translation(Translation {
        target_language: Some("fr".to_owned()),
        seed_rank: None,
    });
    let keywords = Kind::RandomKeywords(RandomKeywords { keep_ratio: Some(0.5) });
    let noise = Kind::Noise(Noise {
        channel: "keyboard".to_owned(),
        dose: Some(0.2),
    });
    for (name, parameters, kind) in [
        ("translation", json!({"target_language": "fr"}), translation),
        ("random_keywords", json!({"keep_ratio": 0.5}), keywords),
        ("noise", json!({"channel": "keyboard", "dose": 0.2}), noise),
    ] {
        let by_message = transform(&mut client, spec(kind), &[TEXT]).await;
        let by_name = transform(&mut client, of(open(name, &parameters)), &[TEXT]).await;
        let [message, named] = [by_message, by_name].map(|answer| answer.results[0].clone());
        assert_eq!(named.outcome(), message.outcome(), "{name}: {}", named.error);
        assert_eq!((&named.text, &named.texts), (&message.text, &message.texts), "{name}");
        // The second result is the first one's stored text, because both have the same key.
        let keys = [&message, &named].map(|result| result.provenance.as_ref().unwrap().content_key.clone());
        assert_eq!(keys[0], keys[1], "{name}");
    }
}

#[tokio::test]
async fn every_listed_transformation_is_served_by_its_name() {
    let (home, stub) = (tempfile::tempdir().unwrap(), Stub::start(Answer::Good).await);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let listed = client.list_transformations(ListTransformationsRequest::default()).await;
    for info in listed.unwrap().into_inner().transformations {
        let given: serde_json::Map<String, Value> = info
            .parameters
            .iter()
            .filter_map(|parameter| {
                let value = parameter.values.first().map(isomer_transformations::wire::from_proto)?;
                Some((parameter.name.clone(), value))
            })
            .filter(|(name, _)| name != "target_languages")
            .collect();
        let answer = try_transform(&mut client, of(open(&info.name, &Value::Object(given))), &[TEXT]).await;
        // The stub neither continues texts nor answers with lists; the test only checks that each
        // name is known.
        if let Err(fault) = answer {
            assert_ne!(fault.code, Code::InvalidArgument, "{}: {fault}", info.name);
        }
    }
}

#[tokio::test]
async fn a_wrong_name_or_parameter_is_named() {
    let (home, stub) = (tempfile::tempdir().unwrap(), Stub::start(Answer::Good).await);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let both = Transformation {
        name: "paraphrase".to_owned(),
        ..Transformation::from(Kind::Distractors(Distractors::default()))
    };
    for (wanted, field) in [
        (open("", &json!({})), "spec.transformation"),
        (both, "spec.transformation"),
        (open("paraphase", &json!({})), "spec.transformation.name"),
        (
            open("keywords", &json!({"count": 3})),
            "spec.transformation.parameters.count",
        ),
        (
            open("distractors", &json!({"count": 0})),
            "spec.transformation.parameters.count",
        ),
        (
            open("distractors", &json!({"count": "4"})),
            "spec.transformation.parameters.count",
        ),
        (
            open("translation", &json!({"all_targets": true})),
            "spec.transformation.parameters.all_targets",
        ),
        (
            open("translation", &json!({"target_language": "xx"})),
            "spec.transformation.parameters.target_language",
        ),
        (
            open("cross_translation", &json!({"target_languages": ["fr", "xx"]})),
            "spec.transformation.parameters.target_languages[1]",
        ),
        (
            open("noise", &json!({"channel": "keybord"})),
            "spec.transformation.parameters.channel",
        ),
        (
            Transformation::from(Kind::Distractors(Distractors { count: Some(11) })),
            "spec.transformation.distractors.count",
        ),
    ] {
        let fault = try_transform(&mut client, of(wanted.clone()), &[TEXT])
            .await
            .unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument, "{wanted:?}");
        assert_eq!(fault.field.as_deref(), Some(field), "{wanted:?}");
    }
}
