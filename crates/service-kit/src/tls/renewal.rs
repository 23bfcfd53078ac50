//! TLS configurations that follow their files. Certificates are renewed in place, by cert-manager
//! for example, and new connections use the new certificates without a restart.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::read;
use crate::{Fault, metric_names};

/// The files from which a TLS configuration is built.
pub(crate) trait TlsFiles {
    type Config;

    /// The files, each with the name of its configuration field.
    fn files(&self) -> Vec<(&'static str, &Path)>;

    /// Builds the configuration from the contents of the files.
    fn build(&self, contents: &Contents) -> Result<Arc<Self::Config>, Fault>;
}

/// The contents of the files: field, file, bytes.
#[derive(PartialEq, Eq)]
pub(crate) struct Contents(Vec<(&'static str, PathBuf, Vec<u8>)>);

impl Contents {
    fn read(files: &impl TlsFiles) -> Result<Self, Fault> {
        let files = files.files().into_iter();
        let found = files.map(|(field, file)| Ok((field, file.to_owned(), read(field, file)?)));
        found.collect::<Result<_, Fault>>().map(Self)
    }

    /// The file of a field, and its bytes.
    pub(super) fn of(&self, field: &'static str) -> Result<(&Path, &[u8]), Fault> {
        let found = self.0.iter().find(|(name, ..)| *name == field);
        let (_, file, bytes) = found.ok_or_else(|| Fault::invalid(field, "is missing").hint("name a PEM file"))?;
        Ok((file, bytes))
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes include keys, so they are not shown.
        f.debug_list().entries(self.0.iter().map(|(_, file, _)| file)).finish()
    }
}

/// The side of a connection, for logs and metrics.
#[derive(Debug, Clone)]
pub(crate) enum Role {
    Server,
    /// A client, with the address of the server.
    Client(String),
}

impl Role {
    fn labels(&self) -> [(&'static str, String); 2] {
        let (role, address) = match self {
            Self::Server => ("server", String::new()),
            Self::Client(address) => ("client", address.clone()),
        };
        [("role", role.to_owned()), ("address", address)]
    }
}

/// A TLS configuration with the files from which it is built.
pub(crate) struct Renewal<F: TlsFiles> {
    files: F,
    role: Role,
    state: Mutex<State<F::Config>>,
}

struct State<C> {
    contents: Contents,
    config: Arc<C>,
    /// Why the files on disk are not in use.
    complaint: Option<String>,
}

impl<F: TlsFiles> Renewal<F> {
    /// Reads the files.
    ///
    /// # Errors
    /// If the files cannot be used; the fault names the field.
    pub(crate) fn new(files: F, role: Role) -> Result<Self, Fault> {
        let contents = Contents::read(&files)?;
        let config = files.build(&contents)?;
        metrics::gauge!(metric_names::TLS_FILES_BROKEN, &role.labels()).set(0.0);
        Ok(Self {
            files,
            role,
            state: Mutex::new(State {
                contents,
                config,
                complaint: None,
            }),
        })
    }

    /// The configuration in use.
    pub(crate) fn current(&self) -> Arc<F::Config> {
        Arc::clone(&self.state.lock().config)
    }

    /// Reads the files again. Returns the new configuration if their content has changed and is
    /// valid. Otherwise the previous configuration stays in use, and a warning and a metric report
    /// invalid files.
    pub(crate) fn renew(&self) -> Option<Arc<F::Config>> {
        let read = Contents::read(&self.files);
        let mut state = self.state.lock();
        let made = match read {
            Ok(contents) if contents == state.contents => {
                self.sound(&mut state);
                return None;
            }
            Ok(contents) => self.files.build(&contents).map(|config| (contents, config)),
            Err(fault) => Err(fault),
        };
        match made {
            Ok((contents, config)) => {
                state.contents = contents;
                state.config = Arc::clone(&config);
                self.sound(&mut state);
                metrics::counter!(metric_names::TLS_RENEWALS, &self.role.labels()).increment(1);
                tracing::info!(role = ?self.role, "new TLS files are in force for new connections");
                Some(config)
            }
            // The certificate and the key may be replaced one after the other; the next check finds
            // both.
            Err(fault) => {
                let complaint = fault.to_string();
                if state.complaint.as_ref() != Some(&complaint) {
                    tracing::warn!(
                        role = ?self.role,
                        field = fault.field.as_deref().unwrap_or_default(),
                        error = %complaint,
                        "the TLS files changed and cannot be used; the previous ones stay in force"
                    );
                    metrics::gauge!(metric_names::TLS_FILES_BROKEN, &self.role.labels()).set(1.0);
                    state.complaint = Some(complaint);
                }
                None
            }
        }
    }

    fn sound(&self, state: &mut State<F::Config>) {
        if state.complaint.take().is_some() {
            metrics::gauge!(metric_names::TLS_FILES_BROKEN, &self.role.labels()).set(0.0);
        }
    }
}

impl<F: TlsFiles> fmt::Debug for Renewal<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewal")
            .field("role", &self.role)
            .field("files", &self.state.lock().contents)
            .finish_non_exhaustive()
    }
}
