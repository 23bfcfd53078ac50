#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn named(name: &str) -> Transformation {
    Transformation::named(name).unwrap()
}

#[test]
fn the_axes_are_those_of_hteb() {
    let of = |axis| {
        let own = CATALOGUE.iter().filter(|row| row.axis == axis);
        own.map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(of(Axis::Lexical), ["paraphrase", "backtranslation", "style_change"]);
    assert_eq!(of(Axis::Length), ["expansion", "summarisation", "summarised_expansion"]);
    assert_eq!(of(Axis::Language), ["translation", "cross_translation"]);
}

#[test]
fn names_are_unique_and_no_data_set_is_scored_on_another_meaning() {
    let names: BTreeSet<&str> = CATALOGUE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for row in CATALOGUE {
        assert_eq!(row.gives_several, row.axis == Axis::Adversarial, "{}", row.name);
        assert!(!(row.gives_several && row.augments), "{}", row.name);
    }
}

#[test]
fn all_targets_are_a_transformation_each_and_draw_nothing() {
    let all = named("translation").with("all_targets", true);
    assert_eq!(all.label(), "translation(all targets)");
    assert!(!all.draws_per_seed());
    let values = |name: &str| match name {
        "target_language" => vec![json!("es"), json!("fr")],
        _ => Vec::new(),
    };
    let each = all.each(values);
    let labels: Vec<String> = each.iter().map(Transformation::label).collect();
    assert_eq!(labels, ["translation(es)", "translation(fr)"]);
    assert!(each.iter().all(|one| !one.draws_per_seed()));
    assert!(named("translation").draws_per_seed());
    assert_eq!(named("translation").each(values), [named("translation")]);
    assert_eq!(named("paraphrase").each(values), [named("paraphrase")]);
}

#[test]
fn noise_stands_for_each_channel_and_dose_that_it_leaves_open() {
    let values = |name: &str| match name {
        "channel" => vec![json!("case"), json!("ocr")],
        _ => vec![json!(0.01), json!(0.4)],
    };
    let labels = |noise: Transformation| {
        let each = noise.each(values);
        each.iter().map(Transformation::label).collect::<Vec<_>>()
    };
    let all = [
        "noise(case 1 %)",
        "noise(case 40 %)",
        "noise(ocr 1 %)",
        "noise(ocr 40 %)",
    ];
    assert_eq!(labels(named("noise")), all);
    assert_eq!(
        labels(named("noise").with("channel", "keyboard")),
        ["noise(keyboard 1 %)", "noise(keyboard 40 %)"]
    );
    assert_eq!(
        labels(named("noise").with("dose", 0.1)),
        ["noise(case 10 %)", "noise(ocr 10 %)"]
    );
    assert_eq!(
        labels(named("noise").with("channel", "ocr").with("dose", 0.002)),
        ["noise(ocr < 1 %)"]
    );
    assert_eq!(named("noise").label(), "noise");
    assert!(named("noise").each(|_| Vec::new()).is_empty());
}

#[test]
fn parameters_and_prompt_show_in_the_label() {
    let french = named("translation").with("target_language", "fr");
    assert_eq!(french.label(), "translation(fr)");
    let worded = |of: Transformation| of.worded("translation-mine".to_owned());
    assert_eq!(worded(french.clone()).label(), "translation(fr, translation-mine)");
    assert_eq!(worded(named("paraphrase")).label(), "paraphrase(translation-mine)");
    assert!(!worded(french).draws_per_seed() && worded(named("translation")).draws_per_seed());
    let several = named("cross_translation").with("target_languages", vec!["es", "fr"]);
    assert_eq!(several.label(), "cross_translation(es+fr)");
    assert_eq!(
        named("random_keywords").with("keep_ratio", 0.25).label(),
        "random_keywords(0.25)"
    );
    assert_eq!(named("paraphrase").label(), "paraphrase");
    // A parameter of requests alone is not shown.
    assert_eq!(named("translation").with("seed_rank", 2).label(), "translation");
}

#[test]
fn a_report_of_an_older_version_is_read_and_written_as_it_was() {
    for text in [
        r#"{"name":"paraphrase"}"#,
        r#"{"name":"translation","target_language":"fr"}"#,
        r#"{"name":"translation","all_targets":true}"#,
        r#"{"name":"cross_translation","target_languages":["es","de"]}"#,
        r#"{"name":"random_keywords","keep_ratio":0.3}"#,
        r#"{"name":"noise","channel":"ocr","dose":0.05}"#,
        r#"{"name":"worded","of":{"name":"translation","target_language":"fr"},"prompt":"translation-b"}"#,
    ] {
        let read: Transformation = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
    let unknown = serde_json::from_str::<Transformation>(r#"{"name":"of_tomorrow"}"#);
    assert!(unknown.unwrap_err().to_string().contains("of_tomorrow"));
}

#[test]
fn a_wrong_parameter_is_named_with_what_is_accepted() {
    let refused = |of: Transformation| of.check(Parameter::in_requests).map_err(|error| error.parameter);
    let distractors = |count: serde_json::Value| named("distractors").with("count", count);
    assert_eq!(refused(distractors(json!(10))), Ok(()));
    assert_eq!(refused(distractors(json!(10.0))), Ok(()));
    for count in [json!(0), json!(11), json!(2.5), json!(-1), json!("4"), json!(1e300)] {
        assert_eq!(refused(distractors(count)), Err("count".to_owned()));
    }
    let keep = |ratio: f64| refused(named("random_keywords").with("keep_ratio", ratio));
    assert_eq!((keep(1.0), keep(0.01)), (Ok(()), Ok(())));
    for ratio in [0.0, 1.01, -0.5] {
        assert_eq!(keep(ratio), Err("keep_ratio".to_owned()));
    }
    let languages = named("cross_translation").with("target_languages", json!(["es", 3]));
    assert_eq!(refused(languages), Err("target_languages".to_owned()));
    assert_eq!(
        refused(named("translation").with("all_targets", true)),
        Err("all_targets".to_owned())
    );
    assert_eq!(refused(named("paraphrase").with("count", 2)), Err("count".to_owned()));
}

#[test]
fn a_text_stands_for_a_value_of_its_type() {
    let parse = |name: &str, parameter: &str, text: &str| {
        let parameter = declaration(name).unwrap().parameter(parameter).unwrap();
        parameter.parse(text).map_err(|error| error.parameter)
    };
    assert_eq!(parse("distractors", "count", "3"), Ok(json!(3)));
    assert_eq!(parse("noise", "dose", "0.05"), Ok(json!(0.05)));
    assert_eq!(parse("noise", "channel", "ocr"), Ok(json!("ocr")));
    assert_eq!(
        parse("cross_translation", "target_languages", "es, fr"),
        Ok(json!(["es", "fr"]))
    );
    assert_eq!(parse("distractors", "count", "three"), Err("count".to_owned()));
    assert_eq!(parse("noise", "dose", "NaN"), Err("dose".to_owned()));
}

#[test]
fn defaults_and_bounds_hold_for_values_that_were_not_checked() {
    let whole = |of: &Transformation, name: &str| of.parameters().whole(name);
    let continuation = named("continuation").with("cuts", u64::MAX);
    assert_eq!((whole(&continuation, "cuts"), whole(&continuation, "stride")), (16, 5));
    assert_eq!(whole(&named("paraphrase"), "count"), 0);
    assert!((named("random_keywords").parameters().share("keep_ratio") - 16.1 / 58.2).abs() < 1e-12);
}

#[cfg(feature = "wire")]
mod wire {
    use isomer_proto::transform::v1::{self as proto, transformation::Kind};

    use super::*;
    use crate::wire::{message, read};

    /// A parameter that a message has and the catalogue does not would be refused by name, and one
    /// that the catalogue alone has would be sent by name to servers that know the message.
    #[test]
    fn every_message_of_the_protocol_has_the_parameters_of_its_row() {
        let pool = prost_reflect::DescriptorPool::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
        let message = pool.get_message_by_name("isomer.transform.v1.Transformation").unwrap();
        let kinds = message.fields().filter(|field| field.containing_oneof().is_some());
        let mut found = 0;
        for kind in kinds {
            let row = declaration(kind.name()).unwrap();
            let fields: BTreeSet<String> = kind
                .kind()
                .as_message()
                .unwrap()
                .fields()
                .map(|f| f.name().to_owned())
                .collect();
            let own = row.parameters.iter().filter(|parameter| parameter.in_requests());
            assert_eq!(
                own.map(|one| one.name.to_owned()).collect::<BTreeSet<_>>(),
                fields,
                "{}",
                row.name
            );
            found += 1;
        }
        assert_eq!(found, 15);
    }

    #[test]
    fn both_forms_are_read_alike() {
        let value = |text: &str| prost_types::Value {
            kind: Some(prost_types::value::Kind::StringValue(text.to_owned())),
        };
        let open = proto::Transformation {
            name: "translation".to_owned(),
            parameters: Some(prost_types::Struct {
                fields: [("target_language".to_owned(), value("fr"))].into(),
            }),
            kind: None,
        };
        let own = proto::Transformation::from(Kind::Translation(proto::Translation {
            target_language: Some("fr".to_owned()),
            seed_rank: None,
        }));
        let (open, own) = (read(&open), read(&own));
        assert_eq!((&open.name, &open.given), (&own.name, &own.given));
        assert_eq!((open.path.as_str(), own.path.as_str()), ("parameters", "translation"));
    }

    #[test]
    fn a_transformation_with_a_message_is_written_as_that_message() {
        let noise = named("noise").with("channel", "ocr").with("dose", 0.05);
        let Some(Kind::Noise(sent)) = message(&noise).kind else {
            panic!("not the message");
        };
        assert_eq!((sent.channel.as_str(), sent.dose), ("ocr", Some(0.05)));
        let several = named("cross_translation").with("target_languages", vec!["es", "fr"]);
        let ranked = named("translation").with("seed_rank", 2).with("all_targets", false);
        for transformation in [noise, several, ranked, named("paraphrase")] {
            let sent = message(&transformation);
            assert!(sent.kind.is_some() && sent.name.is_empty());
            let again = read(&sent);
            let mut given = transformation.given().clone();
            given.remove("all_targets");
            assert_eq!((again.name.as_str(), again.given), (transformation.name(), given));
        }
    }
}
