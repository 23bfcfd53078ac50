//! Probes: pairs with a known rating, which the judge rates like any other pair. They show whether
//! it separates good rewrites from bad ones.
//!
//! A judge that gives every pair the same rating accepts all rewrites or none, and one that reads
//! its scale backwards accepts the wrong ones. A mean rating shows neither error. Therefore each
//! judged run rates three kinds of probes on the similarity scale: a text with itself, a text with
//! a paraphrase written by a person, and a text with an unrelated one. The judge must accept the
//! first two kinds and reject the third.

pub use isomer_report::terms::{ProbeKind, ProbeResult};

/// Texts with their paraphrases, written for this purpose. Each text is unrelated to all
/// paraphrases except its own.
const PAIRS: [(&str, &str); 16] = [
    (
        "The ferry to the island was cancelled because of strong winds.",
        "High winds meant that no ferry sailed to the island.",
    ),
    (
        "She repaired her grandfather's watch with parts from an old radio.",
        "Using pieces of an old radio, she got her grandfather's watch working again.",
    ),
    (
        "The council approved the new bicycle lanes by a narrow majority.",
        "A slim majority of the council voted for the new cycle paths.",
    ),
    (
        "Bread dough rises more slowly in a cold kitchen.",
        "When the kitchen is cold, dough takes longer to rise.",
    ),
    (
        "The orchestra lost its sponsor two weeks before the season began.",
        "A fortnight before opening the season, the orchestra's backer pulled out.",
    ),
    (
        "Most of the refund requests came from customers who had ordered twice.",
        "Customers who placed the same order two times made up the majority of those asking for their money back.",
    ),
    (
        "A retired teacher discovered the fossil while walking her dog.",
        "The fossil was found by a former schoolteacher out walking with her dog.",
    ),
    (
        "The patch fixes a crash that occurred when the disk was full.",
        "With this update the program no longer crashes if there is no disk space left.",
    ),
    (
        "He was allergic to peanuts and always carried an injection.",
        "Because peanuts made him ill, he never left home without his syringe.",
    ),
    (
        "The museum will stay open until midnight on the first Friday of each month.",
        "Every month, on its first Friday, visitors can stay in the museum until twelve at night.",
    ),
    (
        "Farmers in the valley are worried about the lack of rain.",
        "The dry weather is causing concern among the valley's farmers.",
    ),
    (
        "The goalkeeper saved two penalties in the final.",
        "In the final, two spot kicks were stopped by the keeper.",
    ),
    (
        "Her first novel sold fewer than three hundred copies.",
        "Not even three hundred people bought the book with which she began as a novelist.",
    ),
    (
        "The lift is out of order, so please use the stairs.",
        "Kindly walk up the stairs, as the elevator is not working.",
    ),
    (
        "Scientists measured the depth of the lake with sonar.",
        "Researchers used sonar to find out how deep the lake is.",
    ),
    (
        "Rents in the city centre have doubled within ten years.",
        "It costs twice as much to rent a flat downtown as it did a decade ago.",
    ),
];

/// Minimum share of the probes of each kind on which the judge must be right. A judge that rates at
/// random is right on 13 of 16 or more with a probability of 1.1 %, and on all three kinds with a
/// probability of about one in a million.
pub const LEAST_RIGHT: f64 = 0.8;

/// A pair with a known rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The kind of pair, which determines the right rating.
    pub kind: ProbeKind,
    pub original: &'static str,
    /// The text to compare with.
    pub beside: &'static str,
}

/// All probes, with kinds mixed so that no request has only one kind.
pub fn probes() -> Vec<Probe> {
    let n = PAIRS.len();
    (0..n)
        .flat_map(|i| {
            let (original, paraphrase) = PAIRS[i];
            // Half the list apart, because two neighbours may have a similar topic.
            let (_, unrelated) = PAIRS[(i + n / 2) % n];
            [
                (ProbeKind::Identical, original),
                (ProbeKind::Paraphrase, paraphrase),
                (ProbeKind::Unrelated, unrelated),
            ]
            .map(|(kind, beside)| Probe { kind, original, beside })
        })
        .collect()
}

/// A probe with the rating of a judge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeScore {
    pub(crate) probe: Probe,
    /// `None`: no rating.
    pub(crate) score: Option<f64>,
}

/// Counts, for each kind, the probes on which a judge with this acceptance threshold is right.
pub(crate) fn results(rated: &[ProbeScore], threshold: f64) -> Vec<ProbeResult> {
    ProbeKind::ALL
        .into_iter()
        .map(|kind| {
            let own: Vec<Option<f64>> = rated
                .iter()
                .filter(|one| one.probe.kind == kind)
                .map(|one| one.score)
                .collect();
            let right = own
                .iter()
                .flatten()
                .filter(|rating| (**rating >= threshold) == kind.acceptable());
            let known: Vec<f64> = own.iter().flatten().copied().collect();
            ProbeResult {
                kind,
                asked: own.len() as u64,
                right: right.count() as u64,
                mean: crate::stats::mean(&known),
            }
        })
        .collect()
}

/// The reason why a judge does not separate good pairs from bad ones; `None` if it does.
pub fn inseparable(results: &[ProbeResult]) -> Option<String> {
    let wrong: Vec<String> = results
        .iter()
        .filter(|one| one.asked == 0 || (one.right as f64) < LEAST_RIGHT * one.asked as f64)
        .map(|one| {
            let verb = if one.kind.acceptable() { "accepted" } else { "refused" };
            format!("{verb} {} of {} {}", one.right, one.asked, one.kind.title())
        })
        .collect();
    (!wrong.is_empty() || results.is_empty()).then(|| match wrong.is_empty() {
        true => "the judge was not tried with probes".to_owned(),
        false => format!(
            "the judge {}, where at least {:.0} % is needed",
            wrong.join(" and "),
            LEAST_RIGHT * 100.0
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn judged(judge: impl Fn(&Probe) -> Option<f64>) -> Option<String> {
        let score = |probe: Probe| ProbeScore {
            score: judge(&probe),
            probe,
        };
        let rated: Vec<ProbeScore> = probes().into_iter().map(score).collect();
        inseparable(&results(&rated, 3.0))
    }

    #[test]
    fn there_are_as_many_probes_of_each_kind_and_no_two_are_alike() {
        let all = probes();
        for kind in ProbeKind::ALL {
            assert_eq!(all.iter().filter(|probe| probe.kind == kind).count(), PAIRS.len());
        }
        let distinct: BTreeSet<(&str, &str)> = all.iter().map(|probe| (probe.original, probe.beside)).collect();
        assert_eq!(distinct.len(), all.len());
        for probe in all.iter().filter(|probe| probe.kind != ProbeKind::Identical) {
            assert_ne!(probe.original, probe.beside);
        }
    }

    #[test]
    fn a_judge_that_reads_meaning_is_accepted() {
        let good = |probe: &Probe| match probe.kind {
            ProbeKind::Identical => Some(5.0),
            ProbeKind::Paraphrase => Some(4.0),
            ProbeKind::Unrelated => Some(0.5),
        };
        assert_eq!(judged(good), None);
        // Three errors per kind are within the limit, but four are not.
        let slips = |most: usize| {
            let wrong: Vec<Probe> = probes()
                .into_iter()
                .filter(|probe| probe.kind == ProbeKind::Unrelated)
                .take(most)
                .collect();
            judged(move |probe| if wrong.contains(probe) { Some(5.0) } else { good(probe) })
        };
        assert_eq!(slips(3), None);
        let finding = slips(4).unwrap_or_default();
        assert!(finding.contains("refused 12 of 16 unrelated texts"), "{finding}");
    }

    #[test]
    fn constant_inverted_and_silent_judges_are_not() {
        let finding = |judge: fn(&Probe) -> Option<f64>| judged(judge).unwrap_or_default();
        assert!(finding(|_| Some(4.0)).contains("refused 0 of 16 unrelated texts"));
        assert!(finding(|_| Some(2.0)).contains("accepted 0 of 16 identical texts and accepted 0 of 16 paraphrases"));
        assert!(finding(|probe| Some(if probe.kind.acceptable() { 0.0 } else { 5.0 })).contains("refused 0 of 16"));
        assert!(finding(|_| None).contains("refused 0 of 16 unrelated"));
        // This judge accepts identical texts only: common words do not make a paraphrase.
        assert!(
            finding(|probe| Some(if probe.original == probe.beside { 5.0 } else { 1.0 }))
                .contains("paraphrases by people")
        );
        assert!(inseparable(&[]).is_some());
    }
}
