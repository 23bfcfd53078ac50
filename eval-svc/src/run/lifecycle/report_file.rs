//! The files of reports.

pub use isomer_proto::eval::v1::ReportFormat;

use crate::run::{RunError, RunManager, record::RunState, report::items_file};

/// File name and media type of a report.
fn file_of(format: ReportFormat) -> (&'static str, &'static str) {
    match format {
        ReportFormat::Json | ReportFormat::Unspecified => ("report.json", "application/json"),
        ReportFormat::Markdown => ("report.md", "text/markdown; charset=utf-8"),
        ReportFormat::Html => ("report.html", "text/html; charset=utf-8"),
        ReportFormat::Junit => ("junit.xml", "application/xml"),
        ReportFormat::Items => (items_file::FILE, "application/json"),
    }
}

/// A report's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFile {
    /// Its bytes.
    pub content: Vec<u8>,
    pub media_type: &'static str,
    pub file_name: &'static str,
}

impl RunManager {
    /// A run's report in one format.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::NoReport`] unless the run succeeded.
    pub async fn report(&self, id: &str, format: ReportFormat) -> Result<ReportFile, RunError> {
        let record = self.get(id).await?;
        let none = || RunError::NoReport {
            id: id.to_owned(),
            state: record.state,
        };
        if record.state != RunState::Succeeded {
            return Err(none());
        }
        let (file_name, media_type) = file_of(format);
        let absent = || match format {
            ReportFormat::Items => RunError::NoItems { id: id.to_owned() },
            _ => none(),
        };
        Ok(ReportFile {
            content: self.store().file(id, file_name).await?.ok_or_else(absent)?,
            media_type,
            file_name,
        })
    }
}
