//! Team-draft interleaving (F. Radlinski, M. Kurup and T. Joachims, "How does clickthrough data
//! reflect retrieval quality?", CIKM 2008): two lists become one, people click on it, and a click
//! counts for the list that put the document there.
//!
//! The two teams take turns in an order that a coin decides for each round, so that neither stands
//! higher by design: people who click at random, or by place alone, prefer neither. Each impression
//! is drafted by itself; a list that is shown again and again would keep the coins of its draft.

use std::collections::{HashMap, HashSet};

use isomer_stats::random::{below, stream};

use super::{
    Query,
    estimate::{Estimate, Resampling, clusters_of, estimate},
};
use crate::error::{IndexError, Result};

/// Which collection put a document into a list.
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
    /// Names it in the log.
    pub impression: String,
    /// The query.
    pub query: String,
    /// Documents, best first, with their teams.
    pub documents: Vec<(String, Team)>,
}

/// Drafts of every query, `impressions` of each. `first` and `second` hold a list for each query.
pub fn drafts(
    queries: &[Query],
    first: &[Vec<String>],
    second: &[Vec<String>],
    (k, impressions, seed): (usize, usize, u64),
) -> Vec<Draft> {
    let mut all = Vec::with_capacity(queries.len() * impressions);
    for ((query, a), b) in queries.iter().zip(first).zip(second) {
        for number in 0..impressions {
            let coins = &mut coins(seed, all.len());
            all.push(Draft {
                impression: format!("{}/{number}", query.id),
                query: query.id.clone(),
                documents: team_draft(a, b, k, coins),
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

/// One list of two. Where a coin is asked for, it decides which team picks first.
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
    /// The list.
    pub impression: String,
    /// The document clicked on; `None`: the list was shown.
    pub document: Option<String>,
}

/// What clicks say.
#[derive(Debug, Clone, PartialEq)]
pub struct Preference {
    /// Lists in the log.
    pub shown: usize,
    /// Lists that the log does not have.
    pub unseen: usize,
    /// Lists with more clicks for A, for B, and with as many for both (none included).
    pub wins: [usize; 3],
    /// Share of the lists that B wins, ties as half, less a half (Δ of O. Chapelle, T. Joachims,
    /// F. Radlinski and Y. Yue, "Large-scale validation and analysis of interleaved search
    /// evaluation", ACM TOIS 30, 2012): above 0 people prefer B. Lists of one query are drawn
    /// together.
    pub delta: Estimate,
}

/// Reads a log against the lists that were drafted.
///
/// # Errors
/// If an event names a list that was not drafted, or a document that its list does not have: then
/// the log is of other lists; or if the log is empty.
pub fn preference(drafts: &[Draft], events: &[Event], resampling: Resampling) -> Result<Preference> {
    let refused = |message: String, hint| IndexError::Setting {
        field: "clicks",
        message,
        hint,
    };
    let known: HashMap<&str, &Draft> = drafts.iter().map(|draft| (draft.impression.as_str(), draft)).collect();
    // By list: the documents clicked on, each once.
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
        // A first: a, then B's c; B first: b, then A's d; A has no more, B goes on.
        let found = team_draft(&a, &b, 6, &mut coin);
        let names: String = found.iter().map(|(document, _)| document.as_str()).collect();
        let teams: Vec<Team> = found.iter().map(|(_, team)| *team).collect();
        assert_eq!(names, "acbdxy");
        assert_eq!(teams, [Team::A, Team::B, Team::B, Team::A, Team::B, Team::B]);
        assert_eq!(team_draft(&a, &b, 1, &mut coin).len(), 1);
        assert!(team_draft(&[], &[], 5, &mut coin).is_empty());
    }
}
