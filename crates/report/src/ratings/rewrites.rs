//! The rewrites that a judge was asked about, and the order in which people rate them.

use std::collections::HashMap;

use super::{JudgedRun, RatingsError};
use crate::{JudgeReport, JudgedRewrite, terms::Scale};

pub(super) struct Rewrite<'a> {
    /// Names transformation and texts, in every run alike.
    pub(super) id: String,
    pub(super) original: &'a str,
    pub(super) text: &'a str,
    /// The judge's ratings, and drift.
    pub(super) judged: &'a JudgedRewrite,
    /// The judge's rating on the scale.
    pub(super) rating: Option<f64>,
    /// Whether the judge accepts it; without a rating it does not.
    pub(super) accepted: bool,
}

/// All rewrites of a run.
pub(super) struct Population<'a> {
    pub(super) judge: &'a JudgeReport,
    pub(super) scale: Scale,
    /// Lowest rating of a faithful rewrite.
    pub(super) accept: f64,
    /// The rewrites in a random order that follows from the run's seed and the ids.
    pub(super) rewrites: Vec<Rewrite<'a>>,
}

impl<'a> Population<'a> {
    pub(super) fn of(run: JudgedRun<'a>, scale: Scale, accept: Option<f64>) -> Result<Self, RatingsError> {
        let judge = run
            .report
            .judge
            .as_ref()
            .ok_or_else(|| RatingsError::Run("it has no judge; check with --judge".to_owned()))?;
        if !judge.scales.iter().any(|one| one.scale == scale) {
            let known: Vec<&str> = judge.scales.iter().map(|one| one.scale.name()).collect();
            return Err(RatingsError::Scale {
                scale: scale.name(),
                known: known.join(", "),
            });
        }
        if let Some(why) = run.items.mismatch(run.report) {
            return Err(RatingsError::Run(format!("its items cannot be used: {why}")));
        }
        if run.items.judged.is_empty() {
            let why = match &run.items.texts_left_out {
                Some(why) => why.clone(),
                None => "check again with this version: texts and ratings come from the caches".to_owned(),
            };
            return Err(RatingsError::Run(format!(
                "its items lack the rewrites that the judge rated: {why}"
            )));
        }
        let accept = threshold(judge, scale, accept)?;
        let mut rewrites = run
            .items
            .judged
            .iter()
            .map(|judged| rewrite(run, judged, (scale, accept)))
            .collect::<Result<Vec<_>, _>>()?;
        let seed = judge.seed.to_le_bytes();
        rewrites.sort_by_cached_key(|one| digest(&[&seed, one.id.as_bytes()]));
        Ok(Self {
            judge,
            scale,
            accept,
            rewrites,
        })
    }

    /// Positions of the rewrites by id.
    pub(super) fn positions(&self) -> HashMap<&str, usize> {
        let all = self.rewrites.iter().enumerate();
        all.map(|(position, one)| (one.id.as_str(), position)).collect()
    }

    /// Positions of the rewrites that the judge accepts, and of the others, in order.
    pub(super) fn strata(&self) -> [Vec<usize>; 2] {
        let of = |accepted: bool| {
            let all = self.rewrites.iter().enumerate();
            all.filter(|(_, one)| one.accepted == accepted)
                .map(|(position, _)| position)
                .collect()
        };
        [of(true), of(false)]
    }
}

fn rewrite<'a>(
    run: JudgedRun<'a>,
    judged: &'a JudgedRewrite,
    (scale, accept): (Scale, f64),
) -> Result<Rewrite<'a>, RatingsError> {
    let text = |number: u32| {
        let text = run.items.texts.get(number as usize);
        text.map(String::as_str)
            .ok_or_else(|| RatingsError::Run("its items lack a text of a rewrite".to_owned()))
    };
    let (original, rewritten) = (text(judged.original)?, text(judged.rewrite)?);
    let digest = digest(&[
        judged.transformation.as_bytes(),
        original.as_bytes(),
        rewritten.as_bytes(),
    ]);
    let rating = judged.ratings.get(&scale).copied();
    Ok(Rewrite {
        // A spreadsheet reads neither a number nor a date into it.
        id: format!("rewrite-{}", &digest[..16]),
        original,
        text: rewritten,
        judged,
        rating,
        accepted: rating.is_some_and(|rating| rating >= accept),
    })
}

fn threshold(judge: &JudgeReport, scale: Scale, accept: Option<f64>) -> Result<f64, RatingsError> {
    let (low, high) = scale.range();
    let own = judge.accept.filter(|_| scale == Scale::Similarity);
    let accept = accept.or(own).unwrap_or(Scale::ACCEPT);
    if accept > f64::from(low) && accept <= f64::from(high) {
        return Ok(accept);
    }
    Err(RatingsError::Option {
        option: "accept",
        given: accept.to_string(),
        accepted: format!("a rating above {low} and at most {high}"),
    })
}

/// A digest in hexadecimal digits of parts that cannot run into each other.
fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}
