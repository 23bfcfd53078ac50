//! Where a prompt comes from, and which texts it is for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{dataset::Role, task::TaskType};

/// Where a prompt comes from, the first that has one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptSource {
    /// `--prompt`, or the prompts of a request.
    Request,
    /// `[encoder."ID".prompts]` of the suite.
    Suite,
    /// The encoder's own, e.g. of its folder.
    Encoder,
}

impl PromptSource {
    pub fn words(self) -> &'static str {
        match self {
            Self::Request => "given with the request",
            Self::Suite => "from the suite",
            Self::Encoder => "the encoder's own",
        }
    }
}

/// The part that a text plays, as far as prompts are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A query of retrieval or reranking.
    Query,
    /// Text that is searched for: a document, a candidate.
    Document,
    /// Any text of a task that has no parts.
    Text,
}

isomer_names::names!(Part { Query = "query", Document = "document", Text = "text" });

impl Part {
    /// The part of a text of a task.
    pub fn of(task: TaskType, role: Role) -> Self {
        match (task, role) {
            (TaskType::Retrieval | TaskType::Reranking, Role::Query) => Self::Query,
            (TaskType::Retrieval | TaskType::Reranking, _) => Self::Document,
            _ => Self::Text,
        }
    }

    /// The parts of a task's texts, the one that a robustness check transforms first.
    pub fn of_task(task: TaskType) -> &'static [Self] {
        match task {
            TaskType::Retrieval | TaskType::Reranking => &[Self::Query, Self::Document],
            _ => &[Self::Text],
        }
    }
}
