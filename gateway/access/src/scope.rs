//! Scopes: the permissions of a caller.

use std::{fmt, str::FromStr};

use isomer_service_kit::Fault;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Vectors, token counts, reranking, and the list of encoders.
    Encode,
    /// Transformed texts, checks and judges; with [`Scope::Encode`], augmented vectors.
    Transform,
    /// Tasks, statistics, runs and their reports.
    Evaluate,
    /// Providers, keys and the audit log.
    Admin,
}

impl Scope {
    /// Every scope, in the order they are shown.
    pub const ALL: [Self; 4] = [Self::Encode, Self::Transform, Self::Evaluate, Self::Admin];

    /// Its name: `encode`, `transform`, `evaluate` or `admin`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Transform => "transform",
            Self::Evaluate => "evaluate",
            Self::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        Self::ALL.into_iter().find(|scope| scope.name() == text).ok_or_else(|| {
            Fault::invalid("scopes", format!("unknown scope `{text}`"))
                .hint("give encode, transform, evaluate or admin")
        })
    }
}

/// A set of scopes. `admin` implies no other scope: a key that manages keys need not be able to
/// spend money.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// No scope: the caller is identified but may do nothing.
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(0b1111);

    /// A set of these scopes.
    pub const fn of(scopes: &[Scope]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < scopes.len() {
            bits |= scopes[i].bit();
            i += 1;
        }
        Self(bits)
    }

    /// Whether the set contains the scope.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The first scope of `needed` that the set lacks.
    pub fn lacks(self, needed: Self) -> Option<Scope> {
        needed.iter().find(|scope| !self.has(*scope))
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes, in order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// Parses words: `["encode", "transform"]`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` on a word that is not a scope.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, Fault> {
        words.into_iter().try_fold(Self::NONE, |all, word| {
            let scope: Scope = word.parse()?;
            Ok(Self(all.0 | scope.bit()))
        })
    }

    /// The names, separated by commas.
    pub fn joined(self) -> String {
        self.iter().map(Scope::name).collect::<Vec<_>>().join(",")
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.joined())
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Scope::name))
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        Self::parse(words.iter().map(String::as_str)).map_err(de::Error::custom)
    }
}
