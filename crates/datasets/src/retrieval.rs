//! Corpus, queries and judgements: retrieval, and reranking whose candidates are given by id.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use super::{
    DatasetError, DatasetText, LoadOptions, Role,
    error::Unit,
    files::Files,
    layout::RetrievalFiles,
    lists::RerankingLabels,
    row::{Location, Row},
    rows::{Lines, Rows},
    sample::{self, DrawFacts, Strata, Stratum},
    text::{Spool, Text},
};
use isomer_scoring::task::Candidates;

/// The labels that retrieval is scored against.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Labels {
    pub(super) query_ids: Vec<String>,
    pub(super) document_ids: Vec<String>,
    /// Judged documents that are not in the corpus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) outside_ids: Vec<String>,
    /// Judgements of each query: document row and grade, in order of the document rows. Documents
    /// outside the corpus are numbered after its last row.
    pub(super) judgements: Vec<Vec<(usize, i32)>>,
    pub(super) ignore_identical_ids: bool,
}

impl Labels {
    /// The id of a judged document, by its row.
    pub(super) fn id_of(&self, row: usize) -> &str {
        let inside = self.document_ids.len();
        let outside = || self.outside_ids.get(row - inside);
        self.document_ids.get(row).or_else(outside).map_or("", String::as_str)
    }
}

/// A task that was read from the three files of retrieval.
pub(super) struct RetrievalRows<L> {
    pub(super) texts: Vec<DatasetText>,
    pub(super) labels: L,
    pub(super) notes: Vec<String>,
    /// The sampling of the queries.
    pub(super) draw: DrawFacts,
}

/// Document row and grade.
type Judgements = Vec<(usize, i32)>;

/// Reads the three files. Texts are the queries, then the documents. Queries without a judgement
/// are left out, as in mteb, and a note gives their number.
pub(super) fn read(
    files: &Files<'_>,
    names: &RetrievalFiles,
    options: &LoadOptions,
) -> Result<RetrievalRows<Labels>, DatasetError> {
    let mut spool = Spool::default();
    let documents = read_texts(files, &names.corpus, &mut spool, document_text)?;
    let queries = read_texts(files, &names.queries, &mut Spool::in_memory(), |row| row.text("text"))?;
    let (judged, outside_ids, outside) = read_judgements(files, &names.qrels, &queries, &documents)?;
    let notes = outside
        .into_iter()
        .chain(unjudged(&queries, &judged, &names.qrels))
        .collect();
    let (judged, draw) = sampled(queries, judged, options);

    let mut texts = Vec::with_capacity(judged.len() + documents.texts.len());
    let (mut query_ids, mut judgements) = (Vec::new(), Vec::new());
    for ((id, text), mut of_query) in judged {
        of_query.sort_unstable();
        texts.push(query(&id, text));
        query_ids.push(id);
        judgements.push(of_query);
    }
    let unwritten = |source| unwritten(files, &names.corpus, source);
    let mut document_ids = Vec::with_capacity(documents.texts.len());
    for (id, text) in documents.texts {
        let text = DatasetText {
            id: spool.keep(format!("document:{id}")).map_err(unwritten)?,
            text,
            role: Role::Document,
            transformable: false,
        };
        texts.push(text);
        document_ids.push(id);
    }
    spool.finish().map_err(unwritten)?;
    let labels = Labels {
        query_ids,
        document_ids,
        outside_ids,
        judgements,
        ignore_identical_ids: options.ignore_identical_ids,
    };
    Ok(RetrievalRows {
        texts,
        labels,
        notes,
        draw,
    })
}

/// Reads mteb's newer layout of reranking: the three files of retrieval and the candidates of each
/// query. Texts are the queries, then for each query its relevant candidates, then the others.
pub(super) fn read_ranked(
    files: &Files<'_>,
    names: &RetrievalFiles,
    candidates: &str,
    options: &LoadOptions,
) -> Result<RetrievalRows<RerankingLabels>, DatasetError> {
    let mut memory = Spool::in_memory();
    let documents = read_texts(files, &names.corpus, &mut memory, document_text)?;
    let queries = read_texts(files, &names.queries, &mut memory, |row| row.text("text"))?;
    let (mut judged, _, outside) = read_judgements(files, &names.qrels, &queries, &documents)?;
    let mut notes: Vec<String> = outside.into_iter().collect();
    notes.extend(unjudged(&queries, &judged, &names.qrels));
    let mut ranked = read_candidates(files, candidates, &queries, &documents)?;

    let before = judged.len();
    let mut split: HashMap<usize, (Vec<usize>, Vec<usize>)> = HashMap::new();
    judged.retain(|row, of_query| {
        let own = ranked.remove(row).unwrap_or_default();
        let relevant: HashSet<usize> = of_query
            .iter()
            .filter(|(_, grade)| *grade > 0)
            .map(|(d, _)| *d)
            .collect();
        let (positive, negative): (Vec<usize>, Vec<usize>) = own.into_iter().partition(|d| relevant.contains(d));
        let ranks = !positive.is_empty() && !negative.is_empty();
        if ranks {
            split.insert(*row, (positive, negative));
        }
        ranks
    });
    if judged.is_empty() {
        return Err(DatasetError::Undefined {
            file: files.label(candidates),
            problem: "none of the queries has both a relevant candidate and another one: nothing can be ranked"
                .to_owned(),
        });
    }
    if judged.len() < before {
        let dropped = before - judged.len();
        notes.push(format!(
            "{dropped} queries without a relevant candidate or without another one are left out"
        ));
    }
    for (row, of_query) in &judged {
        let found = split.get(row).map_or(0, |(positive, _)| positive.len());
        if of_query.iter().filter(|(_, grade)| *grade > 0).count() > found {
            let problem = format!(
                "the candidates of query `{}` lack documents that {} calls relevant to it: the precision of what is not \
                 there is undefined here",
                queries.texts[*row].0,
                files.label(&names.qrels)
            );
            return Err(DatasetError::Undefined {
                file: files.label(candidates),
                problem,
            });
        }
    }
    let rows = queries.rows.clone();
    let (judged, draw) = sampled(queries, judged, options);
    let (mut texts, mut listed, mut labels) = (Vec::new(), Vec::new(), RerankingLabels::default());
    for ((id, text), _) in judged {
        let Some((positive, negative)) = rows.get(&id).and_then(|row| split.remove(row)) else {
            continue;
        };
        texts.push(query(&id, text));
        labels.items.push(Candidates {
            queries: 1,
            positives: positive.len(),
            negatives: negative.len(),
        });
        for document in positive.into_iter().chain(negative) {
            let (document, text) = &documents.texts[document];
            labels.document_ids.push(document.clone());
            listed.push(DatasetText {
                id: format!("{id}:{document}").into(),
                text: text.clone(),
                role: Role::Candidate,
                transformable: false,
            });
        }
    }
    texts.append(&mut listed);
    Ok(RetrievalRows {
        texts,
        labels,
        notes,
        draw,
    })
}

/// The error if the temporary file for a corpus's texts cannot be written.
fn unwritten(files: &Files<'_>, corpus: &str, source: std::io::Error) -> DatasetError {
    DatasetError::Unreadable {
        file: format!(
            "{}: its texts cannot be kept in a temporary file (TMPDIR names its folder)",
            files.label(corpus)
        ),
        source,
    }
}

fn query(id: &str, text: Text) -> DatasetText {
    DatasetText {
        id: format!("query:{id}").into(),
        text,
        role: Role::Query,
        transformable: true,
    }
}

fn unjudged(queries: &Texts, judged: &HashMap<usize, Judgements>, qrels: &str) -> Option<String> {
    let all = queries.texts.len();
    let unjudged = all - judged.len();
    let note = || format!("{unjudged} of {all} queries have no judgement in {qrels} and are left out, as mteb does");
    (unjudged > 0).then(note)
}

/// A query's id and text, and its judgements.
type JudgedQuery = ((String, Text), Judgements);

/// The judged queries in their order, or a sample of them.
fn sampled(
    queries: Texts,
    mut judged: HashMap<usize, Judgements>,
    options: &LoadOptions,
) -> (Vec<JudgedQuery>, DrawFacts) {
    let mut strata = Strata::default();
    for row in 0..queries.texts.len() {
        strata.push(judged.contains_key(&row).then_some(Stratum::None));
    }
    let limit = options.limit.unwrap_or(usize::MAX);
    let (mut picked, drawn) = sample::draw(&strata, limit, options.sample_seed, options.draw);
    let mut taken = Vec::new();
    for (row, text) in queries.texts.into_iter().enumerate() {
        match picked.takes() {
            Some(true) => taken.extend(judged.remove(&row).map(|of_query| (text, of_query))),
            Some(false) => {}
            None => break,
        }
    }
    (taken, drawn)
}

/// Title and text joined as in mteb: `(title + " " + text).strip()`, or the stripped text if the
/// title is missing.
fn document_text(row: &mut Row) -> Result<String, DatasetError> {
    let title = row.optional_text("title")?.unwrap_or_default();
    let text = row.text("text")?;
    let joined = if title.is_empty() {
        text
    } else {
        format!("{title} {text}")
    };
    Ok(joined.trim().to_owned())
}

struct Texts {
    /// Id and text of each row.
    texts: Vec<(String, Text)>,
    /// Row of each id.
    rows: HashMap<String, usize>,
}

fn read_texts(
    files: &Files<'_>,
    name: &str,
    spool: &mut Spool,
    text: impl Fn(&mut Row) -> Result<String, DatasetError>,
) -> Result<Texts, DatasetError> {
    let mut read = Rows::open(files, name)?;
    let (mut texts, mut rows) = (Vec::new(), HashMap::new());
    let mut line_of = Vec::new();
    while let Some(mut row) = read.next_row()? {
        row.also_called("_id", "id");
        let id = row.id("_id")?;
        match rows.entry(id.clone()) {
            Entry::Vacant(vacant) => vacant.insert(texts.len()),
            Entry::Occupied(first) => {
                let first: u64 = line_of[*first.get()];
                return Err(row.error(
                    "_id",
                    format!(
                        "the id `{id}` already stands on {} {first}; ids must be unique",
                        row.place.unit
                    ),
                ));
            }
        };
        let text = text(&mut row)?;
        texts.push((id, spool.keep(text).map_err(|source| unwritten(files, name, source))?));
        line_of.push(row.line());
    }
    if texts.is_empty() {
        return Err(DatasetError::Empty {
            file: read.file().to_owned(),
        });
    }
    Ok(Texts { texts, rows })
}

/// Judgements by query row: `query-id corpus-id score`, and a note if some are about documents
/// outside the corpus. The header may be missing in a TSV file.
fn read_judgements(
    files: &Files<'_>,
    name: &str,
    queries: &Texts,
    documents: &Texts,
) -> Result<(HashMap<usize, Judgements>, Vec<String>, Option<String>), DatasetError> {
    let mut reader = JudgementReader {
        queries,
        documents,
        outside: HashMap::new(),
        judgements_outside: 0,
        judged: HashMap::new(),
        seen: HashMap::new(),
    };
    let table = files.table(name)?;
    if table.is_tsv() && files.fields.is_empty() {
        let mut lines = Lines::open(table)?;
        let file = lines.file();
        let mut first = true;
        while let Some((line, text)) = lines.next()? {
            let place = Location {
                file: file.clone(),
                unit: Unit::Line,
                number: line,
            };
            reader.line(&place, text, std::mem::take(&mut first))?;
        }
    } else {
        let mut rows = Rows::open(files, name)?;
        while let Some(mut row) = rows.next_row()? {
            let (query, document) = (row.id("query-id")?, row.id("corpus-id")?);
            reader.judge(&row.place, &query, &document, row.grade("score")?)?;
        }
    }
    if reader.judged.is_empty() {
        return Err(DatasetError::Empty {
            file: files.label(name),
        });
    }
    let (count, documents) = (reader.judgements_outside, reader.outside.len());
    if count == reader.seen.len() {
        return Err(DatasetError::Broken {
            file: files.label(name),
            problem: "none of its documents is in the corpus; the judgements belong to another one".to_owned(),
        });
    }
    let note = (count > 0).then(|| {
        format!(
            "{count} judgements in {name} name {documents} documents that are not in the corpus: they count as relevant and not found, as \
             trec_eval counts them"
        )
    });
    let mut outside: Vec<(String, usize)> = reader.outside.into_iter().collect();
    outside.sort_by_key(|(_, row)| *row);
    let outside = outside.into_iter().map(|(id, _)| id).collect();
    Ok((reader.judged, outside, note))
}

struct JudgementReader<'a> {
    queries: &'a Texts,
    documents: &'a Texts,
    /// Rows of documents that are not in the corpus.
    outside: HashMap<String, usize>,
    judgements_outside: usize,
    judged: HashMap<usize, Judgements>,
    /// Line at which each pair was judged.
    seen: HashMap<(usize, usize), u64>,
}

impl JudgementReader<'_> {
    fn line(&mut self, place: &Location, text: &str, first: bool) -> Result<(), DatasetError> {
        let columns: Vec<&str> = text.split('\t').collect();
        let &[query, document, score] = columns.as_slice() else {
            let problem = format!(
                "{} tab-separated columns where three are expected: query-id, corpus-id, score",
                columns.len()
            );
            return Err(place.error(None, problem));
        };
        // A header is a first line whose third column is not a number and whose ids are unknown.
        let header = first
            && score.trim().parse::<f64>().is_err()
            && !self.queries.rows.contains_key(query)
            && !self.documents.rows.contains_key(document);
        if header {
            return Ok(());
        }
        let grade: i32 = score
            .trim()
            .parse()
            .map_err(|_| place.error(Some("score"), format!("`{score}` where an integer grade is expected")))?;
        self.judge(place, query, document, grade)
    }

    fn judge(&mut self, place: &Location, query: &str, document: &str, grade: i32) -> Result<(), DatasetError> {
        let query_row = known(place, self.queries, query, "query-id", "the queries")?;
        let document_row = match self.documents.rows.get(document) {
            Some(row) => *row,
            None => {
                self.judgements_outside += 1;
                let next = self.documents.texts.len() + self.outside.len();
                *self.outside.entry(document.to_owned()).or_insert(next)
            }
        };
        if let Some(earlier) = self.seen.insert((query_row, document_row), place.number) {
            let problem = format!(
                "`{query}` and `{document}` are already judged on {} {earlier}",
                place.unit
            );
            return Err(place.error(Some("corpus-id"), problem));
        }
        self.judged.entry(query_row).or_default().push((document_row, grade));
        Ok(())
    }
}

fn known(place: &Location, texts: &Texts, id: &str, field: &str, of: &str) -> Result<usize, DatasetError> {
    let missing = || {
        place.error(
            Some(field),
            format!("`{id}` is not an id of {of}; every id must be there"),
        )
    };
    texts.rows.get(id).copied().ok_or_else(missing)
}

/// Candidates by query row: `query-id corpus-ids[]`.
fn read_candidates(
    files: &Files<'_>,
    name: &str,
    queries: &Texts,
    documents: &Texts,
) -> Result<HashMap<usize, Vec<usize>>, DatasetError> {
    let mut rows = Rows::open(files, name)?;
    let mut ranked = HashMap::new();
    while let Some(mut row) = rows.next_row()? {
        let query = row.id("query-id")?;
        let query_row = known(&row.place, queries, &query, "query-id", "the queries")?;
        let mut own = Vec::new();
        let mut seen = HashSet::new();
        for document in row.ids("corpus-ids")? {
            let document_row = known(&row.place, documents, &document, "corpus-ids", "the corpus")?;
            if !seen.insert(document_row) {
                return Err(row.error("corpus-ids", format!("`{document}` is named twice")));
            }
            own.push(document_row);
        }
        if ranked.insert(query_row, own).is_some() {
            return Err(row.error(
                "query-id",
                format!("the candidates of `{query}` are already named above"),
            ));
        }
    }
    if ranked.is_empty() {
        return Err(DatasetError::Empty {
            file: rows.file().to_owned(),
        });
    }
    Ok(ranked)
}
