//! `runs:/RUN/PATH`: files that a run stored, or a model that it logged under a name (MLflow 3).

use reqwest::Method;
use serde_json::json;

use super::{
    artifacts::Store,
    client::Client,
    wire::{LoggedModelsAnswer, RunAnswer, RunInfo},
};
use crate::error::{RegistryError, Result};

/// Maximum number of pages of logged models with one name. MLflow has 100 models on a page.
const MOST_PAGES: usize = 100;

/// A folder of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunUri<'a> {
    uri: &'a str,
    run: &'a str,
    /// The first part of the path, which may be the name of a logged model.
    name: &'a str,
    /// The path below it.
    below: &'a str,
}

impl<'a> RunUri<'a> {
    /// Reads a URI; `None` if it is of another kind.
    ///
    /// # Errors
    /// If it names no run, another server, or a path outside the run's folder.
    pub(super) fn read(uri: &'a str) -> Result<Option<Self>> {
        let Some(rest) = uri.strip_prefix("runs:") else {
            return Ok(None);
        };
        let path = rest.strip_prefix('/').filter(|path| !path.starts_with('/'));
        let (run, path) = match path.and_then(|path| path.split_once('/')) {
            Some((run, path)) => (run, path.trim_matches('/')),
            None => (path.unwrap_or_default(), ""),
        };
        let leaves = path.split('/').any(|part| part == "." || part == "..");
        if run.is_empty() || leaves {
            return Err(refused(uri, "is not runs:/RUN/PATH"));
        }
        let (name, below) = path.split_once('/').unwrap_or((path, ""));
        Ok(Some(Self { uri, run, name, below }))
    }

    /// The files. As in MLflow's own client, a logged model goes before files of the run.
    ///
    /// # Errors
    /// If the run does not exist, its store cannot be read here, or the server fails.
    pub(super) async fn store(&self, client: &Client) -> Result<Store> {
        let query = [("run_id", self.run)];
        let answer: Result<RunAnswer> = client.get("asking for the run of the files", "runs/get", &query).await;
        let run = match answer {
            Err(error) if error.is_not_found() => return Err(refused(self.uri, "there is no such run")),
            answer => answer?.run.info,
        };
        let (folder, parts) = match self.logged_model(client, &run).await? {
            Some(folder) => (folder, vec![self.below]),
            None => (run.artifact_uri, vec![self.name, self.below]),
        };
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let path: String = parts.map(|part| format!("/{}", escaped(part))).collect();
        Store::of(client, &format!("{}{path}", folder.trim_end_matches('/')))
    }

    /// The folder of the model that the run logged under the name.
    async fn logged_model(&self, client: &Client, run: &RunInfo) -> Result<Option<String>> {
        if self.name.is_empty() || self.name.contains('\'') {
            return Ok(None);
        }
        let mut token = String::new();
        for _ in 0..MOST_PAGES {
            let search = json!({
                "experiment_ids": [run.experiment_id],
                "filter": format!("name = '{}'", self.name),
                "page_token": token,
            });
            let doing = "looking for the model that the run logged";
            let answer: Result<LoggedModelsAnswer> =
                client.send(doing, Method::POST, "logged-models/search", &search).await;
            let page = match answer {
                // MLflow 2 has no logged models.
                Err(error) if error.is_not_found() => return Ok(None),
                answer => answer?,
            };
            let mut models = page.models.into_iter().map(|model| model.info);
            if let Some(model) = models.find(|model| model.source_run_id == self.run) {
                return Ok(Some(model.artifact_uri));
            }
            if page.next_page_token.is_empty() {
                break;
            }
            token = page.next_page_token;
        }
        Ok(None)
    }
}

fn refused(uri: &str, message: &str) -> RegistryError {
    RegistryError::Store {
        uri: uri.to_owned(),
        message: message.to_owned(),
    }
}

/// A path as part of a URI.
fn escaped(path: &str) -> String {
    let part = |part: &str| url::form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
    let parts: Vec<String> = path.split('/').map(part).collect();
    parts.join("/").replace('+', "%20")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_run_uri_names_a_run_and_a_path_in_it() {
        let read = |uri| RunUri::read(uri).map(|read| read.map(|read| (read.run, read.name, read.below)));
        assert_eq!(read("runs:/r1/model").unwrap(), Some(("r1", "model", "")));
        assert_eq!(read("runs:/r1/a/b/c/").unwrap(), Some(("r1", "a", "b/c")));
        assert_eq!(read("runs:/r1").unwrap(), Some(("r1", "", "")));
        assert_eq!(read("mlflow-artifacts:/0/r1/artifacts").unwrap(), None);
        for wrong in ["runs:/", "runs:r1/model", "runs://other/r1/model", "runs:/r1/../r2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(escaped("a b/c%+"), "a%20b/c%25%2B");
    }
}
