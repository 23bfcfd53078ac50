//! The promises of every channel, in every language.
#![allow(clippy::unwrap_used, clippy::panic)]

mod applied;
mod promises;
mod vectors;

use crate::{Channel, Language, draft};

fn sentences() -> impl Iterator<Item = (Language, &'static str)> {
    include_str!("sentences.txt").lines().map(|line| {
        let (code, sentence) = line.split_once(' ').unwrap();
        (Language::parse(code).unwrap(), sentence)
    })
}

/// Sentences that a channel applies to.
fn applicable(channel: Channel) -> impl Iterator<Item = (Language, &'static str)> {
    sentences().filter(move |(language, sentence)| draft(channel, sentence, *language, 0.0, 0).is_ok())
}
