//! The files of a dataset, as tables. Each table has the name that the layout looks for
//! (`test.jsonl`, `qrels/test.tsv`), whatever the format of its file or files.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use flate2::read::MultiGzDecoder;
use isomer_scoring::task::TaskType;
use parquet::file::{reader::FileReader, serialized_reader::SerializedFileReader};

use super::{
    DatasetError, bounds,
    format::{self, Form, Format, LINES},
    quotes::Quotes,
    roots,
    row::FieldMap,
};

/// Bytes read from a file at a time.
const BUFFER: usize = 1 << 16;
/// Subfolders of a dataset's folder that contain tables, each with the extension that the layout
/// expects there.
const INNER: [(&str, &str); 2] = [("qrels", "tsv"), ("top_ranked", "jsonl")];

/// Files that can be listed and opened by their tables' names.
#[derive(Debug)]
pub(super) struct Files<'a> {
    place: String,
    /// Whether the source is one file rather than a folder.
    single: bool,
    tables: Vec<Table<'a>>,
    /// Columns whose names differ from ours.
    pub(super) fields: Arc<FieldMap>,
}

/// A table in one file or several.
#[derive(Debug)]
pub(super) struct Table<'a> {
    name: String,
    /// Its files, in order.
    pub(super) parts: Vec<Part<'a>>,
    /// Why it cannot be opened.
    problem: Option<String>,
}

#[derive(Debug)]
pub(super) struct Part<'a> {
    /// Its name in messages.
    pub(super) label: String,
    /// The format of its rows.
    pub(super) form: Form,
    shard: Option<format::Shard>,
    content: Content<'a>,
    /// The file is not opened outside this folder.
    root: Option<Arc<Path>>,
    /// The meaning of quotes in separated cells, once the file has been read to determine it.
    pub(super) quotes: OnceLock<Quotes>,
}

#[derive(Debug)]
enum Content<'a> {
    File(PathBuf),
    Bytes(&'a [u8]),
}

impl<'a> Files<'a> {
    /// Files that consist of one file, whatever its name.
    pub(super) fn one(path: &Path, fields: Arc<FieldMap>) -> Self {
        let file = path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        let name = match format::stem(&file) {
            Some((stem, _)) => format!("{stem}.jsonl"),
            None => file.into_owned(),
        };
        Self {
            place: path.display().to_string(),
            single: true,
            tables: vec![Table::of_files(name, [path.to_owned()])],
            fields,
        }
    }

    /// Tables assembled elsewhere.
    pub(super) fn of_tables(place: String, tables: Vec<Table<'a>>, fields: Arc<FieldMap>) -> Self {
        Self {
            place,
            single: false,
            tables,
            fields,
        }
    }

    /// The tables of a folder and of the subfolders that the layout knows.
    pub(super) fn in_folder(folder: &Path, root: Option<&Path>, fields: Arc<FieldMap>) -> Result<Self, DatasetError> {
        let mut found: Vec<(String, Part<'a>)> = Vec::new();
        for inner in [None, Some(INNER[0].0), Some(INNER[1].0)] {
            let path = inner.map_or_else(|| folder.to_owned(), |inner| folder.join(inner));
            let unreadable = |source| DatasetError::Unreadable {
                file: path.display().to_string(),
                source,
            };
            let names = match roots::entries(&path, root) {
                Ok(names) => names,
                Err(e) if e.kind() == io::ErrorKind::NotFound && inner.is_some() => continue,
                Err(e) => return Err(unreadable(e)),
            };
            for name in names {
                let file = path.join(&name);
                if let Some(form) = Form::of(&name).filter(|_| !file.is_dir()) {
                    let relative = inner.map_or_else(|| name.clone(), |inner| format!("{inner}/{name}"));
                    let part = Part::new(file.display().to_string(), form, Content::File(file));
                    found.push((relative, part));
                }
            }
        }
        Ok(Self::of_tables(folder.display().to_string(), tables(found), fields))
    }

    /// The same files, restricted to a folder.
    pub(super) fn below(mut self, root: Option<&Path>) -> Self {
        let parts = self.tables.iter_mut().flat_map(|table| &mut table.parts);
        let root = root.map(Arc::<Path>::from);
        parts.for_each(|part| part.root.clone_from(&root));
        self
    }

    /// Files in memory, by relative path.
    pub(super) fn in_memory(place: String, files: &[(&'a str, &'a [u8])], fields: Arc<FieldMap>) -> Self {
        let single = files.len() == 1;
        let part = |(path, content): &(&'a str, &'a [u8])| {
            let label = if single {
                (*path).to_owned()
            } else {
                format!("{place}/{path}")
            };
            let form = Form::of(path).or(single.then_some(LINES))?;
            Some(((*path).to_owned(), Part::new(label, form, Content::Bytes(content))))
        };
        let tables = tables(files.iter().filter_map(part).collect());
        Self {
            place,
            single,
            tables,
            fields,
        }
    }

    /// The name of the whole source in messages.
    pub(super) fn place(&self) -> String {
        self.place.clone()
    }

    /// The name of a table in messages.
    pub(super) fn label(&self, name: &str) -> String {
        match self.tables.iter().find(|table| table.name == name) {
            Some(table) => table.label(),
            None => format!("{}/{name}", self.place),
        }
    }

    /// The only table, if the source is one file rather than a folder.
    pub(super) fn single(&self) -> Option<String> {
        match self.tables.as_slice() {
            [table] if self.single => Some(table.name.clone()),
            _ => None,
        }
    }

    /// Names of the tables in a folder (`""` for the top), sorted.
    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = self.tables.iter().filter_map(|t| inside(&t.name, folder)).collect();
        names.sort();
        names
    }

    /// Names of the files in a folder, as on disk.
    pub(super) fn shown(&self, folder: &str) -> Vec<String> {
        let of = |table: &Table<'_>| {
            let file = table.parts.first()?.label.rsplit(['/', '\\']).next()?.to_owned();
            let more = if table.parts.len() > 1 { " and its shards" } else { "" };
            Some(format!("{file}{more}"))
        };
        let inside = self.tables.iter().filter(|table| inside(&table.name, folder).is_some());
        let mut names: Vec<String> = inside.filter_map(of).collect();
        names.sort();
        names
    }

    pub(super) fn table(&self, name: &str) -> Result<&Table<'a>, DatasetError> {
        let Some(table) = self.tables.iter().find(|table| table.name == name) else {
            return Err(DatasetError::NotFound { path: self.label(name) });
        };
        match &table.problem {
            None => Ok(table),
            Some(problem) => Err(DatasetError::MissingFile {
                place: self.place.clone(),
                missing: format!("one readable table {name}"),
                hint: problem.clone(),
            }),
        }
    }
}

impl<'a> Files<'a> {
    /// BLAKE3 (hex) of a task and of the bytes of these tables, unpacked.
    pub(super) fn digest(&self, task: TaskType, names: &[&str]) -> Result<String, DatasetError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(task.name().as_bytes());
        for name in names {
            hasher.update(self.table(name)?.bytes_digest()?.as_bytes());
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// Whether two tables have the same bytes, unpacked.
    pub(super) fn equal(&self, one: &str, other: &str) -> Result<bool, DatasetError> {
        Ok(one == other || self.table(one)?.bytes_digest()? == self.table(other)?.bytes_digest()?)
    }
}

impl<'a> Table<'a> {
    /// A table in these files. A file with an unknown extension is parsed as JSON lines.
    pub(super) fn of_files(name: String, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let part = |path: PathBuf| {
            let form = path.file_name().and_then(|name| Form::of(&name.to_string_lossy()));
            Part::new(path.display().to_string(), form.unwrap_or(LINES), Content::File(path))
        };
        Self {
            name,
            parts: paths.into_iter().map(part).collect(),
            problem: None,
        }
    }

    fn label(&self) -> String {
        match self.parts.as_slice() {
            [one] => one.label.clone(),
            [first, rest @ ..] => format!("{} and {} more", first.label, rest.len()),
            [] => self.name.clone(),
        }
    }

    /// BLAKE3 over the unpacked bytes of its files.
    fn bytes_digest(&self) -> Result<blake3::Hash, DatasetError> {
        let mut hasher = blake3::Hasher::new();
        for part in &self.parts {
            let read = hasher.update_reader(part.text()?);
            read.map_err(|source| part.unreadable(source))?;
        }
        Ok(hasher.finalize())
    }

    /// Whether its rows are lines of tab-separated cells rather than a table with a header.
    pub(super) fn is_tsv(&self) -> bool {
        let tsv = |part: &Part<'_>| part.form.format == Format::Separated(b'\t');
        self.parts.iter().all(tsv)
    }
}

impl<'a> Part<'a> {
    fn new(label: String, form: Form, content: Content<'a>) -> Self {
        let file = label.rsplit(['/', '\\']).next().unwrap_or_default();
        Self {
            shard: format::stem(file).and_then(|(_, shard)| shard),
            label,
            form,
            content,
            root: None,
            quotes: OnceLock::new(),
        }
    }

    fn unreadable(&self, source: io::Error) -> DatasetError {
        if source.kind() == io::ErrorKind::NotFound {
            return DatasetError::NotFound {
                path: self.label.clone(),
            };
        }
        DatasetError::Unreadable {
            file: self.label.clone(),
            source,
        }
    }

    fn open(&self, path: &Path) -> Result<File, DatasetError> {
        roots::open(path, self.root.as_deref()).map_err(|error| self.unreadable(error))
    }

    /// Opens a file of text, unpacked.
    pub(super) fn text(&self) -> Result<Box<dyn BufRead + '_>, DatasetError> {
        let (raw, packed_size): (Box<dyn Read + '_>, _) = match &self.content {
            Content::File(path) => {
                let file = self.open(path)?;
                let size = file.metadata().map_err(|error| self.unreadable(error))?.len();
                (Box::new(file), Some(size))
            }
            Content::Bytes(bytes) if !self.form.gzip => return Ok(Box::new(*bytes)),
            Content::Bytes(bytes) => (Box::new(*bytes), None),
        };
        Ok(if self.form.gzip {
            let most = bounds::unpacked(packed_size);
            let packed = BufReader::with_capacity(BUFFER, raw);
            let plain = bounds::BoundedReader::new(MultiGzDecoder::new(packed), most);
            Box::new(BufReader::with_capacity(BUFFER, plain))
        } else {
            Box::new(BufReader::with_capacity(BUFFER, raw))
        })
    }

    /// Opens a Parquet file.
    pub(super) fn columns(&self) -> Result<Box<dyn FileReader>, DatasetError> {
        let broken = |error: parquet::errors::ParquetError| DatasetError::Broken {
            file: self.label.clone(),
            problem: format!("not a sound Parquet file: {error}"),
        };
        Ok(match &self.content {
            Content::File(path) => {
                let file = self.open(path)?;
                Box::new(SerializedFileReader::new(file).map_err(broken)?)
            }
            Content::Bytes(bytes) => {
                let bytes = bytes::Bytes::copy_from_slice(bytes);
                Box::new(SerializedFileReader::new(bytes).map_err(broken)?)
            }
        })
    }
}

/// Groups files into tables by their names.
fn tables(mut found: Vec<(String, Part<'_>)>) -> Vec<Table<'_>> {
    found.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut tables: Vec<Table<'_>> = Vec::new();
    for (path, part) in found {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
        let ending = INNER
            .iter()
            .find(|(inner, _)| *inner == folder)
            .map_or("jsonl", |(_, ending)| ending);
        let name: Cow<'_, str> = match format::stem(file) {
            Some((stem, _)) => format!("{stem}.{ending}").into(),
            None => file.into(),
        };
        let name = if folder.is_empty() {
            name.into_owned()
        } else {
            format!("{folder}/{name}")
        };
        match tables.iter_mut().find(|table| table.name == name) {
            Some(table) => table.parts.push(part),
            None => tables.push(Table {
                name,
                parts: vec![part],
                problem: None,
            }),
        }
    }
    for table in &mut tables {
        table.problem = problem(&table.parts);
    }
    tables
}

/// Why these files do not form one table: it exists in two formats, or shards are missing.
fn problem(parts: &[Part<'_>]) -> Option<String> {
    let [first, rest @ ..] = parts else { return None };
    let Some(shard) = first.shard else {
        let other = rest.first()?;
        return Some(format!("{} and {} are both it; remove one", first.label, other.label));
    };
    let complete = parts.len() == shard.of
        && parts
            .iter()
            .enumerate()
            .all(|(i, part)| part.shard.is_some_and(|own| own.number == i && own.of == shard.of));
    (!complete).then(|| {
        format!(
            "{} says there are {} shards, and {} files are there; add the missing ones",
            first.label,
            shard.of,
            parts.len()
        )
    })
}

/// The name of a file, if it is directly in the folder.
fn inside(path: &str, folder: &str) -> Option<String> {
    let (parent, file) = path.rsplit_once('/').unwrap_or(("", path));
    (parent == folder).then(|| file.to_owned())
}
