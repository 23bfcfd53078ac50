//! Interleaving by simulation: clicks by place alone prefer neither, intervals hold as often as
//! they claim, and the better list is preferred.

use isomer_index::compare::{
    Query, Resampling,
    interleave::{Draft, DraftSettings, Event, Team, drafts, preference},
};
use isomer_stats::random::{below, stream, uniform};

const RESAMPLING: Resampling = Resampling {
    resamples: 400,
    level: 0.95,
    seed: 3,
};
const K: usize = 6;

fn queries(count: usize) -> Vec<Query> {
    (0..count)
        .map(|id| Query {
            id: format!("q{id}"),
            text: format!("query {id}"),
        })
        .collect()
}

/// A ranking of `d0` to `d11`, drawn.
fn ranking(seed: u64, number: usize) -> Vec<String> {
    let mut rng = stream(seed, number);
    let mut order: Vec<usize> = (0..12).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, below(&mut rng, last + 1));
    }
    order
        .into_iter()
        .take(K)
        .map(|document| format!("d{document}"))
        .collect()
}

/// Clicks of people who look at places with the chance 1/place, and click there with the given
/// chance.
fn clicks(drafts: &[Draft], seed: u64, chance: impl Fn(&str) -> f64) -> Vec<Event> {
    let mut events = Vec::new();
    for (number, draft) in drafts.iter().enumerate() {
        let event = |document| Event {
            impression: draft.impression.clone(),
            document,
        };
        events.push(event(None));
        let mut rng = stream(seed ^ 0x5EED, number);
        for (place, (document, _)) in draft.documents.iter().enumerate() {
            if uniform(&mut rng) < chance(document) / (place + 1) as f64 {
                events.push(event(Some(document.clone())));
            }
        }
    }
    events
}

fn settings(impressions: usize, seed: u64) -> DraftSettings {
    DraftSettings {
        k: K,
        impressions,
        seed,
    }
}

/// Lists of both sides, drafted and clicked on by place alone.
fn by_place(seed: u64, count: usize, same: bool) -> (Vec<Draft>, Vec<Event>) {
    let queries = queries(count);
    let a: Vec<_> = (0..count).map(|n| ranking(seed, n)).collect();
    let b: Vec<_> = if same {
        a.clone()
    } else {
        (0..count).map(|n| ranking(seed + 1_000, n)).collect()
    };
    let drafts = drafts(&queries, &a, &b, settings(1, seed));
    let events = clicks(&drafts, seed, |_| 0.8);
    (drafts, events)
}

#[test]
fn people_who_click_by_place_alone_prefer_neither() {
    for same in [true, false] {
        let (drafts, events) = by_place(11, 6_000, same);
        let found = preference(&drafts, &events, RESAMPLING).unwrap();
        // Standard error below 0.5 / sqrt(6000) = 0.0065.
        assert!(found.delta.mean.abs() < 0.02, "{found:?}");
        assert_eq!(found.wins.iter().sum::<usize>(), 6_000);
        // The same clicks on lists that A always heads prefer A: the test can fail.
        let mut headed = drafts;
        for draft in &mut headed {
            for (place, (_, team)) in draft.documents.iter_mut().enumerate() {
                *team = if place % 2 == 0 { Team::A } else { Team::B };
            }
        }
        let biased = preference(&headed, &events, RESAMPLING).unwrap();
        assert!(biased.delta.interval.unwrap().1 < -0.1, "{biased:?}");
    }
}

#[test]
fn intervals_hold_nothing_as_often_as_they_say() {
    let mut held = 0;
    for seed in 0..200 {
        let (drafts, events) = by_place(seed * 17, 80, false);
        let (low, high) = preference(&drafts, &events, RESAMPLING)
            .unwrap()
            .delta
            .interval
            .unwrap();
        held += usize::from(low <= 0.0 && 0.0 <= high);
    }
    // 95 % of 200 is 190, with a standard deviation of 3.1.
    assert!(held >= 180, "{held} of 200");
}

#[test]
fn people_who_click_on_what_is_relevant_prefer_the_list_that_has_it_first() {
    let queries = queries(400);
    // d0 is relevant: B has it first, A last.
    let list = |order: [usize; 6]| order.map(|document| format!("d{document}")).to_vec();
    let a = vec![list([1, 2, 3, 4, 5, 0]); 400];
    let b = vec![list([0, 6, 7, 8, 9, 10]); 400];
    let drafts = drafts(&queries, &a, &b, settings(2, 5));
    assert_eq!(drafts.len(), 800);
    let events = clicks(&drafts, 9, |document| if document == "d0" { 0.9 } else { 0.05 });
    let found = preference(&drafts, &events, RESAMPLING).unwrap();
    assert!(found.delta.interval.unwrap().0 > 0.1, "{found:?}");
    // A list that nobody was shown is not a tie.
    let some: Vec<Event> = events
        .into_iter()
        .filter(|event| event.impression.ends_with("/0"))
        .collect();
    let found = preference(&drafts, &some, RESAMPLING).unwrap();
    assert_eq!((found.shown, found.unseen), (400, 400));
}

#[test]
fn a_log_of_other_lists_is_refused() {
    let (drafts, _) = by_place(1, 3, false);
    let event = |impression: &str, document: Option<&str>| Event {
        impression: impression.to_owned(),
        document: document.map(str::to_owned),
    };
    let told = |events: &[Event]| preference(&drafts, events, RESAMPLING).unwrap_err().to_string();
    assert!(told(&[]).contains("the log is empty"));
    assert!(told(&[event("q9/0", None)]).contains("no list `q9/0`"));
    assert!(told(&[event("q1/0", Some("d99"))]).contains("no document `d99`"));
    // A click twice is one click.
    let document = drafts[0].documents[0].clone();
    let twice = [event("q0/0", Some(&document.0)), event("q0/0", Some(&document.0))];
    let found = preference(&drafts, &twice, RESAMPLING).unwrap();
    assert_eq!(found.wins[usize::from(document.1 == Team::B)], 1);
}
