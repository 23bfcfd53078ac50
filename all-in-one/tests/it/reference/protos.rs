//! `protos/*.md`: services, messages and enumerations with the comments of the `.proto` files.

use std::fmt::Write;

use super::{cell, compare, head, read};

const FILES: &[(&str, &str)] = &[
    ("common", "isomer/common/v1/common.proto"),
    ("encoder", "isomer/encoder/v1/encoder.proto"),
    ("transform", "isomer/transform/v1/transform.proto"),
    ("task", "isomer/eval/v1/task.proto"),
    ("statistics", "isomer/eval/v1/statistics.proto"),
    ("run", "isomer/eval/v1/run.proto"),
    ("access", "isomer/gateway/v1/access.proto"),
    ("provider", "isomer/gateway/v1/provider.proto"),
];

/// A `message`, `enum` or `service` with a table of its content.
struct Block {
    title: String,
    meaning: String,
    rows: Vec<(String, String, String)>,
}

/// Statements of a file, each with the comment above it and the one behind it.
fn statements(source: &str) -> Vec<(String, String)> {
    let (mut found, mut comment, mut code) = (Vec::new(), String::new(), String::new());
    for line in source.lines() {
        let line = line.trim();
        if line.is_empty() {
            if code.is_empty() {
                comment.clear();
            }
            continue;
        }
        if let Some(text) = line.strip_prefix("//") {
            comment += &shown(text);
            comment.push(' ');
            continue;
        }
        let (statement, behind) = line.split_once(" //").unwrap_or((line, ""));
        code = format!("{code} {statement}").trim().to_owned();
        comment += behind;
        if code.ends_with(['{', '}', ';']) {
            found.push((std::mem::take(&mut code), std::mem::take(&mut comment)));
        }
    }
    found
}

/// A line of a comment. The code, reason and field of an `@error` become code.
fn shown(line: &str) -> String {
    let tag = line.trim_start().strip_prefix("@error ");
    tag.and_then(|tag| tag.split_once(':'))
        .map_or_else(|| line.to_owned(), |(key, when)| format!("`{key}`:{when}"))
}

fn blocks(source: &str) -> Vec<Block> {
    let (mut done, mut open): (Vec<Block>, Vec<Option<Block>>) = (Vec::new(), Vec::new());
    for (code, comment) in statements(source) {
        let words: Vec<&str> = code.split_whitespace().collect();
        match words.as_slice() {
            [kind @ ("message" | "enum" | "service"), name, "{" | "{}"] => {
                let mut outer = open
                    .iter()
                    .flatten()
                    .map(|block| block.title.split(' ').nth(1).unwrap_or_default().to_owned() + ".");
                let block = Block {
                    title: format!("{kind} {}{name}", outer.next_back().unwrap_or_default()),
                    meaning: comment,
                    rows: Vec::new(),
                };
                match code.ends_with("{}") {
                    true => done.push(block),
                    false => open.push(Some(block)),
                }
            }
            _ if code.ends_with('}') && !code.contains('{') => done.extend(open.pop().flatten()),
            _ if open.is_empty() => {}
            ["oneof" | "rpc", .., "{"] if words[0] == "oneof" => open.push(None),
            _ => {
                let Some(block) = open.iter_mut().rev().flatten().next() else {
                    continue;
                };
                let row = if let Some(rpc) = code.strip_prefix("rpc ") {
                    let (name, types) = rpc.split_once('(').unwrap();
                    let types = types.trim_end_matches([';', '{', '}', ' ']);
                    let (request, response) = types.split_once(") returns (").unwrap_or((types, ""));
                    (
                        name.to_owned(),
                        format!("{request} → {}", response.trim_end_matches(')')),
                        comment,
                    )
                } else if let Some((left, right)) = code.split_once(" = ") {
                    let number = right.split([';', ' ']).next().unwrap_or_default();
                    match left.rsplit_once(' ') {
                        Some((kind, name)) => (name.to_owned(), format!("{kind} = {number}"), comment),
                        None => (left.to_owned(), number.to_owned(), comment),
                    }
                } else {
                    continue;
                };
                block.rows.push(row);
            }
        }
    }
    done
}

fn page(name: &str, file: &str) -> String {
    let source = read(&format!("proto/{file}"));
    let mut page = head(&format!("Protocol: {name}"));
    writeln!(
        page,
        "\nPackage `{}`, file `proto/{file}`.",
        file.rsplit_once('/').unwrap().0.replace('/', ".")
    )
    .unwrap();
    let mut blocks = blocks(&source);
    blocks.sort_by_key(|block| !block.title.starts_with("service "));
    for block in &blocks {
        let (kind, name) = block.title.split_once(' ').unwrap();
        write!(
            page,
            "\n## {name}\n\n{} {kind}. {}\n",
            if kind == "enum" { "An" } else { "A" },
            cell(&block.meaning)
        )
        .unwrap();
        if !block.rows.is_empty() {
            page += "\n| name | type | meaning |\n|---|---|---|\n";
        }
        for (name, kind, meaning) in &block.rows {
            writeln!(page, "| `{name}` | `{}` | {} |", cell(kind), cell(meaning)).unwrap();
        }
    }
    page
}

/// The values of an enum but the unspecified one, with their comments.
pub(super) fn values(file: &str, name: &str) -> Vec<(String, String)> {
    let blocks = blocks(&read(&format!("proto/{file}")));
    let own = blocks.into_iter().find(|block| block.title == format!("enum {name}"));
    let values = own.unwrap().rows.into_iter().skip(1);
    values.map(|(value, _, comment)| (value, comment)).collect()
}

#[test]
fn the_pages_of_the_protocol_are_up_to_date() {
    for (name, file) in FILES {
        compare(&format!("protos/{name}.md"), &page(name, file));
    }
}

/// Checks, by comparison with the compiled descriptors, that reading a file as text misses no name.
#[test]
fn every_message_rpc_and_field_has_its_line() {
    use prost::Message;
    let descriptors = prost_types::FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
    for (name, path) in FILES {
        let page = page(name, path);
        let file = descriptors.file.iter().find(|file| file.name() == *path).unwrap();
        for service in &file.service {
            for method in &service.method {
                assert!(
                    page.contains(&format!("| `{}` |", method.name())),
                    "{path}: {}",
                    method.name()
                );
            }
        }
        for message in &file.message_type {
            let (_, rest) = page
                .split_once(&format!("\n## {}\n", message.name()))
                .unwrap_or_else(|| panic!("{path}: {}", message.name()));
            let section = rest.split("\n## ").next().unwrap();
            for field in &message.field {
                assert!(
                    section.contains(&format!("| `{}` |", field.name())),
                    "{path}: {}.{}",
                    message.name(),
                    field.name()
                );
            }
        }
    }
}
