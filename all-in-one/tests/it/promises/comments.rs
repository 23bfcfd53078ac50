//! The comments of the `.proto` files, and the errors that they promise.

use std::collections::{BTreeMap, BTreeSet};

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

/// Lines of comments, each with its element. An element is named without its package:
/// `RunService.CreateRun`, `GateRule.quantity`. Those of text-embeddings-inference's protocol have
/// `tei.` before their names. The comment above `package` is the package's.
fn lines() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in files() {
        let names = names(&file);
        for location in file.source_code_info.iter().flat_map(|info| &info.location) {
            let Some(name) = names.get(&location.path) else {
                continue;
            };
            let detached = location.leading_detached_comments.iter().map(String::as_str);
            let comments = detached.chain([location.leading_comments(), location.trailing_comments()]);
            let lines = comments.flat_map(str::lines);
            found.extend(lines.map(|line| (name.clone(), line.trim().to_owned())));
        }
    }
    found
}

/// The promised errors: an element, and its tag up to the colon. The second list has lines that
/// name a code and are not a tag.
pub fn promises() -> (BTreeSet<String>, Vec<String>) {
    let (mut promises, mut wrong) = (BTreeSet::new(), Vec::new());
    for (element, line) in lines() {
        let tag = line.strip_prefix("@error ").and_then(|tag| tag.split_once(':'));
        let promise = tag.map(|(key, _)| format!("{element} {key}"));
        match promise.filter(|promise| is_promise(promise)) {
            Some(promise) => {
                promises.insert(promise);
            }
            None if line.starts_with('@') || CODES.iter().any(|code| names_word(&line, code)) => {
                wrong.push(format!("{element}: {line}"));
            }
            None => {}
        }
    }
    (promises, wrong)
}

fn names_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .any(|one| one == word)
}

/// Whether a text is an element, a code, a reason if there is one, and a field if there is one.
pub fn is_promise(text: &str) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let (upper, path) = (
        |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_',
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ['_', '.', '-'].contains(&c),
    );
    let element = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    match words.as_slice() {
        [name, code, rest @ ..] if !name.is_empty() && name.chars().all(element) && CODES.contains(code) => {
            let reasons = rest.iter().take_while(|word| word.chars().all(upper)).count();
            let fields = rest[reasons..].iter().filter(|word| word.chars().all(path)).count();
            reasons <= 1 && fields <= 1 && reasons + fields == rest.len()
        }
        _ => false,
    }
}

/// The reason of a promise, if it has one of its own.
pub fn reason(promise: &str) -> Option<&str> {
    promise
        .split(' ')
        .nth(2)
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
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
