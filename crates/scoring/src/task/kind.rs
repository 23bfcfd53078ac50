//! Kinds of task.

use std::{fmt, str::FromStr};

use super::Profile;

/// Kind of task; the names of mteb.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TaskType {
    /// Semantic textual similarity and relatedness (`str` names it too).
    Sts,
    /// Is a pair positive or negative?
    PairClassification,
    /// Logistic regression on vectors.
    Classification,
    /// k-means on vectors.
    Clustering,
    /// Ordering given candidates of a query.
    Reranking,
    /// Finding documents for queries.
    Retrieval,
    /// Machine summaries against human ones.
    Summarisation,
    /// Finding translations.
    Bitext,
    /// Cross-lingual semantic discrimination.
    Clsd,
    /// Ordering candidates of graded closeness.
    GradedRanking,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown task `{name}`: known are {}", TaskType::ALL.map(TaskType::name).join(", "))]
pub struct UnknownTask {
    pub name: String,
}

isomer_names::names!(TaskType {
    Sts = "sts", PairClassification = "pair-classification", Classification = "classification",
    Clustering = "clustering", Reranking = "reranking", Retrieval = "retrieval",
    Summarisation = "summarisation", Bitext = "bitext", Clsd = "clsd", GradedRanking = "graded-ranking"
});

impl TaskType {
    /// Whether datasets of this kind can be loaded and scored.
    pub const fn served(self) -> bool {
        true
    }

    /// mteb's key of the main score under a profile; `None` if the kind is not supported yet.
    pub const fn main_score(self, profile: Profile) -> Option<&'static str> {
        match (self, profile) {
            (Self::Sts, _) => Some("cosine_spearman"),
            (Self::PairClassification, Profile::MtebV2) => Some("max_ap"),
            (Self::PairClassification, Profile::MtebV1 | Profile::Hteb) => Some("cosine_ap"),
            (Self::Retrieval, _) => Some("ndcg_at_10"),
            (Self::Reranking, Profile::MtebV2) => Some("map_at_1000"),
            (Self::Reranking, Profile::MtebV1 | Profile::Hteb) => Some("map"),
            (Self::Summarisation, _) => Some("cosine_spearman"),
            (Self::Bitext, _) => Some("f1"),
            // mteb searches for the translation in the whole corpus, the paper among five
            // candidates.
            (Self::Clsd, Profile::MtebV2 | Profile::MtebV1) => Some("recall_at_1"),
            (Self::Clsd, Profile::Hteb) => Some("candidates_precision_at_1"),
            (Self::GradedRanking, _) => Some("spearman"),
            (Self::Classification, _) => Some("accuracy"),
            (Self::Clustering, _) => Some("v_measure"),
        }
    }

    /// Fields of a dataset row (of each file, for retrieval).
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Sts => &["sentence1", "sentence2", "score"],
            Self::PairClassification => &["sentence1", "sentence2", "label"],
            Self::Classification | Self::Clustering => &["text", "label"],
            Self::Reranking => &["query", "positive", "negative"],
            Self::Retrieval => &[
                "corpus._id",
                "corpus.title",
                "corpus.text",
                "queries._id",
                "queries.text",
                "qrels.query-id",
                "qrels.corpus-id",
                "qrels.score",
            ],
            Self::Summarisation => &["text", "human_summaries", "machine_summaries", "relevance"],
            Self::Bitext => &["sentence1", "sentence2"],
            // `distractor_pos` is optional. For each distractor it is null, or the part of speech
            // of the one differing word.
            Self::Clsd => &["source", "target", "distractors", "distractor_pos"],
            Self::GradedRanking => &["anchor", "candidates"],
        }
    }
}

impl fmt::Display for TaskType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TaskType {
    type Err = UnknownTask;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|t| t.name() == name || (*t == Self::Sts && name == "str"))
            .ok_or_else(|| UnknownTask { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_served_kinds_have_a_main_score() {
        for task in TaskType::ALL {
            assert_eq!(task.name().parse(), Ok(task));
            assert_eq!(serde_json::to_value(task).ok(), Some(task.name().into()));
            for profile in Profile::ALL {
                assert_eq!(task.main_score(profile).is_some(), task.served());
            }
        }
        assert!("sst".parse::<TaskType>().is_err());
    }
}
