//! Decisions that are right with one encoder and wrong with the other.

use super::{Flips, Right, ScoredItems};
use crate::stats::{mcnemar_exact, sign_test};

/// Decisions of a data set under a variant.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    decisions: u64,
    right: [u64; 2],
    negative: u64,
    positive: u64,
    /// Positive minus negative flips of each cluster.
    net: Vec<i64>,
    /// Whether each cluster contains a single decision.
    single: bool,
}

/// Counts the decisions of a variant's seeds. `None` if they do not match the items.
pub(super) fn tally(
    right: &[Right; 2],
    old: &[ScoredItems<'_>],
    new: &[ScoredItems<'_>],
    clusters: &[u32],
) -> Option<Tally> {
    let count = clusters.iter().max().map_or(0, |last| *last as usize + 1);
    let mut tally = Tally {
        net: vec![0; count],
        ..Tally::default()
    };
    let mut decisions = vec![0_u32; count];
    for (old, new) in old.iter().zip(new) {
        let (old, new) = (right[0].of(*old)?, right[1].of(*new)?);
        if old.len() != clusters.len() || new.len() != clusters.len() {
            return None;
        }
        for ((old, new), cluster) in old.into_iter().zip(new).zip(clusters) {
            let (Some(old), Some(new)) = (old, new) else { continue };
            let cluster = *cluster as usize;
            tally.decisions += 1;
            decisions[cluster] += 1;
            tally.right[0] += u64::from(old);
            tally.right[1] += u64::from(new);
            tally.negative += u64::from(old && !new);
            tally.positive += u64::from(new && !old);
            tally.net[cluster] += i64::from(new) - i64::from(old);
        }
    }
    tally.single = decisions.iter().all(|own| *own <= 1);
    Some(tally)
}

/// The flips of several data sets, with their decisions added up.
pub(super) fn summary(tallies: &[&Tally]) -> Flips {
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(|one| of(one)).sum::<u64>();
    let (negative, positive) = (sum(|one| one.negative), sum(|one| one.positive));
    let (p, test) = if tallies.iter().all(|one| one.single) {
        (mcnemar_exact(negative, positive), "McNemar's exact test".to_owned())
    } else {
        let nets = tallies.iter().flat_map(|one| one.net.iter().copied());
        (
            sign_test(nets),
            "sign test over clusters of items that share a text, seeds together".to_owned(),
        )
    };
    Flips {
        decisions: sum(|one| one.decisions),
        old_right: sum(|one| one.right[0]),
        new_right: sum(|one| one.right[1]),
        negative,
        positive,
        p,
        test,
        datasets: tallies.len(),
    }
}
