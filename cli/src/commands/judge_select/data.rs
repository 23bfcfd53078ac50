//! The gold pairs named by a `--data`.

use std::path::{Path, PathBuf};

use isomer_eval::{
    dataset::{self, DatasetError, LoadOptions, Source},
    locate::{DatasetLocator, DatasetRequest, HubRules},
    selection::{self, GoldSet},
    task::TaskType,
};
use isomer_models::Resolver;
use isomer_service_kit::Fault;

use crate::{args::JudgeSelectArgs, commands::eval::score_request::looks_like_a_path, connect::Session, exit::Failure};

/// The locator of named data sets. The gold pairs are read on this machine, whichever server judges
/// them.
pub(super) fn locator(session: &Session) -> Result<DatasetLocator, Failure> {
    let config = &session.config;
    let mut eval = config.eval.clone();
    eval.home.clone_from(&config.models.home);
    Ok(DatasetLocator {
        folders: eval.named_data(),
        hub: Some(Resolver::new(config.models.clone()).map_err(Fault::from)?),
        rules: HubRules::owner(),
    })
}

/// Loads and samples the data named by a `--data`.
pub(super) async fn load(data: &str, args: &JudgeSelectArgs, locator: &DatasetLocator) -> Result<GoldSet, Failure> {
    let (path, range) = selection::range_of(data).map_err(|(range, path)| {
        Failure::usage(format!(
            "--data: `{range}` is not a range of scores; write e.g. {path}@1:5"
        ))
    })?;
    let source = if looks_like_a_path(path) || Path::new(path).exists() {
        Source::Path(PathBuf::from(path))
    } else {
        Source::named(path)
    };
    let wanted = DatasetRequest {
        task: Some(TaskType::Sts),
        source,
        split: args.split.clone(),
        options: LoadOptions {
            language: args.language.clone(),
            ..LoadOptions::default()
        },
    };
    let failed = |error: DatasetError| Failure::dependency(format!("--data: {error}"));
    let located = locator.locate(wanted).await.map_err(failed)?;
    let loaded = dataset::load(located.task, &located.source, &located.options).map_err(failed)?;
    let limit = args.limit.map(|limit| limit as usize);
    GoldSet::of(&loaded, range, limit, args.seed)
        .map_err(|error| Failure::dependency(format!("--data: {path}: {error}; say the range, e.g. {path}@1:5")))
}
