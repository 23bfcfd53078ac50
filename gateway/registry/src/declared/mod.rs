//! The gateway's file of declared providers, and its changes.
//!
//! The file is read twice a second. New content is applied when two consecutive reads agree, so
//! that a partly written file is not applied. Invalid content changes only
//! [`crate::Registry::file_error`].

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use isomer_proto::gateway::v1::{Provider, ProviderSource, secret_ref::Source};
use isomer_service_kit::Fault;
use tokio::time::MissedTickBehavior;

use crate::{
    config::ProvidersConfig,
    file, metric_names,
    registry::Inner,
    state::etag,
    validate::{self, Author},
};

const LOOK: Duration = Duration::from_millis(500);
/// Maximum size; a larger file is a mistake.
const LARGEST: u64 = 16 << 20;

/// The file's content, or why it could not be read.
type Content = Result<String, String>;

/// The file and its last known content.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    /// The content that was last validated.
    judged: Content,
    /// The content of the last read.
    seen: Content,
}

impl WatchedFile {
    /// Reads the file for the first time.
    pub(crate) async fn open(path: &Path, config: &ProvidersConfig) -> Result<(Self, Vec<Provider>), Fault> {
        metrics::counter!(metric_names::FILE_ERRORS).increment(0);
        metrics::gauge!(metric_names::FILE_BROKEN).set(0.0);
        let content = content(path).await;
        let declared = judge(path, &content, config)?;
        tracing::info!(file = %path.display(), providers = declared.len(), "providers declared");
        let watched = Self {
            path: path.to_owned(),
            judged: content.clone(),
            seen: content,
        };
        Ok((watched, declared))
    }

    /// Applies changes until the registry is dropped.
    pub(crate) async fn follow(mut self, registry: Weak<Inner>) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let content = content(&self.path).await;
            let settled = content == self.seen;
            self.seen = content;
            if !settled || self.seen == self.judged {
                continue;
            }
            self.judged = self.seen.clone();
            let Some(inner) = registry.upgrade() else { return };
            self.take(&inner);
        }
    }

    fn take(&self, inner: &Arc<Inner>) {
        let declared = judge(&self.path, &self.judged, inner.config());
        let file = self.path.display();
        match &declared {
            Ok(declared) => tracing::info!(%file, providers = declared.len(), "the providers file was applied"),
            Err(fault) => {
                metrics::counter!(metric_names::FILE_ERRORS).increment(1);
                tracing::error!(%file, %fault, "the providers file was not applied: its previous content stays in force");
            }
        }
        metrics::gauge!(metric_names::FILE_BROKEN).set(if declared.is_ok() { 0.0 } else { 1.0 });
        {
            let mut state = inner.state();
            match declared {
                Ok(declared) => {
                    for provider in declared
                        .iter()
                        .filter(|p| state.stored.iter().any(|r| r.settings.id == p.id))
                    {
                        tracing::warn!(provider = %provider.id, "the providers file hides a stored provider of this id");
                    }
                    state.declared = declared;
                    state.file_error = None;
                }
                Err(fault) => state.file_error = Some(fault),
            }
        }
        inner.publish();
    }
}

async fn content(path: &Path) -> Content {
    let read = async {
        if tokio::fs::metadata(path).await?.len() > LARGEST {
            return Ok(Err("is over 16 MiB".to_owned()));
        }
        Ok::<_, std::io::Error>(Ok(tokio::fs::read(path).await?))
    };
    let bytes = read
        .await
        .unwrap_or_else(|error| Err(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// The providers that a file declares, each validated.
fn judge(path: &Path, content: &Content, config: &ProvidersConfig) -> Result<Vec<Provider>, Fault> {
    let named = |mut fault: Fault| {
        fault.message = format!("{}: {}", path.display(), fault.message);
        fault
    };
    let text = content.as_ref().map_err(|problem| {
        let hint = "give a readable TOML file, or leave providers.file out";
        named(Fault::invalid("providers.file", problem).hint(hint))
    })?;
    let mut written = file::read(text).map_err(named)?;
    let folder = std::path::absolute(path).ok();
    let folder = folder.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
    let mut ids = HashSet::new();
    for (index, written) in written.iter_mut().enumerate() {
        let provider = &mut written.provider;
        absolute(provider, folder);
        let mut checked = validate::provider(provider, Author::Operator, config);
        if checked.is_ok() && !ids.insert(provider.id.clone()) {
            let problem = format!("`{}` is declared twice", provider.id);
            checked = Err(Fault::invalid("provider.id", problem).hint("give each provider an id of its own"));
        }
        if let Err(mut fault) = checked {
            let field = fault.field.unwrap_or_default();
            fault.message = format!("line {}: {}", written.line(&field), fault.message);
            fault.field = Some(field.replacen("provider", &format!("provider[{index}]"), 1));
            return Err(named(fault));
        }
        let provider = &mut written.provider;
        provider.etag = etag(provider);
        provider.set_source(ProviderSource::Declared);
    }
    Ok(written.into_iter().map(|written| written.provider).collect())
}

/// Makes paths absolute, relative to the file's folder.
fn absolute(provider: &mut Provider, folder: &Path) {
    let mut paths = Vec::new();
    if let Some(Source::File(path)) = provider.secret.as_mut().and_then(|secret| secret.source.as_mut()) {
        paths.push(path);
    }
    if let Some(tls) = &mut provider.tls {
        paths.extend([&mut tls.ca_file, &mut tls.certificate_file, &mut tls.key_file]);
    }
    for path in paths.into_iter().filter(|path| !path.is_empty()) {
        *path = folder.join(&*path).display().to_string();
    }
}

#[cfg(test)]
mod tests;
