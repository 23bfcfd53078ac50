//! Loads a dataset from a source.

use std::collections::BTreeMap;

use super::{
    Dataset, DatasetError, DatasetText, Labels, LoadOptions, RowAudit, Source, clsd, digest,
    files::Files,
    labelled,
    layout::{self, Chosen},
    lists, pairs, retrieval,
    row::Row,
    rows::Rows,
    sample::{self, Draw, Drawn, Picked, Strata, Stratum},
    sides::{self, Sides},
};
use isomer_scoring::task::{EXPERIMENTS, SAMPLES_PER_LABEL, TaskType};

/// The result of reading a task's rows.
#[derive(Default)]
struct Read {
    notes: Vec<String>,
    measures: BTreeMap<String, f64>,
    drawn: Drawn,
}

/// Loads a dataset and validates every row. A source on the hub or in the catalogue must have been
/// located before.
///
/// # Errors
/// If the source is missing, a split or language is missing or must be chosen, a row is broken (the
/// error names file, line and field), or the main metric is undefined on the data (constant gold
/// scores, a single class).
pub fn load(task: TaskType, source: &Source, options: &LoadOptions) -> Result<Dataset, DatasetError> {
    if options.limit == Some(0) || options.train_limit == Some(0) {
        return Err(DatasetError::ZeroLimit);
    }
    let files = source.files(options)?;
    let chosen = layout::choose(task, &files, options)?;
    let mut read = Read::default();
    let (texts, labels) = read_task(task, &files, &chosen, options, &mut read)?;
    let sides = match source {
        Source::Builtin(_) if options.languages.is_empty() => Sides::One("en".to_owned()),
        _ => match sides::decide(task, options, chosen.language.as_deref())? {
            Sides::Unknown => source.card_language(options).map_or(Sides::Unknown, Sides::One),
            decided => decided,
        },
    };
    read.notes.extend(read.drawn.sample.iter().map(ToString::to_string));
    read.notes.extend(sides.note(chosen.language.as_deref()));
    let audit = RowAudit::of(&texts, &labels);
    read.notes.extend(audit.notes(&labels));
    let mut dataset = Dataset {
        name: options.name.clone().unwrap_or_else(|| source.name()),
        task,
        split: options.split.clone(),
        language: chosen.language,
        sides,
        digest: digest::of(task, &texts, &labels),
        texts,
        labels,
        audit,
        notes: read.notes,
        measures: read.measures,
        sample: read.drawn.sample,
        order: read.drawn.order,
        revision: source.revision(),
        entry: options.entry,
        remarks: BTreeMap::new(),
    };
    // The rows of clustering are sets of documents, so an order of rows is not an order of items.
    let items = dataset.items();
    dataset.order = dataset.order.filter(|order| order.len() == items);
    Ok(dataset)
}

/// Whether the source contains the requested split and language; reads no rows.
#[cfg(feature = "locate")]
pub(crate) fn holds(task: TaskType, source: &Source, options: &LoadOptions) -> Result<(), DatasetError> {
    layout::choose(task, &source.files(options)?, options).map(|_| ())
}

fn read_task(
    task: TaskType,
    files: &Files<'_>,
    chosen: &Chosen,
    options: &LoadOptions,
    read: &mut Read,
) -> Result<(Vec<DatasetText>, Labels), DatasetError> {
    let mut picked = |name: &str| -> Result<Picked, DatasetError> {
        let (picked, drawn) = pick(task, files, name, options.limit, (options.sample_seed, options.draw))?;
        read.drawn = drawn;
        Ok(picked)
    };
    Ok(match task {
        TaskType::Bitext => {
            let name = chosen.rows()?;
            let (texts, rows) = pairs::read_bitext(files, name, picked(name)?)?;
            (texts, Labels::Bitext(rows))
        }
        TaskType::Sts => {
            let name = chosen.rows()?;
            let (texts, gold) = pairs::read_sts(files, name, picked(name)?)?;
            (texts, Labels::Sts(gold))
        }
        TaskType::PairClassification => {
            let name = chosen.rows()?;
            let (texts, labels) = pairs::read_pair_classification(files, name, picked(name)?)?;
            (texts, Labels::PairClassification(labels))
        }
        TaskType::Reranking => {
            let (texts, labels, notes) = match chosen.ranked() {
                Some((names, candidates)) => {
                    let (texts, labels, notes, drawn) = retrieval::read_ranked(files, names, candidates, options)?;
                    read.drawn = drawn;
                    (texts, labels, notes)
                }
                None => {
                    let name = chosen.rows()?;
                    let (texts, items, notes) = lists::read_reranking(files, name, picked(name)?)?;
                    let labels = lists::RerankingLabels {
                        items,
                        ..lists::RerankingLabels::default()
                    };
                    (texts, labels, notes)
                }
            };
            read.notes = notes;
            (texts, Labels::Reranking(labels))
        }
        TaskType::Summarisation => {
            let name = chosen.rows()?;
            let (texts, labels) = lists::read_summarisation(files, name, picked(name)?)?;
            (texts, Labels::Summarisation(labels))
        }
        TaskType::Clsd => {
            let name = chosen.rows()?;
            let (texts, labels) = clsd::read(files, name, picked(name)?)?;
            (texts, Labels::Clsd(labels))
        }
        TaskType::GradedRanking => {
            let name = chosen.rows()?;
            let (texts, counts, overlap) = lists::read_graded_ranking(files, name, picked(name)?)?;
            read.measures.insert("lexical_overlap".to_owned(), overlap);
            (texts, Labels::GradedRanking(counts))
        }
        TaskType::Retrieval => {
            let (texts, labels, notes, drawn) = retrieval::read(files, chosen.retrieval()?, options)?;
            (read.notes, read.drawn) = (notes, drawn);
            (texts, Labels::Retrieval(labels))
        }
        TaskType::Classification => {
            let (train, test) = chosen.train_and_test()?;
            let by_label = (options.sample_seed, Draw::Proportional);
            let (rows, drawn) = pick(task, files, train, options.train_limit, by_label)?;
            let picked = [rows, picked(test)?];
            let (texts, labels) = labelled::read_classification(files, [train, test], picked)?;
            read.notes
                .extend(drawn.sample.map(|sample| format!("train rows: {sample}")));
            let samples_per_label = options.samples_per_label.unwrap_or(SAMPLES_PER_LABEL);
            let experiments = options.experiments.unwrap_or(EXPERIMENTS);
            (
                texts,
                Labels::Classification {
                    labels,
                    samples_per_label,
                    experiments,
                },
            )
        }
        TaskType::Clustering => {
            let name = chosen.rows()?;
            let (texts, mut labels) = labelled::read_clustering(files, name, picked(name)?)?;
            if options.entry.is_some_and(|entry| entry.joined_sets) {
                labels.sets.clear();
            }
            let labels = Labels::Clustering {
                labels,
                legacy: options.legacy_clustering,
                max_fraction: options.max_fraction,
            };
            (texts, labels)
        }
    })
}

/// The rows within a limit. The table is read twice, first for the stratum of each row and then for
/// the contents, so that only the sample is ever in memory.
fn pick(
    task: TaskType,
    files: &Files<'_>,
    name: &str,
    limit: Option<usize>,
    (seed, draw): (u64, Draw),
) -> Result<(Picked, Drawn), DatasetError> {
    let limit = match (limit, draw) {
        (Some(limit), _) => limit,
        (None, Draw::OneByOne) => usize::MAX,
        (None, Draw::Proportional) => return Ok((Picked::all(), Drawn::default())),
    };
    let mut rows = Rows::open(files, name)?;
    let mut strata = Strata::default();
    while let Some(row) = rows.next_row()? {
        match task {
            TaskType::Sts | TaskType::PairClassification | TaskType::Bitext => {
                for mut row in row.pairs() {
                    strata.push(Some(pairs::stratum(task, &mut row)?));
                }
            }
            _ => strata.push(stratum(task, row)?),
        }
    }
    Ok(sample::draw(&strata, limit, seed, draw))
}

fn stratum(task: TaskType, mut row: Row) -> Result<Option<Stratum>, DatasetError> {
    match task {
        TaskType::Classification | TaskType::Clustering => labelled::stratum(&mut row).map(Some),
        TaskType::Reranking => Ok(lists::can_be_ranked(&mut row)?.then_some(Stratum::None)),
        _ => Ok(Some(Stratum::None)),
    }
}
