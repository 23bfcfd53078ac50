//! Loads a dataset from a source.

use std::collections::BTreeMap;

use super::{
    Dataset, DatasetError, DatasetText, Labels, LoadOptions, RowAudit, Source, clsd, digest,
    files::Files,
    labelled,
    layout::{self, FileSelection},
    lists, pairs, retrieval,
    row::Row,
    rows::Rows,
    sample::{self, Draw, DrawFacts, RowSelection, Strata, Stratum},
    sides::{self, Sides},
};
use isomer_scoring::task::{EXPERIMENTS, SAMPLES_PER_LABEL, TaskType};

/// The result of reading a task's rows.
#[derive(Default)]
struct ReadSummary {
    notes: Vec<String>,
    measures: BTreeMap<String, f64>,
    draw: DrawFacts,
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
    let selection = layout::choose(task, &files, options)?;
    let mut summary = ReadSummary::default();
    let (texts, labels) = read_task(task, &files, &selection, options, &mut summary)?;
    let sides = match source {
        Source::Builtin(_) if options.languages.is_empty() => Sides::One("en".to_owned()),
        _ => match sides::decide(task, options, selection.language.as_deref())? {
            Sides::Unknown => source.card_language(options).map_or(Sides::Unknown, Sides::One),
            decided => decided,
        },
    };
    summary
        .notes
        .extend(summary.draw.sample.iter().map(ToString::to_string));
    summary.notes.extend(sides.note(selection.language.as_deref()));
    summary
        .notes
        .extend(options.entry.into_iter().flat_map(|entry| entry.notes(options)));
    let audit = RowAudit::of(&texts, &labels);
    summary.notes.extend(audit.notes(&labels));
    let source_digest = files.digest(task, &selection.names())?;
    let mut dataset = Dataset {
        name: options.name.clone().unwrap_or_else(|| source.name()),
        task,
        split: options.split.clone(),
        language: selection.language,
        sides,
        digest: digest::of(task, &texts, &labels),
        source_digest,
        texts,
        labels,
        audit,
        notes: summary.notes,
        measures: summary.measures,
        sample: summary.draw.sample,
        order: summary.draw.order,
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
    selection: &FileSelection,
    options: &LoadOptions,
    summary: &mut ReadSummary,
) -> Result<(Vec<DatasetText>, Labels), DatasetError> {
    let mut picked = |name: &str| -> Result<RowSelection, DatasetError> {
        let (picked, drawn) = pick(task, files, name, options.limit, (options.sample_seed, options.draw))?;
        summary.draw = drawn;
        Ok(picked)
    };
    Ok(match task {
        TaskType::Bitext => {
            let name = selection.rows()?;
            let (texts, rows) = pairs::read_bitext(files, name, picked(name)?)?;
            (texts, Labels::Bitext(rows))
        }
        TaskType::Sts => {
            let name = selection.rows()?;
            let (texts, gold) = pairs::read_sts(files, name, picked(name)?)?;
            (texts, Labels::Sts(gold))
        }
        TaskType::PairClassification => {
            let name = selection.rows()?;
            let (texts, labels) = pairs::read_pair_classification(files, name, picked(name)?)?;
            (texts, Labels::PairClassification(labels))
        }
        TaskType::Reranking => {
            let (texts, labels, notes) = match selection.ranked() {
                Some((names, candidates)) => {
                    let rows = retrieval::read_ranked(files, names, candidates, options)?;
                    summary.draw = rows.draw;
                    (rows.texts, rows.labels, rows.notes)
                }
                None => {
                    let name = selection.rows()?;
                    let (texts, items, notes) = lists::read_reranking(files, name, picked(name)?)?;
                    let labels = lists::RerankingLabels {
                        items,
                        ..lists::RerankingLabels::default()
                    };
                    (texts, labels, notes)
                }
            };
            summary.notes = notes;
            (texts, Labels::Reranking(labels))
        }
        TaskType::Summarisation => {
            let name = selection.rows()?;
            let (texts, labels) = lists::read_summarisation(files, name, picked(name)?)?;
            (texts, Labels::Summarisation(labels))
        }
        TaskType::Clsd => {
            let name = selection.rows()?;
            let (texts, labels) = clsd::read(files, name, picked(name)?)?;
            (texts, Labels::Clsd(labels))
        }
        TaskType::GradedRanking => {
            let name = selection.rows()?;
            let (texts, counts, overlap) = lists::read_graded_ranking(files, name, picked(name)?)?;
            summary.measures.insert("lexical_overlap".to_owned(), overlap);
            (texts, Labels::GradedRanking(counts))
        }
        TaskType::Retrieval => {
            let rows = retrieval::read(files, selection.retrieval()?, options)?;
            (summary.notes, summary.draw) = (rows.notes, rows.draw);
            (rows.texts, Labels::Retrieval(rows.labels))
        }
        TaskType::Classification => {
            let (train, test) = selection.train_and_test()?;
            if files.equal(train, test)? {
                let successor = options.entry.and_then(|entry| entry.superseded_by.as_deref());
                return Err(DatasetError::TrainIsTest {
                    train: files.label(train),
                    test: files.label(test),
                    hint: successor.map_or_else(
                        || "give a split that was not fitted on".to_owned(),
                        |name| format!("use {name}, which has a test split"),
                    ),
                });
            }
            let by_label = (options.sample_seed, Draw::Proportional);
            let (rows, drawn) = pick(task, files, train, options.train_limit, by_label)?;
            let picked = [rows, picked(test)?];
            let (texts, labels) = labelled::read_classification(files, [train, test], picked)?;
            summary
                .notes
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
            let name = selection.rows()?;
            let (texts, mut labels) = labelled::read_clustering(files, name, picked(name)?)?;
            if options.entry.is_some_and(|entry| entry.joined_sets) {
                labels.sets.clear();
            } else {
                let cut = labels.cut_into(options.sets.unwrap_or(1));
                cut.map_err(|problem| DatasetError::Undefined {
                    file: files.label(name),
                    problem,
                })?;
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
) -> Result<(RowSelection, DrawFacts), DatasetError> {
    let limit = match (limit, draw) {
        (Some(limit), _) => limit,
        (None, Draw::OneByOne) => usize::MAX,
        (None, Draw::Proportional) => return Ok((RowSelection::all(), DrawFacts::default())),
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
