//! The identity of a dataset's content.

use super::{DatasetText, Labels, Role};
use isomer_scoring::task::{EXPERIMENTS, TaskType};

/// BLAKE3 (hex) of the task, every text and every label. Each part is preceded by its length, so
/// that two different datasets never hash the same bytes.
pub(super) fn of(task: TaskType, texts: &[DatasetText], labels: &Labels) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(b"isomer-dataset-1");
    part(task.name().as_bytes());
    part(&(texts.len() as u64).to_le_bytes());
    for text in texts {
        // Ids of pairs follow from their order. Ids of queries and documents break ties, so they
        // are part of the content.
        if matches!(text.role, Role::Query | Role::Document) {
            part(text.id.as_bytes());
        }
        part(text.text.as_bytes());
    }
    match labels {
        Labels::Sts(gold) => gold.iter().for_each(|g| part(&(g + 0.0).to_le_bytes())),
        Labels::PairClassification(labels) => labels.iter().for_each(|l| part(&[u8::from(*l)])),
        Labels::Classification {
            labels,
            samples_per_label,
            experiments,
        } => {
            part(&(*samples_per_label as u64).to_le_bytes());
            if *experiments != EXPERIMENTS {
                part(&(*experiments as u64).to_le_bytes());
            }
            for side in labels {
                part(&(side.len() as u64).to_le_bytes());
                side.iter().for_each(|label| part(label.as_bytes()));
            }
        }
        Labels::Clustering {
            labels,
            legacy,
            max_fraction,
        } => {
            part(&[u8::from(*legacy)]);
            part(&max_fraction.unwrap_or_default().to_le_bytes());
            labels.labels.iter().for_each(|label| part(label.as_bytes()));
            labels.sets.iter().for_each(|size| part(&(*size as u64).to_le_bytes()));
        }
        Labels::Bitext(rows) => part(&(*rows as u64).to_le_bytes()),
        Labels::Reranking(labels) => {
            for item in &labels.items {
                for count in [item.queries, item.positives, item.negatives] {
                    part(&(count as u64).to_le_bytes());
                }
            }
            labels.document_ids.iter().for_each(|id| part(id.as_bytes()));
        }
        Labels::Summarisation(texts) => texts.iter().for_each(|text| {
            part(&(text.human as u64).to_le_bytes());
            part(&(text.relevance.len() as u64).to_le_bytes());
            text.relevance.iter().for_each(|r| part(&(r + 0.0).to_le_bytes()));
        }),
        Labels::Clsd(labels) => {
            labels
                .counts
                .iter()
                .for_each(|count| part(&(*count as u64).to_le_bytes()));
            for pair in &labels.one_word {
                part(&(pair.distractor as u64).to_le_bytes());
                part(pair.pos.as_deref().unwrap_or_default().as_bytes());
            }
        }
        Labels::GradedRanking(counts) => counts.iter().for_each(|count| part(&(*count as u64).to_le_bytes())),
        Labels::Retrieval(labels) => {
            part(&[u8::from(labels.ignore_identical_ids)]);
            for judgements in &labels.judgements {
                part(&(judgements.len() as u64).to_le_bytes());
                for (document, grade) in judgements {
                    part(labels.id_of(*document).as_bytes());
                    part(&grade.to_le_bytes());
                }
            }
        }
    }
    hasher.finalize().to_hex().to_string()
}
