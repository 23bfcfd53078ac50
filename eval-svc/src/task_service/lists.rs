//! Reads the vectors of the tasks whose rows are lists from a request.

use isomer_proto::eval::v1::{
    ClsdVectors, GradedVectors, PairScores as ProtoPairScores, RerankingVectors, SummarisationVectors,
};
use isomer_service_kit::Fault;
use ndarray::Array2;

use super::{VectorInput, vectors::matrix};
use crate::{
    metric::Similarity,
    task::{
        Candidates, ClsdInput, OneWord, PairScores, Profile, RerankingInput, ScoreError, Scores, SummarisationInput,
        SummarisedText, TaskType, score_clsd, score_graded_ranking, score_pair_scores, score_reranking,
        score_summarisation,
    },
};

/// A task of this file, ready to be scored.
#[derive(Debug)]
pub(super) enum Lists {
    Reranking {
        queries: Array2<f32>,
        documents: Array2<f32>,
        items: Vec<Candidates>,
        document_ids: Vec<String>,
    },
    Summarisation {
        human: Array2<f32>,
        machine: Array2<f32>,
        texts: Vec<SummarisedText>,
    },
    Clsd {
        sources: Array2<f32>,
        targets: Array2<f32>,
        distractors: Array2<f32>,
        counts: Vec<usize>,
        same_as_target: Vec<bool>,
        one_word: Vec<OneWord>,
    },
    Graded {
        anchors: Array2<f32>,
        candidates: Array2<f32>,
        counts: Vec<usize>,
    },
    PairScores {
        groups: Vec<PairScores>,
        threshold: Option<f64>,
    },
}

impl Lists {
    pub(super) fn score(&self, profile: Profile, own: Similarity) -> Result<Scores, ScoreError> {
        match self {
            Self::Reranking {
                queries,
                documents,
                items,
                document_ids,
            } => {
                let input = RerankingInput {
                    queries: queries.view(),
                    documents: documents.view(),
                    items,
                    document_ids,
                };
                score_reranking(&input, own, profile)
            }
            Self::Summarisation { human, machine, texts } => {
                let input = SummarisationInput {
                    human: human.view(),
                    machine: machine.view(),
                    texts,
                };
                score_summarisation(&input, own, profile)
            }
            Self::Clsd {
                sources,
                targets,
                distractors,
                counts,
                same_as_target,
                one_word,
            } => {
                let input = ClsdInput {
                    sources: sources.view(),
                    targets: targets.view(),
                    distractors: distractors.view(),
                    counts,
                    same_as_target,
                    one_word,
                };
                score_clsd(&input, own, profile)
            }
            Self::Graded {
                anchors,
                candidates,
                counts,
            } => score_graded_ranking(anchors.view(), candidates.view(), counts, own, profile),
            Self::PairScores { groups, threshold } => score_pair_scores(groups, *threshold, profile),
        }
    }
}

pub(super) fn of_task(task: TaskType, expected: TaskType, field: &str) -> Result<(), Fault> {
    if task == expected {
        return Ok(());
    }
    let message = format!("{task} is not scored from {field} vectors");
    Err(Fault::invalid(format!("input.{field}"), message))
}

fn sizes(counts: &[u32]) -> Vec<usize> {
    counts.iter().map(|count| *count as usize).collect()
}

/// Reads the vectors of a reranking task.
pub(super) fn reranking(task: TaskType, input: RerankingVectors) -> Result<VectorInput, Fault> {
    of_task(task, TaskType::Reranking, "reranking")?;
    let items = input.items.iter().map(|item| Candidates {
        queries: item.queries as usize,
        positives: item.positives as usize,
        negatives: item.negatives as usize,
    });
    Ok(VectorInput::Lists(Lists::Reranking {
        items: items.collect(),
        document_ids: input.document_ids,
        queries: matrix("reranking.queries", input.queries)?,
        documents: matrix("reranking.documents", input.documents)?,
    }))
}

/// Reads the vectors of a summarisation task.
pub(super) fn summarisation(task: TaskType, input: SummarisationVectors) -> Result<VectorInput, Fault> {
    of_task(task, TaskType::Summarisation, "summarisation")?;
    let texts = input.texts.into_iter().map(|text| SummarisedText {
        human: text.human as usize,
        relevance: text.relevance,
    });
    Ok(VectorInput::Lists(Lists::Summarisation {
        texts: texts.collect(),
        human: matrix("summarisation.human", input.human)?,
        machine: matrix("summarisation.machine", input.machine)?,
    }))
}

/// Reads the vectors of a discrimination task.
pub(super) fn clsd(task: TaskType, input: ClsdVectors) -> Result<VectorInput, Fault> {
    of_task(task, TaskType::Clsd, "clsd")?;
    let distractors = matrix("clsd.distractors", input.distractors)?;
    let rows = input.counts.len();
    let mut same_as_target = vec![false; distractors.nrows()];
    for (i, row) in input.same_as_target.iter().enumerate() {
        match same_as_target.get_mut(*row as usize) {
            Some(same) => *same = true,
            None => {
                let message = format!("{row} is not a row of the {} distractors", distractors.nrows());
                return Err(Fault::invalid(format!("clsd.same_as_target[{i}]"), message));
            }
        }
    }
    let mut one_word = Vec::with_capacity(input.one_word.len());
    for (i, pair) in input.one_word.into_iter().enumerate() {
        if pair.row as usize >= rows || pair.distractor as usize >= distractors.nrows() {
            let message = format!(
                "names row {} of {rows} and distractor {} of {}, which do not exist",
                pair.row,
                pair.distractor,
                distractors.nrows()
            );
            return Err(Fault::invalid(format!("clsd.one_word[{i}]"), message));
        }
        one_word.push(OneWord {
            row: pair.row as usize,
            distractor: pair.distractor as usize,
            pos: (!pair.pos.is_empty()).then_some(pair.pos),
        });
    }
    Ok(VectorInput::Lists(Lists::Clsd {
        sources: matrix("clsd.sources", input.sources)?,
        targets: matrix("clsd.targets", input.targets)?,
        counts: sizes(&input.counts),
        distractors,
        same_as_target,
        one_word,
    }))
}

/// Reads the vectors of a graded-ranking task.
pub(super) fn graded(task: TaskType, input: GradedVectors) -> Result<VectorInput, Fault> {
    of_task(task, TaskType::GradedRanking, "graded")?;
    Ok(VectorInput::Lists(Lists::Graded {
        counts: sizes(&input.counts),
        anchors: matrix("graded.anchors", input.anchors)?,
        candidates: matrix("graded.candidates", input.candidates)?,
    }))
}

/// Reads the pair scores of a graded-ranking task.
pub(super) fn pair_scores(task: TaskType, input: ProtoPairScores) -> Result<VectorInput, Fault> {
    of_task(task, TaskType::GradedRanking, "pair_scores")?;
    Ok(VectorInput::Lists(Lists::PairScores {
        groups: input.groups.into_iter().map(|group| group.scores).collect(),
        threshold: input.threshold,
    }))
}
