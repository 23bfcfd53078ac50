//! The table is complete, and each flag exists.

#![allow(clippy::unwrap_used)]
use clap::{CommandFactory, Parser};
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

use super::*;
use crate::args::{Cli, Command, requests::requests};

/// Command lines of every command whose requests are declared.
const LINES: &[&[&str]] = &[
    &["check"],
    #[cfg(feature = "registry")]
    &["registry", "check", "--model", "enc", "--version", "3"],
    &["eval", "--data", "x"],
    &["embed"],
    &["embed", "--augment", "paraphrase"],
    &["embed", "--augment", "paraphrase", "--warm-up", "--plan"],
    &["transform", "--transformation", "paraphrase"],
    &["transform", "judge", "--scale", "similarity"],
    &["rerank", "--model", "m", "--query", "q"],
];

fn parsed(line: &[&str]) -> Command {
    Cli::try_parse_from([&["isomer"], line].concat()).unwrap().command
}

/// All messages, by their full names.
fn messages() -> Vec<(String, DescriptorProto)> {
    fn walk(prefix: &str, message: &DescriptorProto, all: &mut Vec<(String, DescriptorProto)>) {
        let name = format!("{prefix}.{}", message.name());
        for nested in &message.nested_type {
            walk(&name, nested, all);
        }
        all.push((name, message.clone()));
    }
    let mut all = Vec::new();
    for file in FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET)
        .unwrap()
        .file
    {
        for message in &file.message_type {
            walk(file.package(), message, &mut all);
        }
    }
    all
}

/// Paths of the fields of a message that no declaration covers, and of all that there are.
fn paths(messages: &[(String, DescriptorProto)], request: &RequestFlags) -> (Vec<String>, Vec<String>) {
    let fields_of = |name: &str| {
        let found = messages.iter().find(|(own, _)| own == name);
        found.map(|(_, message)| message.field.clone())
    };
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let mut waiting = vec![(String::new(), fields_of(request.message).unwrap())];
    while let Some((prefix, fields)) = waiting.pop() {
        for field in fields {
            let path = format!("{prefix}{}", field.name());
            all.push(path.clone());
            let below = (field.r#type() == Type::Message)
                .then(|| fields_of(field.type_name().trim_start_matches('.')))
                .flatten();
            // A message within itself (`Struct`) would have no end.
            match below.filter(|_| path.split('.').count() < 6) {
                Some(below) => waiting.push((format!("{path}."), below)),
                None if request.declared(&path).is_none() => open.push(path),
                None => {}
            }
        }
    }
    (open, all)
}

#[test]
fn every_field_of_a_request_is_declared_and_every_declaration_is_a_field() {
    let messages = messages();
    for line in LINES {
        let requests = requests(&parsed(line));
        assert!(!requests.is_empty(), "{line:?}");
        for request in requests {
            let (open, all) = paths(&messages, request);
            // A limit of the gate that has no field is a key of this map.
            let open: Vec<String> = open
                .into_iter()
                .filter(|path| !path.contains(".gate.validity."))
                .collect();
            assert!(open.is_empty(), "{} declares no flag for {open:?}", request.message);
            for own in request.all() {
                assert!(
                    all.iter().any(|path| path == own.path),
                    "{} has no {}",
                    request.message,
                    own.path
                );
            }
        }
    }
}

#[test]
fn every_flag_is_one_of_the_command() {
    for line in LINES {
        let mut root = Cli::command();
        root.build();
        let names = line.iter().take_while(|word| !word.starts_with('-'));
        let command = names.fold(&root, |command, name| command.find_subcommand(name).unwrap());
        let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        for request in requests(&parsed(line)) {
            let declared = request.all().filter_map(|own| request.declared(own.path));
            for flag in declared.filter_map(|(own, _)| own.flag) {
                assert!(known.contains(&flag.trim_start_matches("--")), "{line:?} has no {flag}");
            }
        }
    }
}

#[test]
fn requests_of_a_command_agree_about_a_field() {
    for line in LINES {
        let requests = requests(&parsed(line));
        for own in requests.iter().flat_map(RequestFlags::all) {
            let flags = requests.iter().filter_map(|request| request.declared(own.path));
            let mut flags: Vec<_> = flags.map(|(declared, _)| declared.flag).collect();
            flags.dedup();
            assert_eq!(flags.len(), 1, "{line:?}: {}: {flags:?}", own.path);
        }
    }
}

#[test]
fn a_limit_of_the_gate_without_a_field_has_its_flag() {
    for limit in ValidityLimit::ALL {
        let flag = format!("--{}", limit.name().replace('_', "-"));
        let found = flag_of(&[CREATE_RUN], &format!("spec.gate.validity[{}]", limit.name()));
        assert_eq!(found.as_deref(), Some(flag.as_str()));
    }
}

#[test]
fn a_field_names_its_flag_with_the_position_of_a_text_or_rule() {
    let of = |line: &[&str], field: &str| flag_of(requests(&parsed(line)), field);
    let check = |field: &str| of(&["check"], field);
    assert_eq!(check("spec.suite.builtin").as_deref(), Some("--suite"));
    assert_eq!(
        check("spec.gate.rules[0].quantity").as_deref(),
        Some("--rule: rule 1: of")
    );
    assert_eq!(check("spec.gate.rules[1].text").as_deref(), Some("--rule: rule 2"));
    assert_eq!(check("spec.limits").as_deref(), Some("--max-calls, --max-cost"));
    assert_eq!(check("spec.encoder_ids[2]").as_deref(), Some("--model"));
    assert_eq!((check("request_id"), check("models.cache_dir")), (None, None));
    assert_eq!(of(&["embed"], "inputs[3].text").as_deref(), Some("--input: text 4"));
    let eval = |field: &str| of(&["eval", "--data", "x"], field);
    assert_eq!(eval("dataset.path").as_deref(), Some("--data"));
    assert_eq!(eval("dataset.pivot.generator_id").as_deref(), Some("--generator"));
}
