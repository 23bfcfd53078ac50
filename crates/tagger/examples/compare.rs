//! Compares the tagger with a treebank or with another tagger's output.
//!
//! ```text
//! cargo run --release -p isomer-tagger --example compare -- [--model FILE] FILE…
//! ```
//! Without `--model`, the built-in model of this crate is compared.
//!
//! Files are `.conllu` (a treebank: gold parts of speech) or `.tagged` (training/label.py: spaCy's
//! tags). Printed for each:
//! * tokens: F1 of our tokens' spans;
//! * POS: fraction of the reference's tokens that we find and tag the same; a token that we split
//!   differently counts as wrong;
//! * POS, given tokens: the same when we are given the reference's tokens;
//! * entities: F1 of spans with their type; of spans alone; then each type that occurs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

mod support;

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use isomer_tagger::{TaggedText, Tagger};

/// Found on both sides, here, there.
#[derive(Default, Clone, Copy)]
struct Counts {
    both: usize,
    ours: usize,
    theirs: usize,
}

impl Counts {
    fn f1(self) -> f64 {
        200.0 * self.both as f64 / (self.ours + self.theirs).max(1) as f64
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn compare(tagger: &Tagger, file: &str) -> Result<(), String> {
    let sentences = support::read(Path::new(file))?;
    let began = Instant::now();
    let tagged: Vec<TaggedText> = sentences.iter().map(|sentence| tagger.tag(&sentence.text)).collect();
    let seconds = began.elapsed().as_secs_f64();
    let (mut tokens, mut spans, mut typed) = (Counts::default(), Counts::default(), Counts::default());
    let (mut right, mut right_given, mut entity_text) = (0, 0, false);
    let mut types: BTreeMap<String, Counts> = BTreeMap::new();
    let mut confusions: HashMap<(String, &str), usize> = HashMap::new();
    for (sentence, tagged) in sentences.iter().zip(&tagged) {
        let ours: HashMap<_, _> = tagged
            .tokens
            .iter()
            .map(|token| (token.span.clone(), token.pos))
            .collect();
        tokens.ours += tagged.tokens.len();
        tokens.theirs += sentence.spans.len();
        for (span, pos) in sentence.spans.iter().zip(&sentence.pos) {
            tokens.both += usize::from(ours.contains_key(span));
            right += usize::from(ours.get(span).is_some_and(|ours| ours.name() == pos));
        }
        let given = tagger.tag_tokens(&sentence.text, sentence.spans.clone());
        for (token, pos) in given.tokens.iter().zip(&sentence.pos) {
            right_given += usize::from(token.pos.name() == pos);
            if token.pos.name() != pos {
                *confusions.entry((pos.clone(), token.pos.name())).or_default() += 1;
            }
        }
        if sentence.bio.is_empty() {
            continue;
        }
        entity_text = true;
        let theirs: HashMap<_, _> = support::entities(sentence).into_iter().collect();
        for label in theirs.values() {
            types.entry(label.clone()).or_default().theirs += 1;
        }
        spans.theirs += theirs.len();
        typed.theirs += theirs.len();
        for entity in &tagged.entities {
            let (first, last) = (
                &tagged.tokens[entity.tokens.start],
                &tagged.tokens[entity.tokens.end - 1],
            );
            let label = entity.label.name();
            let of_type = types.entry(label.to_owned()).or_default();
            let found = theirs.get(&(first.span.start..last.span.end));
            of_type.ours += 1;
            spans.ours += 1;
            typed.ours += 1;
            spans.both += usize::from(found.is_some());
            if found.is_some_and(|theirs| theirs == label) {
                typed.both += 1;
                of_type.both += 1;
            }
        }
    }
    println!(
        "{file}: {} sentences, {} tokens; {:.0} sentences/s\n  tokens F1 {:.2}; POS {:.2} %; POS, given tokens {:.2} %",
        sentences.len(),
        tokens.theirs,
        sentences.len() as f64 / seconds,
        tokens.f1(),
        percent(right, tokens.theirs),
        percent(right_given, tokens.theirs)
    );
    if entity_text {
        println!(
            "  entities F1 {:.2} ({} theirs, {} ours); spans alone {:.2}",
            typed.f1(),
            typed.theirs,
            typed.ours,
            spans.f1()
        );
        let types: Vec<String> = types
            .iter()
            .map(|(name, counts)| format!("{name} {:.0} ({})", counts.f1(), counts.theirs))
            .collect();
        println!("  {}", types.join(", "));
    }
    let mut confusions: Vec<_> = confusions.into_iter().collect();
    confusions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let worst: Vec<String> = confusions
        .iter()
        .take(8)
        .map(|((theirs, ours), n)| format!("{theirs}→{ours} {n}"))
        .collect();
    println!("  theirs→ours: {}", worst.join(", "));
    Ok(())
}

fn run(mut arguments: Vec<String>) -> Result<(), String> {
    let own;
    let tagger = if arguments.first().is_some_and(|first| first == "--model") {
        let path = arguments.get(1).ok_or("--model FILE")?;
        let bytes = std::fs::read(path).map_err(|e| format!("cannot read {path}: {e}"))?;
        own = Tagger::read(&bytes).map_err(|e| format!("{path}: {e}"))?;
        arguments.drain(..2);
        &own
    } else {
        Tagger::english().map_err(|e| e.to_string())?
    };
    if arguments.is_empty() {
        return Err("give files to compare with: .conllu or .tagged".into());
    }
    arguments.iter().try_for_each(|file| compare(tagger, file))
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
