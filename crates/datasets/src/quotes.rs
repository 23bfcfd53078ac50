//! Quotes in tables of separated cells. They may enclose cells or be ordinary characters.

use std::io::BufRead;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Quotes may enclose a cell, which may then contain separators and line ends (RFC 4180).
    Enclose,
    /// Like [`Self::Enclose`], in TSV. A line within a cell that is a whole record by itself is
    /// refused, because the quote before it may be a character of the text.
    EncloseInTsv,
    /// Quotes enclose a cell on its line, or are ordinary characters.
    OnOneLine,
}

impl Quotes {
    /// Determines the meaning for a TSV file. Programs that write TSV either quote cells or never
    /// do. If each line has the header's number of cells, no quoted cell spans several lines.
    pub(super) fn of_tsv(text: impl BufRead) -> Self {
        let mut reader = Self::OnOneLine.reader(text, b'\t');
        let columns = reader.headers().map_or(0, csv::StringRecord::len);
        let is_whole = columns > 1 && reader.records().all(|record| record.is_ok());
        if is_whole { Self::OnOneLine } else { Self::EncloseInTsv }
    }

    /// A reader for a table whose quotes have this meaning.
    pub(super) fn reader<R: BufRead>(self, text: R, separator: u8) -> csv::Reader<R> {
        let mut builder = csv::ReaderBuilder::new();
        let builder = builder.delimiter(separator).quoting(self != Self::OnOneLine);
        builder.from_reader(text)
    }

    pub(super) fn text(self, cell: &str) -> String {
        let enclosed = || cell.strip_prefix('"')?.strip_suffix('"');
        match enclosed().filter(|_| self == Self::OnOneLine && cell.len() > 1) {
            Some(inner) if !inner.replace("\"\"", "").contains('"') => inner.replace("\"\"", "\""),
            _ => cell.to_owned(),
        }
    }

    /// The reason why a cell may be several records joined by a quote, if it may.
    pub(super) fn doubt(self, cell: &str, columns: usize) -> Option<&'static str> {
        let mut lines = cell.lines().skip(1);
        let is_record = |line: &str| line.matches('\t').count() + 1 == columns;
        (self == Self::EncloseInTsv && lines.any(is_record)).then_some(
            "a quote opens a cell that continues over whole rows; write the quote twice within quotes, or give CSV or JSON lines",
        )
    }
}
