//! The holders of blobs.

use crate::digest::{Digest, Kind};

/// Folder of the store's records of runs.
pub(crate) const RUNS: &str = "runs";
/// Subfolder of a run's folder: its references.
pub(crate) const REFERENCES: &str = "refs";
/// Subfolder of a run's folder: its process's signs of life.
pub(crate) const ALIVE: &str = "alive";
/// Maximum length of a run's id.
const LONGEST_RUN: usize = 64;

/// A holder that relies on blobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// A run, by its id. Its held blobs are kept until the run is released.
    Run(String),
    /// A unit of work, by its address. The blobs held by its execution are kept as long as its
    /// answer.
    Unit(Digest),
}

impl Holder {
    /// Parses the result of [`Holder::to_text`].
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("run", id) => Self::run(id),
            ("unit", address) => Digest::parse(address).map(Self::Unit),
            _ => None,
        }
    }

    /// A run; `None` if the id has invalid characters. It becomes part of a name in the store.
    pub fn run(id: &str) -> Option<Self> {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let good = (1..=LONGEST_RUN).contains(&id.len()) && id.bytes().all(word);
        good.then(|| Self::Run(id.to_owned()))
    }

    /// The holder as one line of text, for the metadata of a request.
    pub fn to_text(&self) -> String {
        match self {
            Self::Run(id) => format!("run {id}"),
            Self::Unit(address) => format!("unit {address}"),
        }
    }

    /// The location of its references.
    pub(crate) fn references(&self) -> String {
        match self {
            Self::Run(id) => format!("{RUNS}/{id}/{REFERENCES}"),
            Self::Unit(address) => format!("{}/{address}", Kind::Held.place("", address)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_holder_is_read_as_it_was_written_and_no_path_is_one() {
        let unit = Holder::Unit(Digest::from([7; 32]));
        for holder in [Holder::run("018f-a").unwrap(), unit] {
            assert_eq!(Holder::parse(&holder.to_text()), Some(holder));
        }
        for text in [
            "",
            "run",
            "run ",
            "run a/b",
            "run ..",
            "unit 07",
            "other 018f",
            &format!("run {}", "a".repeat(65)),
        ] {
            assert_eq!(Holder::parse(text), None, "{text}");
        }
    }
}
