//! The profile with its intervals: items of the data sets, and the evidence of their scores from
//! the store.

use std::{
    cell::OnceCell,
    collections::{BTreeSet, HashMap},
};

use super::{grid, results::RunResults};
use crate::{
    change::Change,
    evidence::{
        Evidence,
        clusters::clusters,
        subset::{Mask, items_where},
    },
    gate::{
        Basis, BoundGate, BoundRule, ChanceLevels, ItemSequences, ItemStrata, Measure, Sequence, SubsetScores, Texts,
        Unit,
    },
    profile::{self, DatasetItems, DropShare, EncoderPair, Figure, Grid, RobustnessProfile, UnitItems, add_intervals},
    report::{Outcome, PairedComparison, PairedQuantity, PairedTexts, SubsetReport, paired_strata},
    run::{
        plan::{Layout, Variant, power::figure, table::Table},
        transform::TextResult,
        units::UnitStore,
    },
    search_form::SearchForm,
    stats::gate::items::Stratum,
};

/// A run's items; their evidence is read from the store of scores on demand.
pub(crate) struct ItemEvidence<'a> {
    results: &'a RunResults,
    units: &'a UnitStore,
    /// Every score.
    pub(crate) grid: Grid,
    addresses: Addresses<'a>,
    items: OnceCell<Vec<DatasetItems>>,
}

/// Addresses of the stored scores.
type Addresses<'a> = HashMap<(usize, usize, Variant), &'a str>;

impl<'a> ItemEvidence<'a> {
    /// Indexes the addresses of the measured scores.
    pub(crate) fn new(results: &'a RunResults, units: &'a UnitStore) -> Self {
        let addresses = results.scores.iter();
        Self {
            results,
            units,
            grid: grid::grid(&results.layout, &results.encoders, &results.scores),
            addresses: addresses
                .map(|one| ((one.encoder, one.table, one.variant), one.unit.as_str()))
                .collect(),
            items: OnceCell::new(),
        }
    }

    fn layout(&self) -> &'a Layout {
        &self.results.layout
    }

    /// Computes the profile.
    pub(crate) fn profile(&self) -> RobustnessProfile {
        let mut profile = profile::profile(&self.grid, self.results.manifest.baseline);
        add_intervals(&mut profile, &self.grid, self.items(), |encoder, table| {
            self.evidence(encoder, table)
        });
        profile
    }

    /// How much of each encoder's drop is left in its searches by terms.
    pub(crate) fn drop_shares(&self) -> Vec<DropShare> {
        let drops = profile::drops(&self.grid);
        let encoders = &self.results.encoders;
        let searches = (0..encoders.len()).filter_map(|e| Some((e, encoders.search(e)?)));
        let searches: Vec<(usize, SearchForm)> = searches.collect();
        let served = |search: &(usize, SearchForm)| encoders.served(search.0);
        let mut shares = Vec::new();
        for own in searches.chunk_by(|one, other| served(one) == served(other)) {
            let source = served(&own[0]);
            for (quantity, figure) in &drops {
                let dense = self.drop_strata(source, *figure);
                for (encoder, form) in own {
                    let both = dense.as_ref().map_err(String::clone).and_then(|dense| {
                        let form = self.drop_strata(*encoder, *figure)?;
                        profile::drop_share(dense, &form)
                    });
                    let interval = both.as_ref().ok().and_then(|ratio| ratio.interval);
                    let open = || "the drop of the vectors may be 0".to_owned();
                    shares.push(DropShare {
                        encoder: encoders.id(source).to_owned(),
                        form: form.to_string(),
                        quantity: quantity.clone(),
                        share: both.as_ref().ok().map(|ratio| ratio.estimate),
                        low: interval.map(|ends| ends.0),
                        high: interval.map(|ends| ends.1),
                        note: both.err().or_else(|| interval.is_none().then(open)),
                    });
                }
            }
        }
        shares
    }

    /// The drop of an encoder on the items of all data sets.
    fn drop_strata(&self, encoder: usize, figure: Figure) -> Result<Vec<Stratum>, String> {
        let datasets: Vec<usize> = (0..self.layout().tables.len()).collect();
        profile::strata(
            &self.grid,
            encoder,
            (figure, true),
            Texts::All,
            &datasets,
            self.items(),
            |table| self.evidence(encoder, table),
        )
    }

    /// The items of each data set.
    fn items(&self) -> &[DatasetItems] {
        self.items.get_or_init(|| {
            let tables = self.layout().tables.iter();
            tables.map(|table| items(self.results, table)).collect()
        })
    }

    /// The evidence of an encoder's scores on a data set.
    fn evidence(&self, encoder: usize, table: usize) -> Result<UnitItems, String> {
        let one = |variant: Variant| -> Result<Evidence, String> {
            let address = self.addresses.get(&(encoder, table, variant));
            address
                .and_then(|address| self.units.evidence(address))
                .ok_or_else(|| format!("no items are kept for {}", self.layout().describe(variant)))
        };
        let of_transformation = |transformation: usize| {
            (0..self.layout().suite.seeds.len())
                .map(|seed| one(Variant::Transformed { transformation, seed }))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(UnitItems {
            original: one(Variant::Original)?,
            transformed: (0..self.layout().transformations.len())
                .map(of_transformation)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The level of the original scores that rules compare, relative to those of permuted labels,
    /// for each judged encoder.
    pub(crate) fn levels(&self, gate: &BoundGate) -> ChanceLevels {
        let rules = gate.rules.iter().filter(|rule| rule.compares_scores());
        let datasets: BTreeSet<usize> = rules.flat_map(|rule| rule.datasets.iter().copied()).collect();
        let mut all = ChanceLevels::new();
        for &encoder in &gate.judged {
            for &table in &datasets {
                let address = self.addresses.get(&(encoder, table, Variant::Original));
                let chance = address.and_then(|address| self.units.evidence(address)?.chance());
                all.extend(chance.map(|chance| ((encoder, table), chance.level(gate.alpha))));
            }
        }
        all
    }

    /// Inputs of the gate's rules over items, for each judged encoder. Such rules are decided once,
    /// when the run is complete.
    pub(crate) fn of_rules(&self, gate: &BoundGate) -> ItemStrata {
        let mut all = ItemStrata::new();
        let counts = |rule: &BoundRule| rule.unit == Unit::Item && rule.basis != Basis::Betting;
        for &encoder in &gate.judged {
            for (r, rule) in gate.rules.iter().enumerate().filter(|(_, rule)| counts(rule)) {
                let Some(figure) = figure(rule) else { continue };
                if let Some(paired) = rule.rule.limit.paired() {
                    let found = with_baseline(gate, encoder).and_then(|both| self.paired(both, rule, paired, figure));
                    all.insert((encoder, r), found);
                    continue;
                }
                if rule.rule.limit.measure() == Measure::Difference {
                    let found = with_baseline(gate, encoder).and_then(|both| self.margin(both, rule, figure));
                    all.insert((encoder, r), found);
                    continue;
                }
                let found = known(self.results, rule).and_then(|texts| {
                    profile::strata(
                        &self.grid,
                        encoder,
                        (figure, rule.is_drop()),
                        texts,
                        &rule.datasets,
                        self.items(),
                        |table| self.evidence(encoder, table),
                    )
                });
                all.insert((encoder, r), found);
            }
        }
        all
    }

    /// The strata of the margin of an encoder to the baseline, over items.
    fn margin(&self, encoders: EncoderPair, rule: &BoundRule, figure: Figure) -> Result<Vec<Stratum>, String> {
        profile::margin_strata(
            &self.grid,
            encoders,
            figure,
            &rule.datasets,
            self.items(),
            |encoder, table| self.evidence(encoder, table),
        )
    }

    /// Inputs of a rule on items of an encoder and the baseline.
    fn paired(
        &self,
        encoders: EncoderPair,
        rule: &BoundRule,
        paired: PairedQuantity,
        figure: Figure,
    ) -> Result<Vec<Stratum>, String> {
        let outcome = |encoder: usize, table: usize, texts: PairedTexts| {
            let variant = match texts {
                None => Variant::Original,
                Some((transformation, seed)) => Variant::Transformed { transformation, seed },
            };
            let missing = || format!("no items are kept for {}", self.layout().describe(variant));
            let scored = self.results.scores.iter();
            let mut scored = scored.filter(|one| (one.encoder, one.table, one.variant) == (encoder, table, variant));
            let scored = scored.next().ok_or_else(missing)?;
            Ok(Outcome {
                task: self.layout().tables[table].dataset.task(),
                main_key: scored.score.main_key.clone(),
                evidence: self.units.evidence(&scored.unit),
                lists: self.units.lists(&scored.unit),
            })
        };
        let comparison = PairedComparison {
            encoders,
            quantity: paired,
            figure,
        };
        paired_strata(&self.grid, comparison, &rule.datasets, self.items(), outcome)
    }

    /// Inputs of the gate's rules decided by betting, for each judged encoder.
    pub(crate) fn sequences_of_rules(&self, gate: &BoundGate) -> ItemSequences {
        let mut all = ItemSequences::new();
        let rules = gate.rules.iter().enumerate();
        for (r, rule) in rules.filter(|(_, rule)| rule.basis == Basis::Betting) {
            let (Some(figure), &[d]) = (figure(rule), rule.datasets.as_slice()) else {
                continue;
            };
            let table = &self.layout().tables[d];
            let (texts, order) = (item_texts(table), table.dataset.order().unwrap_or_default());
            for &encoder in &gate.judged {
                let found = self
                    .evidence(encoder, d)
                    .and_then(|unit| profile::sequence(&self.grid, (figure, rule.is_drop()), order, &texts, &unit));
                let found = found.map(|(values, repeated)| Sequence {
                    values,
                    range: profile::range(&self.grid.tasks[d], rule.is_drop()),
                    repeated,
                });
                all.insert((encoder, r), found);
            }
        }
        all
    }

    /// Inputs of the gate's rules on a subset of the rewrites, for each judged encoder and the one
    /// that it is compared with.
    pub(crate) fn subsets_of_rules(&self, gate: &BoundGate) -> SubsetScores {
        let mut all = SubsetScores::new();
        let rules = gate.rules.iter().enumerate();
        for (r, rule) in rules.filter(|(_, rule)| rule.rule.texts != Texts::All) {
            let Some(figure) = figure(rule) else { continue };
            let compared = gate
                .baseline
                .filter(|_| rule.rule.limit.measure() == Measure::Difference);
            for encoder in gate.judged.iter().copied().chain(compared) {
                let of_dataset = |texts: Texts, d: usize| {
                    let unit = self.evidence(encoder, d);
                    let own = &self.items()[d];
                    unit.and_then(|unit| {
                        profile::subset_series(&self.grid, (figure, rule.is_drop()), texts, own, &unit)
                    })
                    .map_err(|why| format!("{}: {why}", self.grid.datasets[d]))
                };
                let found = known(self.results, rule)
                    .and_then(|texts| rule.datasets.iter().map(|d| of_dataset(texts, *d)).collect());
                all.insert((encoder, r), found);
            }
        }
        all
    }

    /// The profile on changed rewrites and, with a judge, on accepted ones.
    pub(crate) fn subset_reports(&self) -> Vec<SubsetReport> {
        let rows = |texts: Texts| {
            (0..self.results.encoders.len())
                .flat_map(|e| profile::subset_rows(&self.grid, e, texts, self.items(), |d| self.evidence(e, d)))
                .collect::<Vec<_>>()
        };
        let mut all = vec![SubsetReport {
            texts: Texts::Changed,
            accept: None,
            refused: None,
            rows: rows(Texts::Changed),
        }];
        if let Some(ratings) = &self.results.ratings {
            let refused = ratings.refusal();
            all.push(SubsetReport {
                texts: Texts::Accepted,
                accept: Some(ratings.judge.judging.accept),
                rows: match refused {
                    None => rows(Texts::Accepted),
                    Some(_) => Vec::new(),
                },
                refused,
            });
        }
        all
    }
}

fn with_baseline(gate: &BoundGate, encoder: usize) -> Result<EncoderPair, String> {
    let baseline = gate.baseline;
    let baseline = baseline.ok_or_else(|| "no baseline encoder was named".to_owned())?;
    Ok(EncoderPair { encoder, baseline })
}

/// The rewrites that a rule covers, or the reason why they are unknown.
fn known(results: &RunResults, rule: &BoundRule) -> Result<Texts, String> {
    match (rule.rule.texts, results.ratings_refusal()) {
        (Texts::Accepted, Some(why)) => Err(format!("it is not known which rewrites are accepted: {why}")),
        (texts, _) => Ok(texts),
    }
}

fn items(results: &RunResults, table: &Table) -> DatasetItems {
    let (layout, texts) = (&results.layout, table.dataset.item_texts());
    // The items all of whose transformed texts pass a test, which receives the number of the
    // original and its result.
    let chosen = |t: usize, s: usize, test: &dyn Fn(u32, &TextResult) -> bool| -> Mask {
        let planned = &layout.transformations[t];
        let requests = table.requests.of(planned);
        let request = |text: u32| requests.get(text as usize).copied().flatten();
        let transformed: Vec<Vec<u32>> = texts
            .iter()
            .map(|own| own.iter().copied().filter(|text| request(*text).is_some()).collect())
            .collect();
        items_where(transformed.iter().map(Vec::as_slice), |text| {
            request(text).is_some_and(|request| {
                let original = layout.requests.of(planned)[request].text;
                let result = results.text_results.get(t, s, request);
                result.is_some_and(|result| test(original, result))
            })
        })
    };
    let each = |mask: &dyn Fn(usize, usize) -> Mask| -> Vec<Vec<Mask>> {
        let of_transformation = |t: usize| (0..layout.suite.seeds.len()).map(|s| mask(t, s)).collect();
        (0..layout.transformations.len()).map(of_transformation).collect()
    };
    let ratings = results.ratings.as_ref().filter(|ratings| ratings.refusal().is_none());
    DatasetItems {
        clusters: clusters(item_texts(table)),
        changed: each(&|t, s| chosen(t, s, &|_, result| result.change != Change::Unchanged)),
        accepted: ratings.map_or_else(Vec::new, |ratings| {
            each(&|t, s| {
                chosen(t, s, &|original, result| {
                    ratings.accepts(t, (original, result.text)) == Some(true)
                })
            })
        }),
    }
}

/// The numbers of each item's texts: equal texts have equal numbers.
pub(crate) fn item_texts(table: &Table) -> Vec<Vec<u32>> {
    let numbers = |own: Vec<u32>| {
        own.iter()
            .filter_map(|text| table.texts.get(*text as usize).copied())
            .collect()
    };
    table.dataset.item_texts().into_iter().map(numbers).collect()
}
