//! Summarisation: human and machine summaries of texts, with human ratings of the machine
//! summaries.

use std::collections::BTreeMap;

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{Profile, ScoreError, Scores, TaskType};
use crate::{
    evidence::{Evidence, correlations_within},
    metric::{
        Similarity,
        matrix::Rows,
        summarisation::{self, Average, Ratings},
    },
};

/// One text: its number of human summaries, and the relevance of each machine summary.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SummarisedText {
    /// Number of human summaries, at least one.
    pub human: usize,
    /// Relevance of each machine summary, finite.
    pub relevance: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
pub struct SummarisationInput<'a> {
    /// Human summaries of all texts, one text after another.
    pub human: ArrayView2<'a, f32>,
    /// Machine summaries of all texts.
    pub machine: ArrayView2<'a, f32>,
    pub texts: &'a [SummarisedText],
}

/// Scores summarisation. `mteb-v2` averages a correlation per text, `mteb-v1` averages the
/// correlations together with their p-values (like the first leaderboard), and `hteb` takes one
/// correlation over all texts. See [`crate::metric::summarisation`].
///
/// # Errors
/// If vectors do not match the texts, there are no texts, a text has no human summaries, a
/// similarity is not a number, or every text is left out because its relevance is constant.
pub fn score_summarisation(
    input: &SummarisationInput<'_>,
    own: Similarity,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let task = TaskType::Summarisation;
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    check(input, main_key)?;
    let mut starts = Vec::with_capacity(input.texts.len());
    let (mut human, mut machine) = (0, 0);
    for text in input.texts {
        starts.push((human, machine));
        human += text.human;
        machine += text.relevance.len();
    }
    let (human, machine) = (Rows::new(input.human), Rows::new(input.machine));
    let ratings: Vec<Ratings> = starts
        .par_iter()
        .zip(input.texts)
        .map(|((first_human, first_machine), text)| {
            let humans: Vec<&[f32]> = (*first_human..first_human + text.human)
                .map(|row| human.row(row))
                .collect();
            let machines = (*first_machine..first_machine + text.relevance.len()).map(|row| machine.row(row));
            Ratings::new(&humans, machines, &text.relevance, own)
        })
        .collect();
    if let Some(index) = ratings.iter().position(Ratings::unsound) {
        return Err(ScoreError::Item {
            what: "texts",
            index,
            problem: "the similarity of a machine summary and a human one is not a number".to_owned(),
        });
    }
    let undefined = |reason: String| ScoreError::Undefined {
        metric: main_key,
        reason,
    };
    let average = match profile {
        Profile::MtebV1 => Average::StatisticAndP,
        Profile::MtebV2 | Profile::Hteb => Average::Statistic,
    };
    let per_text = summarisation::per_text(&ratings, average);
    let all = match (profile, &per_text) {
        (Profile::Hteb, _) => summarisation::pooled(&ratings).map_err(|e| ScoreError::undefined(main_key, &e))?,
        (_, Some((all, _))) => all.clone(),
        (_, None) => {
            let reason = format!(
                "in each of the {} texts all relevances, or all similarities, are equal",
                ratings.len()
            );
            return Err(undefined(reason));
        }
    };
    let items = per_text.map(|(_, values)| values).unwrap_or_default();
    let evidence = evidence(&ratings, &items, average, profile);
    let scores = Scores::new(main_key, all, input.texts.len())?.with_items(items);
    Ok(scores.with_evidence(evidence))
}

/// One correlation per text, or (HTEB) the points of one correlation over all texts.
fn evidence(ratings: &[Ratings], items: &BTreeMap<String, Vec<f64>>, average: Average, profile: Profile) -> Evidence {
    if profile == Profile::Hteb {
        return Evidence::Spearman {
            gold: ratings.iter().flat_map(|text| text.gold.iter().copied()).collect(),
            // Cosines are f32, so widening them loses nothing.
            predicted: ratings
                .iter()
                .flat_map(|text| text.cosine.iter().map(|v| *v as f32))
                .collect(),
            points: ratings
                .iter()
                .map(|text| u32::try_from(text.gold.len()).unwrap_or(u32::MAX))
                .collect(),
        };
    }
    let correlations = items.get("cosine_spearman").map_or(&[][..], Vec::as_slice);
    let values: Vec<f64> = ratings
        .iter()
        .zip(correlations)
        // NaN: the text is left out.
        .map(|(text, r)| if r.is_nan() { *r } else { average.value(*r, text.gold.len()) })
        .collect();
    let groups = ratings.iter().map(|text| (text.gold.as_slice(), &text.cosine));
    Evidence::mean(&values, None).with_chance(Some(correlations_within(groups)))
}

fn check(input: &SummarisationInput<'_>, main_key: &'static str) -> Result<(), ScoreError> {
    if input.texts.is_empty() {
        return Err(ScoreError::none(main_key, "texts"));
    }
    for (index, text) in input.texts.iter().enumerate() {
        let problem = match text {
            _ if text.human == 0 => "it has no human summary".to_owned(),
            _ if text.relevance.is_empty() => "it has no machine summary".to_owned(),
            _ => match text.relevance.iter().find(|r| !r.is_finite()) {
                Some(relevance) => format!("a relevance is {relevance}"),
                None => continue,
            },
        };
        return Err(ScoreError::Item {
            what: "texts",
            index,
            problem,
        });
    }
    ScoreError::rows(
        "human summaries",
        input.texts.iter().map(|t| t.human).sum(),
        input.human.nrows(),
    )?;
    let machine = input.texts.iter().map(|t| t.relevance.len()).sum();
    ScoreError::rows("machine summaries", machine, input.machine.nrows())?;
    ScoreError::widths("machine summaries", input.human, input.machine)
}
