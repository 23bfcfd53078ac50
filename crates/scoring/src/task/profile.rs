//! Metric profiles. Published numbers differ by definition, so each number names the definition
//! that it follows.

use std::{fmt, str::FromStr};

/// The published definition of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Profile {
    /// Current mteb.
    #[default]
    #[serde(rename = "mteb-v2")]
    MtebV2,
    /// The original leaderboard.
    #[serde(rename = "mteb-v1")]
    MtebV1,
    /// HTEB and PTEB.
    #[serde(rename = "hteb")]
    Hteb,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown metric profile `{name}`: known are mteb-v2, mteb-v1, hteb")]
pub struct UnknownProfile {
    pub name: String,
}

isomer_names::names!(Profile { MtebV2 = "mteb-v2", MtebV1 = "mteb-v1", Hteb = "hteb" });

impl Profile {
    /// The name with the versions of the libraries whose numbers it reproduces.
    pub const fn stamp(self) -> &'static str {
        match self {
            Self::MtebV2 => "mteb-v2 (mteb 2.20, scikit-learn 1.8, scipy 1.17, trec_eval 9)",
            Self::MtebV1 => {
                "mteb-v1 (definitions of the original leaderboard, mteb 1; scikit-learn 1.8, scipy 1.17, trec_eval 9)"
            }
            Self::Hteb => "hteb (HTEB 1.1, scikit-learn 1.8, trec_eval 9)",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::named(name).ok_or_else(|| UnknownProfile { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_serialise_alike() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(serde_json::to_value(profile).ok(), Some(profile.name().into()));
            assert!(profile.stamp().starts_with(profile.name()));
        }
        assert!("mteb".parse::<Profile>().is_err());
    }
}
