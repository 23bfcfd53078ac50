//! Rows of a retrieval task: corpus, queries, judgements.

use std::collections::{HashMap, hash_map::Entry};

use super::{
    DatasetError, DatasetText, LoadOptions, Role,
    layout::RetrievalFiles,
    rows::{Lines, Row},
    source::Files,
};

/// What retrieval is scored against.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Labels {
    pub(super) query_ids: Vec<String>,
    pub(super) document_ids: Vec<String>,
    /// Judgements of each query: document row and grade, in order of the document rows.
    pub(super) judgements: Vec<Vec<(usize, i32)>>,
    pub(super) ignore_identical_ids: bool,
}

type Read = (Vec<DatasetText>, Labels, Vec<String>);

/// Reads the three files. Texts are the queries, then the documents. Queries without a judgement are left out, as mteb
/// leaves them out, and a note says how many.
pub(super) fn read(files: &Files<'_>, names: &RetrievalFiles, options: &LoadOptions) -> Result<Read, DatasetError> {
    let documents = read_texts(files, &names.corpus, document_text)?;
    let queries = read_texts(files, &names.queries, |row| row.text("text"))?;
    let mut judged = read_judgements(files, &names.qrels, &queries, &documents)?;

    let mut notes = Vec::new();
    let unjudged = queries.texts.len() - judged.len();
    if unjudged > 0 {
        notes.push(format!(
            "{unjudged} of {} queries have no judgement in {} and are left out, as mteb does",
            queries.texts.len(),
            names.qrels
        ));
    }
    let mut texts = Vec::new();
    let (mut query_ids, mut judgements) = (Vec::new(), Vec::new());
    for (row, (id, text)) in queries.texts.into_iter().enumerate() {
        if query_ids.len() == options.limit.unwrap_or(usize::MAX) {
            break;
        }
        let Some(mut of_query) = judged.remove(&row) else {
            continue;
        };
        of_query.sort_unstable();
        let text = DatasetText {
            id: format!("query:{id}"),
            text,
            role: Role::Query,
            transformable: true,
        };
        texts.push(text);
        query_ids.push(id);
        judgements.push(of_query);
    }
    let mut document_ids = Vec::with_capacity(documents.texts.len());
    for (id, text) in documents.texts {
        let text = DatasetText {
            id: format!("document:{id}"),
            text,
            role: Role::Document,
            transformable: false,
        };
        texts.push(text);
        document_ids.push(id);
    }
    let ignore_identical_ids = options.ignore_identical_ids;
    Ok((
        texts,
        Labels {
            query_ids,
            document_ids,
            judgements,
            ignore_identical_ids,
        },
        notes,
    ))
}

/// Title and text joined as mteb joins them: `(title + " " + text).strip()`, or the stripped text where there is no title.
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
    texts: Vec<(String, String)>,
    /// Row of each id.
    rows: HashMap<String, usize>,
}

fn read_texts(
    files: &Files<'_>,
    name: &str,
    text: impl Fn(&mut Row) -> Result<String, DatasetError>,
) -> Result<Texts, DatasetError> {
    let mut lines = Lines::open(files, name)?;
    let (mut texts, mut rows) = (Vec::new(), HashMap::new());
    let mut line_of = Vec::new();
    while let Some(mut row) = lines.next_row()? {
        let id = row.id("_id")?;
        match rows.entry(id.clone()) {
            Entry::Vacant(vacant) => vacant.insert(texts.len()),
            Entry::Occupied(first) => {
                let first: u64 = line_of[*first.get()];
                return Err(row.error(
                    "_id",
                    format!("the id `{id}` already stands on line {first}; ids must be unique"),
                ));
            }
        };
        texts.push((id, text(&mut row)?));
        line_of.push(row.line);
    }
    if texts.is_empty() {
        return Err(DatasetError::Empty {
            file: lines.file().to_owned(),
        });
    }
    Ok(Texts { texts, rows })
}

/// Judgements by query row. Tab-separated `query-id corpus-id score`, with or without that header.
fn read_judgements(
    files: &Files<'_>,
    name: &str,
    queries: &Texts,
    documents: &Texts,
) -> Result<HashMap<usize, Vec<(usize, i32)>>, DatasetError> {
    let mut lines = Lines::open(files, name)?;
    let file = lines.file().to_owned();
    let mut judged: HashMap<usize, Vec<(usize, i32)>> = HashMap::new();
    let mut seen: HashMap<(usize, usize), u64> = HashMap::new();
    let mut first = true;
    while let Some((line, text)) = lines.next()? {
        let error = |field: &str, problem: String| DatasetError::Row {
            file: file.clone(),
            line,
            field: Some(field.to_owned()),
            problem,
        };
        let columns: Vec<&str> = text.split('\t').collect();
        let &[query, document, score] = columns.as_slice() else {
            let problem = format!(
                "{} tab-separated columns where three are expected: query-id, corpus-id, score",
                columns.len()
            );
            return Err(DatasetError::Row {
                file,
                line,
                field: None,
                problem,
            });
        };
        // A header is a first line whose third column is a word and whose ids nobody has.
        let header = std::mem::take(&mut first)
            && score.trim().parse::<f64>().is_err()
            && !queries.rows.contains_key(query)
            && !documents.rows.contains_key(document);
        if header {
            continue;
        }
        let grade: i32 = score
            .trim()
            .parse()
            .map_err(|_| error("score", format!("`{score}` where an integer grade is expected")))?;
        let known = |texts: &Texts, id: &str, field: &str, of: &str| {
            let missing = || {
                error(
                    field,
                    format!("`{id}` is not an id of {of}; every judged id must be there"),
                )
            };
            texts.rows.get(id).copied().ok_or_else(missing)
        };
        let query_row = known(queries, query, "query-id", "the queries")?;
        let document_row = known(documents, document, "corpus-id", "the corpus")?;
        if let Some(earlier) = seen.insert((query_row, document_row), line) {
            let problem = format!("`{query}` and `{document}` are already judged on line {earlier}");
            return Err(error("corpus-id", problem));
        }
        judged.entry(query_row).or_default().push((document_row, grade));
    }
    if judged.is_empty() {
        return Err(DatasetError::Empty { file });
    }
    Ok(judged)
}
