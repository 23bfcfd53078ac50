//! Team-draft interleaving (F. Radlinski, M. Kurup and T. Joachims, "How does clickthrough data
//! reflect retrieval quality?", CIKM 2008). Two lists are merged into one, people click on it, and
//! a click counts for the list that contributed the document.
//!
//! The two teams take turns in an order that a coin decides for each round, so that neither is
//! ranked higher by design. People who click at random, or only by position, prefer neither. Each
//! impression is drafted separately; a list that is shown repeatedly would keep the coins of its
//! draft.

use std::collections::{HashMap, HashSet};

use isomer_stats::random::{below, stream};

use super::{
    Query,
    estimate::{Estimate, Resampling, clusters_of, estimate},
};
use crate::error::{IndexError, Result};

/// The collection that contributed a document to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Team {
    /// The first.
    A,
    /// The second.
    B,
}

/// A list to be shown once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its id in the log.
    pub impression: String,
    pub query: String,
    /// Documents, best first, with their teams.
    pub documents: Vec<(String, Team)>,
}

/// The settings of [`drafts`].
#[derive(Debug, Clone, Copy)]
pub struct DraftSettings {
    /// Documents of a list.
    pub k: usize,
    /// Lists of each query.
    pub impressions: usize,
    pub seed: u64,
}

/// Drafts for every query. `first` and `second` contain a list for each
/// query.
pub fn drafts(queries: &[Query], first: &[Vec<String>], second: &[Vec<String>], settings: DraftSettings) -> Vec<Draft> {
    let mut all = Vec::with_capacity(queries.len() * settings.impressions);
    for ((query, a), b) in queries.iter().zip(first).zip(second) {
        for number in 0..settings.impressions {
            let coins = &mut coins(settings.seed, all.len());
            all.push(Draft {
                impression: format!("{}/{number}", query.id),
                query: query.id.clone(),
                documents: team_draft(a, b, settings.k, coins),
            });
        }
    }
    all
}

/// Coins of a draft: `true` lets A pick first.
fn coins(seed: u64, draft: usize) -> impl FnMut() -> bool {
    let mut rng = stream(seed, draft);
    move || below(&mut rng, 2) == 0
}

/// Merges two lists. Where a coin is needed, it decides which team picks first.
fn team_draft(a: &[String], b: &[String], k: usize, coin: &mut impl FnMut() -> bool) -> Vec<(String, Team)> {
    let mut list: Vec<(String, Team)> = Vec::with_capacity(k);
    let mut taken: HashSet<&str> = HashSet::new();
    let (mut of_a, mut of_b) = (a.iter(), b.iter());
    let mut next = |team: Team, taken: &mut HashSet<&str>| -> Option<String> {
        let own = match team {
            Team::A => &mut of_a,
            Team::B => &mut of_b,
        };
        own.find(|document| !taken.contains(document.as_str())).cloned()
    };
    // A round gives each team one pick, so that no team is ahead by more than one.
    while list.len() < k {
        let order = if coin() { [Team::A, Team::B] } else { [Team::B, Team::A] };
        let before = list.len();
        for team in order {
            if list.len() == k {
                break;
            }
            if let Some(document) = next(team, &mut taken) {
                let known = a.iter().chain(b).find(|own| **own == document);
                taken.extend(known.map(String::as_str));
                list.push((document, team));
            }
        }
        if list.len() == before {
            break;
        }
    }
    list
}

/// A line of the log: a list that was shown, or a click on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The id of the list.
    pub impression: String,
    /// The document clicked on; `None`: the list was shown.
    pub document: Option<String>,
}

/// The result of the clicks.
#[derive(Debug, Clone, PartialEq)]
pub struct Preference {
    /// Number of lists in the log.
    pub shown: usize,
    /// Number of lists that are not in the log.
    pub unseen: usize,
    /// Number of lists with more clicks for A, with more for B, and with equally many (including
    /// none).
    pub wins: [usize; 3],
    /// Share of the lists that B wins, with ties as half, minus one half (Δ of O. Chapelle, T.
    /// Joachims, F. Radlinski and Y. Yue, "Large-scale validation and analysis of interleaved
    /// search evaluation", ACM TOIS 30, 2012). Above 0, people prefer B. Lists of one query are
    /// drawn together.
    pub delta: Estimate,
}

/// Evaluates a log against the drafted lists.
///
/// # Errors
/// If an event names a list that was not drafted, or a document that is not in its list (the log
/// then belongs to other lists), or if the log is empty.
pub fn preference(drafts: &[Draft], events: &[Event], resampling: Resampling) -> Result<Preference> {
    let refused = |message: String, hint| IndexError::Setting {
        field: "clicks",
        message,
        hint,
    };
    let known: HashMap<&str, &Draft> = drafts.iter().map(|draft| (draft.impression.as_str(), draft)).collect();
    // By list: the clicked documents, without duplicates.
    let mut clicked: HashMap<&str, HashSet<&str>> = HashMap::new();
    for event in events {
        let draft = known.get(event.impression.as_str()).ok_or_else(|| {
            refused(
                format!("there is no list `{}`", event.impression),
                "give the lists that were shown",
            )
        })?;
        let own = clicked.entry(draft.impression.as_str()).or_default();
        if let Some(document) = &event.document {
            let there = draft.documents.iter().find(|(own, _)| own == document);
            let (document, _) = there.ok_or_else(|| {
                refused(
                    format!("the list `{}` has no document `{document}`", event.impression),
                    "give the lists that were shown",
                )
            })?;
            own.insert(document);
        }
    }
    if clicked.is_empty() {
        return Err(refused(
            "the log is empty".to_owned(),
            "write a line for each list that is shown, and one for each click",
        ));
    }
    let (mut wins, mut values, mut queries) = ([0; 3], Vec::new(), Vec::new());
    for draft in drafts {
        let Some(clicks) = clicked.get(draft.impression.as_str()) else {
            continue;
        };
        let count = |team: Team| {
            let own = draft.documents.iter();
            own.filter(|(document, of)| *of == team && clicks.contains(document.as_str()))
                .count()
        };
        let (at, value) = match count(Team::A).cmp(&count(Team::B)) {
            std::cmp::Ordering::Greater => (0, -0.5),
            std::cmp::Ordering::Less => (1, 0.5),
            std::cmp::Ordering::Equal => (2, 0.0),
        };
        wins[at] += 1;
        values.push(value);
        queries.push(Query {
            id: draft.query.clone(),
            text: draft.query.clone(),
        });
    }
    Ok(Preference {
        shown: values.len(),
        unseen: drafts.len() - values.len(),
        wins,
        delta: estimate(&values, &clusters_of(&queries), (-0.5, 0.5), resampling),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_takes_turns_and_has_each_document_once() {
        let list = |names: &str| names.chars().map(String::from).collect::<Vec<String>>();
        let (a, b) = (list("abcd"), list("cbxy"));
        let mut turn = false;
        let mut coin = || {
            turn = !turn;
            turn
        };
        // A first: a, then B's c; B first: b, then A's d; A has no more documents, so B continues.
        let found = team_draft(&a, &b, 6, &mut coin);
        let names: String = found.iter().map(|(document, _)| document.as_str()).collect();
        let teams: Vec<Team> = found.iter().map(|(_, team)| *team).collect();
        assert_eq!(names, "acbdxy");
        assert_eq!(teams, [Team::A, Team::B, Team::B, Team::A, Team::B, Team::B]);
        assert_eq!(team_draft(&a, &b, 1, &mut coin).len(), 1);
        assert!(team_draft(&[], &[], 5, &mut coin).is_empty());
    }
}
