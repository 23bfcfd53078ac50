//! Scopes: the permissions of a caller.

use std::fmt;

use isomer_proto::{ProtoEnum, gateway::v1::AccessScope};
use isomer_service_kit::Fault;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const fn bit(scope: AccessScope) -> u8 {
    1 << scope as u8
}

/// A set of scopes. `admin` implies no other scope: a key that manages keys need not be able to
/// spend money.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// No scope: the caller is identified but may do nothing.
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self::of(&[
        AccessScope::Encode,
        AccessScope::Transform,
        AccessScope::Evaluate,
        AccessScope::Admin,
    ]);

    /// A set of these scopes.
    pub const fn of(scopes: &[AccessScope]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < scopes.len() {
            bits |= bit(scopes[i]);
            i += 1;
        }
        Self(bits)
    }

    /// Whether the set contains the scope.
    pub fn has(self, scope: AccessScope) -> bool {
        self.0 & bit(scope) != 0
    }

    /// The first scope of `needed` that the set lacks.
    pub fn lacks(self, needed: Self) -> Option<AccessScope> {
        needed.iter().find(|scope| !self.has(*scope))
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes, in order.
    pub fn iter(self) -> impl Iterator<Item = AccessScope> {
        AccessScope::all().filter(move |scope| self.has(*scope))
    }

    /// Parses words: `["encode", "transform"]`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` on a word that is not a scope.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, Fault> {
        let scope = |word| {
            AccessScope::named(word).ok_or_else(|| {
                Fault::invalid("scopes", format!("unknown scope `{word}`"))
                    .hint("give encode, transform, evaluate or admin")
            })
        };
        words.into_iter().map(scope).collect()
    }

    /// The names, separated by commas.
    pub fn joined(self) -> String {
        self.iter().map(ProtoEnum::name).collect::<Vec<_>>().join(",")
    }
}

impl FromIterator<AccessScope> for Scopes {
    fn from_iter<I: IntoIterator<Item = AccessScope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | bit(scope)))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.joined())
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(ProtoEnum::name))
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        Self::parse(words.iter().map(String::as_str)).map_err(de::Error::custom)
    }
}
