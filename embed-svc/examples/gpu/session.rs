//! The models of a command in each precision, and the lines that are printed for them.

use std::{
    cell::Cell,
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use isomer_embed::{
    EmbedError,
    device::{CpuBackend, Device, Precision},
    model::Model,
};
use serde_json::{Value, json};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// One command.
pub(crate) struct Session {
    what: &'static str,
    device: String,
    precisions: Vec<Precision>,
    note: Option<String>,
    failed: Cell<bool>,
}

impl Session {
    pub(crate) fn new(what: &'static str, device: String, precisions: Vec<Precision>, note: Option<String>) -> Self {
        Self {
            what,
            device,
            precisions,
            note,
            failed: Cell::new(false),
        }
    }

    /// Runs `measure` on each folder in each precision, and continues after failures. Returns
    /// whether all have passed.
    pub(crate) fn each(&self, folders: &[PathBuf], mut measure: impl FnMut(&Subject<'_>) -> Outcome) -> bool {
        for folder in folders {
            for &precision in &self.precisions {
                let subject = Subject {
                    session: self,
                    folder,
                    precision,
                };
                match catch_unwind(AssertUnwindSafe(|| measure(&subject))) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => subject.row(&json!({"error": first_line(&error.to_string())})),
                    Err(_) => subject.row(&json!({"error": "panicked; the message is on standard error"})),
                }
            }
        }
        !self.failed.get()
    }
}

/// One model in one precision.
pub(crate) struct Subject<'a> {
    session: &'a Session,
    pub(crate) folder: &'a Path,
    pub(crate) precision: Precision,
}

impl Subject<'_> {
    pub(crate) fn open(&self) -> Result<Device, EmbedError> {
        if self.on_candle_cpu() {
            return Ok(Device::Candle {
                device: candle_core::Device::Cpu,
                precision: self.precision,
            });
        }
        Ok(Device::open(&self.session.device, self.precision, CpuBackend::Kernels)?.remove(0))
    }

    pub(crate) fn load(&self) -> Result<Model, EmbedError> {
        Model::load(self.folder, &self.open()?)
    }

    pub(crate) fn on_candle_cpu(&self) -> bool {
        self.session.device == "candle-cpu"
    }

    /// The device as the command names it.
    pub(crate) fn device(&self) -> &str {
        &self.session.device
    }

    /// The folder's own name.
    pub(crate) fn model(&self) -> String {
        self.folder
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Prints one line: what was measured, of which model, and `fields`.
    pub(crate) fn row(&self, fields: &Value) {
        let session = self.session;
        let mut row = json!({
            "what": session.what, "model": self.model(), "precision": self.precision.name(), "device": session.device,
        });
        if let Some(note) = &session.note {
            row["note"] = json!(note);
        }
        for (name, value) in fields.as_object().into_iter().flatten() {
            row[name] = value.clone();
        }
        if row.get("error").is_some() {
            session.failed.set(true);
        }
        println!("{row}");
    }
}

/// An error without the backtrace that Candle appends.
pub(crate) fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

/// A number with few digits.
pub(crate) fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
