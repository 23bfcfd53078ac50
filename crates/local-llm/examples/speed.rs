//! Speed of a local model: `cargo run --release -p isomer-local-llm --example speed -- MODEL.gguf
//! [f32] [suite] [alone] [guesses=ROWS] [batch=SEQUENCES] [texts]`.
//!
//! `suite`: only the last part, with a real prompt (`paraphrase.txt`, some 300 tokens of
//! instructions and examples). `alone`: without reuse of prompt prefixes, so every prompt is
//! processed from its first token. `guesses`: `LoadOptions::guessing_rows`, 0 for none. `batch`:
//! `LoadOptions::max_batch`.
//!
//! Prints the seconds a load takes, prompt and answer tokens per second at several batch sizes, and
//! the quick suite's work: many short paraphrases that share their instructions. Wall time includes
//! everything else on the machine; the second number of each pair is tokens per processor second,
//! which does not.
#![allow(clippy::print_stdout)]

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    time::Instant,
};

use futures::{executor::block_on, future::join_all};
use isomer_local_llm::{Arithmetic, ChatMessage, GenerateRequest, LoadOptions, LocalError, LocalModel};

const INSTRUCTION: &str = "Rewrite the text in different words. Keep its meaning, its language and its kind: a question stays \
     a question. Answer with the rewritten text only, without quotes, notes or alternatives.";
const WHO: [&str; 7] = [
    "A man",
    "The nurse",
    "My sister",
    "An old dog",
    "The committee",
    "Nobody here",
    "The engineer",
];
const DOES: [&str; 7] = [
    "is playing",
    "carefully repairs",
    "never saw",
    "wants to sell",
    "will describe",
    "forgot",
    "looks for",
];
const WHAT: [&str; 8] = [
    "a guitar on the street in the rain",
    "the broken window of the small shop",
    "the last train to the northern city",
    "a new method against the disease",
    "the report about water in the valley",
    "an expensive painting from the museum",
    "some bread and cheese for the guests",
    "the keys that were left on the table",
];

fn text(index: usize) -> String {
    let (who, does, what) = (WHO[index % 7], DOES[index / 7 % 7], WHAT[index / 49 % 8]);
    format!("{who} {does} {what}.")
}

/// The messages of the paraphrase prompt for a text.
fn paraphrase(index: usize) -> GenerateRequest {
    let file = include_str!("../../../transform-svc/prompts/paraphrase.txt");
    let body = file.rsplit("+++\n").next().unwrap_or_default();
    let mut messages: Vec<ChatMessage> = Vec::new();
    for line in body.lines() {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(role) => messages.push(ChatMessage {
                role: role.to_owned(),
                content: String::new(),
            }),
            None => {
                if let Some(message) = messages.last_mut() {
                    message.content.push_str(line);
                    message.content.push('\n');
                }
            }
        }
    }
    for message in &mut messages {
        let filled = message
            .content
            .replace("{language}", "English")
            .replace("{text}", &text(index));
        message.content = filled.trim().to_owned();
    }
    GenerateRequest {
        messages,
        max_tokens: 64,
        ..GenerateRequest::default()
    }
}

fn request(index: usize, max_tokens: usize) -> GenerateRequest {
    GenerateRequest {
        messages: vec![ChatMessage::system(INSTRUCTION), ChatMessage::user(text(index))],
        max_tokens,
        ..GenerateRequest::default()
    }
}

/// Processor seconds of this process, from the kernel's accounting; 0 if there is none.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: f64 = fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn report(what: &str, tokens: usize, start: (Instant, f64)) {
    line(
        what,
        tokens,
        start.0.elapsed().as_secs_f64(),
        processor_seconds() - start.1,
    );
}

fn line(what: &str, tokens: usize, wall: f64, cpu: f64) {
    #[allow(clippy::cast_precision_loss)]
    let tokens = tokens as f64;
    println!(
        "{what:<44} {tokens:>6} tokens {wall:>7.2} s  {:>7.1} tokens/s  {:>7.1} tokens/cpu-s",
        tokens / wall.max(0.01),
        tokens / cpu.max(0.01)
    );
}

fn now() -> (Instant, f64) {
    (Instant::now(), processor_seconds())
}

fn main() -> Result<(), LocalError> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().unwrap_or_default());
    let rest: Vec<String> = args.collect();
    let arithmetic = if rest.iter().any(|a| a == "f32") {
        Arithmetic::F32
    } else {
        Arithmetic::Int8
    };
    let texts: usize = rest.iter().find_map(|a| a.parse().ok()).unwrap_or(350);
    let options = LoadOptions {
        arithmetic,
        reuse_prefixes: !rest.iter().any(|a| a == "alone"),
        ..LoadOptions::default()
    };
    let number = |name: &str| rest.iter().find_map(|a| a.strip_prefix(name)?.parse().ok());
    let options = LoadOptions {
        guessing_rows: number("guesses=").unwrap_or(options.guessing_rows),
        max_batch: number("batch=").unwrap_or(options.max_batch),
        ..options
    };
    let start = now();
    let model = LocalModel::load(&path, options)?;
    println!(
        "load {:.2} s ({:.2} cpu-s), {} ({arithmetic:?}), resident {} MiB",
        start.0.elapsed().as_secs_f64(),
        processor_seconds() - start.1,
        model.architecture(),
        peak_mib()
    );

    if rest.iter().any(|a| a == "suite") {
        return suite(&model, texts);
    }
    parts(&model)?;
    suite(&model, texts)
}

/// Measures prompt and answer tokens per second.
fn parts(model: &LocalModel) -> Result<(), LocalError> {
    // A prompt that is not cached, answered with one token: prefill.
    let long: String = (0..60).map(|i| text(i * 5) + " ").collect();
    let prompt = GenerateRequest {
        messages: vec![ChatMessage::user(long)],
        max_tokens: 1,
        ..GenerateRequest::default()
    };
    let start = now();
    let answer = block_on(model.generate(prompt))?;
    report("prompt", answer.prompt_tokens, start);

    // The same requests with one token and with 24: the difference is decoding alone.
    block_on(model.generate(request(0, 1)))?;
    for batch in [1, 8, 32] {
        let all = |max_tokens| -> Result<_, LocalError> {
            let start = now();
            let requests = (0..batch).map(|i| model.generate(request(batch * 3 + i, max_tokens)));
            let answers = block_on(join_all(requests))
                .into_iter()
                .collect::<Result<Vec<_>, _>>()?;
            let tokens: usize = answers.iter().map(|a| a.generated_tokens).sum();
            Ok((tokens, start.0.elapsed().as_secs_f64(), processor_seconds() - start.1))
        };
        let (first_tokens, first_wall, first_cpu) = all(1)?;
        let (tokens, wall, cpu) = all(24)?;
        line(
            &format!("decode, batch {batch}"),
            tokens - first_tokens,
            wall - first_wall,
            cpu - first_cpu,
        );
    }
    Ok(())
}

/// Many paraphrases that share their instructions.
fn suite(model: &LocalModel, texts: usize) -> Result<(), LocalError> {
    let start = now();
    let requests = (0..texts).map(|i| model.generate(paraphrase(i)));
    let answers = block_on(join_all(requests))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let private = |prompt: usize| prompt.saturating_sub(shared_prefix(&answers));
    let tokens = answers
        .iter()
        .map(|a| private(a.prompt_tokens) + a.generated_tokens)
        .sum();
    report(&format!("{texts} paraphrases, private prompt + answer"), tokens, start);
    let generated: usize = answers.iter().map(|a| a.generated_tokens).sum();
    println!(
        "  of it {generated} answer tokens; shared prompt about {} tokens; peak {} MiB",
        shared_prefix(&answers),
        peak_mib()
    );
    #[allow(clippy::cast_precision_loss)]
    let per_text = |seconds: f64| seconds / texts as f64;
    println!(
        "  {:.3} s a text, {:.3} cpu-s a text",
        per_text(start.0.elapsed().as_secs_f64()),
        per_text(processor_seconds() - start.1)
    );
    // Equal with and without reuse, on any number of threads.
    let mut digest = DefaultHasher::new();
    answers.iter().for_each(|answer| answer.text.hash(&mut digest));
    println!("  digest of the answers {:016x}", digest.finish());
    for index in [0, 1, texts / 2] {
        println!("  {} -> {}", text(index), answers[index].text.trim());
    }
    Ok(())
}

/// The length of the shortest prompt less about twenty tokens for a text and the end of its turn.
fn shared_prefix(answers: &[isomer_local_llm::Generation]) -> usize {
    answers
        .iter()
        .map(|a| a.prompt_tokens)
        .min()
        .unwrap_or(0)
        .saturating_sub(20)
}
