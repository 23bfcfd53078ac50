//! The format of a file's rows, determined by the file's name.

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// The encoding of rows.
    pub(super) format: Format,
    /// Whether it is compressed with gzip.
    pub(super) gzip: bool,
}

/// The encoding of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One JSON object per line.
    Jsonl,
    /// A header, then cells separated by this byte, quoted as in RFC 4180.
    Separated(u8),
    /// Apache Parquet.
    Parquet,
}

/// JSON lines, the default for files without a known extension.
pub(super) const LINES: Form = Form {
    format: Format::Jsonl,
    gzip: false,
};

impl Form {
    /// The format by the name's extension; `None` if that is unknown.
    pub(super) fn of(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let (stem, gzip) = match lower.strip_suffix(".gz") {
            Some(stem) => (stem, true),
            None => (lower.as_str(), false),
        };
        let format = match stem.rsplit_once('.')?.1 {
            "jsonl" | "ndjson" => Format::Jsonl,
            "csv" => Format::Separated(b','),
            "tsv" => Format::Separated(b'\t'),
            "parquet" if !gzip => Format::Parquet,
            _ => return None,
        };
        Some(Self { format, gzip })
    }
}

/// Whether a file's name shows that it contains rows: JSON lines, CSV or TSV (these also with
/// gzip), or Parquet.
pub fn is_readable(name: &str) -> bool {
    Form::of(name).is_some()
}

/// A shard of a table spread over several files, such as `test-00000-of-00003.parquet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    /// Its number, from 0.
    pub(super) number: usize,
    pub(super) of: usize,
}

/// The name of a readable file without its ending and shard number, e.g. `test.de` of
/// `test.de-00000-of-00002.csv.gz`.
pub(super) fn stem(name: &str) -> Option<(&str, Option<Shard>)> {
    Form::of(name)?;
    let name = match name.len().checked_sub(3) {
        Some(end) if name.is_char_boundary(end) && name[end..].eq_ignore_ascii_case(".gz") => &name[..end],
        _ => name,
    };
    let (stem, _) = name.rsplit_once('.')?;
    let sharded = || {
        let (before, of) = stem.rsplit_once("-of-")?;
        let (stem, number) = before.rsplit_once('-')?;
        let shard = Shard {
            number: number.parse().ok()?,
            of: of.parse().ok()?,
        };
        Some((stem, Some(shard)))
    };
    Some(sharded().unwrap_or((stem, None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_form_stem_and_shard() {
        assert_eq!(stem("test.jsonl"), Some(("test", None)));
        assert_eq!(stem("Test.CSV.GZ"), Some(("Test", None)));
        let shard = Shard { number: 1, of: 3 };
        assert_eq!(stem("test.de-00001-of-00003.parquet"), Some(("test.de", Some(shard))));
        assert_eq!(stem("one-of-a-kind.csv"), Some(("one-of-a-kind", None)));
        for other in ["README.md", "test", "test.parquet.gz", "test.json", ".gz"] {
            assert_eq!(stem(other), None, "{other}");
        }
    }
}
