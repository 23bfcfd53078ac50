//! Export of entries to a file and import into another cache.
//!
//! A record contains everything that its key is computed from, so that an import can compute the
//! key again and compare. It also carries a digest of key and output, which reveals an output that
//! was changed in transit. A file is verified as a whole before any record is stored: one invalid
//! record rejects the file, and the error names its line. No record contains an API key, because no
//! cache entry does.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use super::{Cache, CacheError, Entry, Key, record::Record};

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 64 << 20;

/// The reason why entries cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file name whose extension names no known format.
    #[error("{}: name the file .jsonl or .parquet", path.display())]
    Form { path: PathBuf },
    /// A record that is not a cache record, or is damaged. Nothing was imported.
    #[error("{} {place}: {message}; nothing was imported", path.display())]
    Foreign {
        path: PathBuf,
        /// The line or row, for example `line 3`.
        place: String,
        message: String,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Records written.
    pub records: usize,
    /// Entries that were skipped, because they lack parts of their key (an older version wrote
    /// them) or belong to a tenant.
    pub left_out: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// New entries.
    pub added: usize,
    /// Entries that the cache already had.
    pub known: usize,
}

/// The format of a file, determined by its name.
enum Form {
    Jsonl,
    Parquet,
}

impl Form {
    fn of(path: &Path) -> Result<Self, ExchangeError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => Ok(Self::Jsonl),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(ExchangeError::Form { path: path.to_owned() }),
        }
    }
}

impl Cache {
    /// All entries as records in order of their keys, so that equal caches give equal files. `None`
    /// for an entry that is not useful elsewhere: it lacks parts of its key, or it belongs to a
    /// tenant.
    pub fn records(&self) -> impl Iterator<Item = Result<Option<Record>, CacheError>> + '_ {
        let mut keys = self.keys();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| {
            // Another process has removed the entry in the meantime.
            let entry = self.get(&key).transpose()?;
            Some(entry.map(|entry| Record::of(&key, entry).filter(|record| record.tenant.is_none())))
        })
    }

    /// Writes all entries to a file in the format given by its name: `.jsonl` or `.parquet`.
    ///
    /// # Errors
    /// If the name has another extension, or the cache or the file cannot be used.
    pub fn export(&self, path: &Path) -> Result<ExportCounts, ExchangeError> {
        match Form::of(path)? {
            Form::Jsonl => self.export_jsonl(path),
            Form::Parquet => self.export_parquet(path),
        }
    }

    /// Reads entries from a file in the format given by its name: `.jsonl` or `.parquet`.
    ///
    /// # Errors
    /// If the name has another extension, the cache or the file cannot be used, or a record is
    /// invalid; the error names its place. No record is stored then.
    pub fn import(&self, path: &Path) -> Result<ImportCounts, ExchangeError> {
        match Form::of(path)? {
            Form::Jsonl => self.import_jsonl(path),
            Form::Parquet => self.import_parquet(path),
        }
    }

    /// Writes all entries as JSON lines. The file is written completely or not at all.
    ///
    /// # Errors
    /// If the cache or the file cannot be used.
    pub fn export_jsonl(&self, path: &Path) -> Result<ExportCounts, ExchangeError> {
        let mut exported = ExportCounts::default();
        whole_file(path, |file| {
            let mut out = BufWriter::new(file);
            for record in self.records() {
                let Some(record) = record? else {
                    exported.left_out += 1;
                    continue;
                };
                let written = serde_json::to_writer(&mut out, &record).map_err(io::Error::from);
                written
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(|error| of_file(path, error))?;
                exported.records += 1;
            }
            out.flush().map_err(|error| of_file(path, error))
        })?;
        Ok(exported)
    }

    /// Reads entries from JSON lines.
    ///
    /// # Errors
    /// If the cache or the file cannot be used, or a line is not a cache record; the error names
    /// its number. No record is stored then.
    pub fn import_jsonl(&self, path: &Path) -> Result<ImportCounts, ExchangeError> {
        each_line(path, |_, _| Ok(()))?;
        let mut imported = ImportCounts::default();
        each_line(path, |key, entry| self.keep(&mut imported, key, &entry))?;
        Ok(imported)
    }

    /// Stores an entry if the cache does not have it yet.
    pub(super) fn keep(&self, imported: &mut ImportCounts, key: Key, entry: &Entry) -> Result<(), ExchangeError> {
        if self.get(&key)?.is_some() {
            imported.known += 1;
        } else {
            self.put(key, entry)?;
            imported.added += 1;
        }
        Ok(())
    }
}

pub(super) fn of_file(path: &Path, source: io::Error) -> ExchangeError {
    ExchangeError::File {
        path: path.to_owned(),
        source,
    }
}

/// Writes a temporary file in the same directory and renames it when it is complete.
pub(super) fn whole_file(
    path: &Path,
    write: impl FnOnce(&File) -> Result<(), ExchangeError>,
) -> Result<(), ExchangeError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", uuid::Uuid::now_v7()));
    let file = File::create_new(&beside).map_err(|error| of_file(path, error))?;
    let done = write(&file)
        .and_then(|()| file.sync_all().map_err(|error| of_file(path, error)))
        .and_then(|()| std::fs::rename(&beside, path).map_err(|error| of_file(path, error)));
    if done.is_err() {
        // A leftover temporary file is harmless.
        let _ = std::fs::remove_file(&beside);
    }
    done
}

/// Calls `call` with each record of a file, in order, after verifying the record.
fn each_line(path: &Path, mut call: impl FnMut(Key, Entry) -> Result<(), ExchangeError>) -> Result<(), ExchangeError> {
    let file = File::open(path).map_err(|error| of_file(path, error))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = io::Read::take(&mut reader, MAX_LINE as u64);
        if limited
            .read_until(b'\n', &mut line)
            .map_err(|error| of_file(path, error))?
            == 0
        {
            break;
        }
        let record = line.trim_ascii();
        if record.is_empty() {
            continue;
        }
        let foreign = |message: String| ExchangeError::Foreign {
            path: path.to_owned(),
            place: format!("line {number}"),
            message,
        };
        let record: Record = serde_json::from_slice(record).map_err(|error| {
            // Serde's message may contain the text, so only the position in the line is reported.
            foreign(format!("it is not a record of a cache: {}", described(&error)))
        })?;
        let (key, entry) = record.verified().map_err(foreign)?;
        call(key, entry)?;
    }
    Ok(())
}

fn described(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ")
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;
    use crate::cache::KeyParts;

    /// A cache with entries of every kind: greedy and sampled, with unusual characters, one from an
    /// older version.
    pub(in crate::cache) fn filled(directory: &Path) -> Cache {
        let cache = Cache::open(directory).unwrap();
        for n in 0..20u64 {
            let text = format!("text {n} – \"quoted\",\nnew line, émoji 🎉");
            let parts = KeyParts {
                text: &text,
                transformation: "paraphrase",
                language: if n.is_multiple_of(3) { "" } else { "en" },
                prompt: "digest",
                generator: "openai:m@http://h/v1",
                temperature: 0.1 * n as f64,
                top_p: 1.0 / 3.0,
                max_tokens: 64,
                seed: (!n.is_multiple_of(4)).then_some(u64::MAX - n),
                tenant: None,
            };
            let entry = Entry {
                output: format!("output {n}\r\n"),
                seed: parts.seed.unwrap_or(7),
                prompt_tokens: n,
                generated_tokens: 2 * n,
                tokens_estimated: n.is_multiple_of(5),
                cut: false,
                fingerprint: String::new(),
                source: text.clone(),
                transformation: "paraphrase".into(),
                generator: "big".into(),
                prompt: "paraphrase@2".into(),
                language: parts.language.into(),
                made: Some(parts.made()),
                dispatch: None,
            };
            cache.put(parts.key(), &entry).unwrap();
        }
        let old = Entry {
            made: None,
            ..cache.get(&cache.keys()[0]).unwrap().unwrap()
        };
        cache.put([7; 32], &old).unwrap();
        cache
    }

    #[test]
    fn what_is_exported_is_imported_elsewhere_entry_for_entry() {
        let folder = tempfile::tempdir().unwrap();
        let cache = filled(&folder.path().join("a"));
        let file = folder.path().join("out.jsonl");
        assert_eq!(
            cache.export_jsonl(&file).unwrap(),
            ExportCounts {
                records: 20,
                left_out: 1
            }
        );
        let other = Cache::open(&folder.path().join("b")).unwrap();
        assert_eq!(other.import_jsonl(&file).unwrap(), ImportCounts { added: 20, known: 0 });
        for key in other.keys() {
            assert_eq!(other.get(&key).unwrap(), cache.get(&key).unwrap());
        }
        assert_eq!(other.import_jsonl(&file).unwrap(), ImportCounts { added: 0, known: 20 });
        // The same entries give the same file, in whatever order they were added.
        let again = folder.path().join("again.jsonl");
        other.export_jsonl(&again).unwrap();
        assert_eq!(fs::read(&file).unwrap(), fs::read(&again).unwrap());
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|file| file.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 4, "nothing is left beside them: {names:?}");
    }

    #[test]
    fn a_foreign_or_changed_record_refuses_the_file_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.jsonl");
        filled(&folder.path().join("a")).export_jsonl(&file).unwrap();
        let lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        let change = |from: &str, to: &str| lines[2].replacen(from, to, 1);
        for (line, says) in [
            (change("output ", "another "), "digest"),
            (change("text ", "another text "), "key"),
            (change("\"max_tokens\":64", "\"max_tokens\":65"), "key"),
            (change("openai:m@", "openai:n@"), "key"),
            (change("\"top_p\"", "\"api_key\":\"x\",\"top_p\""), "not a record"),
            ("{\"text\": \"anything\"}".to_owned(), "not a record"),
            ("not JSON".to_owned(), "not a record"),
            (lines[2][..lines[2].len() / 2].to_owned(), "not a record"),
        ] {
            let mut bad = lines.clone();
            bad[2] = line;
            let path = folder.path().join("bad.jsonl");
            fs::write(&path, bad.join("\n")).unwrap();
            let cache = Cache::open(&folder.path().join("b")).unwrap();
            let error = cache.import_jsonl(&path).unwrap_err().to_string();
            assert!(error.contains("bad.jsonl line 3") && error.contains(says), "{error}");
            assert_eq!(cache.stats().entries, 0, "nothing is kept, not even what came before");
        }
        let absent = Cache::open(&folder.path().join("b"))
            .unwrap()
            .import_jsonl(&folder.path().join("absent"));
        assert!(absent.unwrap_err().to_string().contains("absent"));
    }
}
