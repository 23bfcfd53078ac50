//! The comments of the `.proto` files, and the sentences in them that name a gRPC code.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

const CODES: [&str; 12] = [
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "UNAVAILABLE",
    "UNAUTHENTICATED",
];

/// The package of text-embeddings-inference's rpcs.
const TEI: &str = "tei.v1";

pub fn files() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
    let ours = |file: &FileDescriptorProto| file.package().starts_with("isomer.") || file.package() == TEI;
    set.file.into_iter().filter(ours).collect()
}

/// Comment by element. An element is named without its package: `RunService.CreateRun`,
/// `GateRule.quantity`. Those of text-embeddings-inference's protocol have `tei.` before their
/// names. The comment above `package` is the package's.
pub fn all() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for file in files() {
        let names = names(&file);
        for location in file.source_code_info.iter().flat_map(|info| &info.location) {
            let mut comment = location.leading_detached_comments.join("\n\n");
            comment.push_str("\n\n");
            comment.push_str(location.leading_comments());
            comment.push_str(location.trailing_comments());
            if let Some(name) = names.get(&location.path)
                && !comment.trim().is_empty()
            {
                let known: &mut String = all.entry(name.clone()).or_default();
                // A package has several files.
                assert!(
                    known.is_empty() || name == file.package(),
                    "two elements are called {name}"
                );
                known.push('\n');
                known.push_str(&flowing(&comment));
            }
        }
    }
    all
}

/// Joins the lines of each paragraph.
fn flowing(comment: &str) -> String {
    // A blank line of a comment still has its leading space.
    let comment = comment.replace("\n \n", "\n\n");
    let paragraphs = comment.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let paragraphs: Vec<String> = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect();
    paragraphs.join("\n")
}

type Names = BTreeMap<Vec<i32>, String>;

fn names(file: &FileDescriptorProto) -> Names {
    let mut names = Names::from([(vec![2], file.package().to_owned())]);
    for (place, message) in file.message_type.iter().enumerate() {
        message_names(message, vec![4, place as i32], "", &mut names);
    }
    for (place, kind) in file.enum_type.iter().enumerate() {
        enum_names(kind, &[5, place as i32], "", &mut names);
    }
    for (place, service) in file.service.iter().enumerate() {
        names.insert(vec![6, place as i32], service.name().to_owned());
        for (method, rpc) in service.method.iter().enumerate() {
            let path = vec![6, place as i32, 2, method as i32];
            names.insert(path, format!("{}.{}", service.name(), rpc.name()));
        }
    }
    if file.package() == TEI {
        let elements = names.iter_mut().filter(|(path, _)| path.len() > 1);
        elements.for_each(|(_, name)| name.insert_str(0, "tei."));
    }
    names
}

fn message_names(message: &DescriptorProto, path: Vec<i32>, within: &str, names: &mut Names) {
    let name = format!("{within}{}", message.name());
    let below = |tag: i32, place: usize| [&path[..], &[tag, place as i32]].concat();
    for (place, field) in message.field.iter().enumerate() {
        names.insert(below(2, place), format!("{name}.{}", field.name()));
    }
    for (place, oneof) in message.oneof_decl.iter().enumerate() {
        names.insert(below(8, place), format!("{name}.{}", oneof.name()));
    }
    for (place, kind) in message.enum_type.iter().enumerate() {
        enum_names(kind, &below(4, place), &format!("{name}."), names);
    }
    for (place, inner) in message.nested_type.iter().enumerate() {
        message_names(inner, below(3, place), &format!("{name}."), names);
    }
    names.insert(path, name);
}

fn enum_names(kind: &EnumDescriptorProto, path: &[i32], within: &str, names: &mut Names) {
    let name = format!("{within}{}", kind.name());
    for (place, value) in kind.value.iter().enumerate() {
        names.insert([path, &[2, place as i32]].concat(), format!("{name}.{}", value.name()));
    }
    names.insert(path.to_vec(), name);
}

/// Element and sentence. `CODE: this, that` is two promises, `CODE: this` and `CODE: that`.
pub fn promises() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (element, comment) in all() {
        for sentence in comment.lines().flat_map(sentences) {
            if codes(&sentence).is_empty() {
                continue;
            }
            for promise in cases(&sentence) {
                found.push((element.clone(), promise));
            }
        }
    }
    found
}

fn sentences(paragraph: &str) -> Vec<String> {
    let marked = paragraph.replace(". ", ".\n").replace("; ", ";\n");
    marked
        .lines()
        .map(|sentence| sentence.trim_end_matches(['.', ';']).to_owned())
        .collect()
}

/// The codes that a sentence names.
pub fn codes(sentence: &str) -> Vec<&'static str> {
    let words = sentence.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '`'));
    let words: Vec<&str> = words.collect();
    CODES.into_iter().filter(|code| words.contains(code)).collect()
}

/// The reason that a sentence names: `the reason NO_LEASE`, or in brackets or alone in backticks.
pub fn reason(sentence: &str) -> Option<&str> {
    let upper = |word: &&str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    if let Some((_, rest)) = sentence.split_once("the reason ") {
        return rest.split(|c: char| !(c.is_ascii_uppercase() || c == '_')).next();
    }
    sentence.split('`').skip(1).step_by(2).find(upper)
}

fn cases(sentence: &str) -> Vec<String> {
    let Some((head, list)) = sentence
        .split_once(": ")
        .filter(|(head, _)| !codes(head).is_empty() && !head.contains(','))
    else {
        return vec![sentence.to_owned()];
    };
    let (mut cases, mut depth, mut ticked) = (vec![String::new()], 0, false);
    for c in list.chars() {
        match c {
            '`' => ticked = !ticked,
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 && !ticked => {
                cases.push(String::new());
                continue;
            }
            _ => {}
        }
        cases.last_mut().unwrap().push(c);
    }
    cases.iter().map(|case| format!("{head}: {}", case.trim())).collect()
}

/// All rpcs: path, full name of the request's message without its dot.
pub fn rpcs() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for file in files() {
        for service in &file.service {
            for rpc in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), rpc.name());
                all.push((path, rpc.input_type().trim_start_matches('.').to_owned()));
            }
        }
    }
    all
}

/// A message by its full name.
pub fn message(name: &str) -> Option<DescriptorProto> {
    files().into_iter().find_map(|file| {
        let rest = name.strip_prefix(file.package())?.strip_prefix('.')?;
        let mut parts = rest.split('.');
        let first = parts.next()?;
        let mut found = file.message_type.into_iter().find(|message| message.name() == first)?;
        for part in parts {
            found = found.nested_type.into_iter().find(|message| message.name() == part)?;
        }
        Some(found)
    })
}

/// The bytes of a message of this name with a string that is not UTF-8, if it has a string
/// somewhere.
pub fn not_utf8(name: &str, depth: usize) -> Option<Vec<u8>> {
    let fields = message(name)?.field;
    let tagged = |number: i32, content: &[u8]| {
        let mut wire = Vec::new();
        prost::encoding::encode_key(number as u32, prost::encoding::WireType::LengthDelimited, &mut wire);
        prost::encoding::encode_varint(content.len() as u64, &mut wire);
        wire.extend_from_slice(content);
        wire
    };
    if let Some(text) = fields.iter().find(|field| field.r#type() == Type::String) {
        return Some(tagged(text.number(), &[0xff, 0xfe]));
    }
    let inner = fields
        .iter()
        .filter(|field| field.r#type() == Type::Message && depth > 0 && field.label() != Label::Required);
    inner
        .filter_map(|field| {
            let content = not_utf8(field.type_name().trim_start_matches('.'), depth - 1)?;
            Some(tagged(field.number(), &content))
        })
        .next()
}
