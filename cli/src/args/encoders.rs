//! The encoders that a command names, and their names: `--model NAME=DIR`.

use std::path::{Path, PathBuf};

use isomer_all_in_one::IsomerConfig;
use isomer_config::spelling::is_plain_name;
use isomer_models::{Resolver, folder::to_path};
use isomer_service_kit::Fault;

use super::Command;
#[cfg(feature = "index")]
use super::index::{IndexCommand, migrate::IndexMigrateCommand};
#[cfg(feature = "evidence")]
use super::{evidence::ReportCommand, report::ReportArgs};
use crate::exit::Failure;

/// Maximum length of a name. A longer one would not fit in a table.
const MOST_LETTERS: usize = 64;

impl Command {
    /// The encoders that flags name: each with its flag.
    pub(super) fn encoders(&mut self) -> Vec<(&'static str, &mut String)> {
        let mut baseline = None;
        let models: Vec<&mut String> = match self {
            Self::Embed(args) => vec![&mut args.model],
            Self::Rerank(args) => vec![&mut args.model],
            Self::Eval(args) => args.models.iter_mut().collect(),
            Self::Serve(args) => args.models.iter_mut().collect(),
            Self::Check(args) => {
                baseline = args.baseline.as_mut();
                args.models.iter_mut().collect()
            }
            #[cfg(feature = "index")]
            Self::Index(command) => command.encoder().into_iter().collect(),
            #[cfg(feature = "evidence")]
            Self::Report(ReportArgs {
                command: Some(ReportCommand::Verify(args)),
                ..
            }) => args.model.iter_mut().collect(),
            _ => Vec::new(),
        };
        let models = models.into_iter().map(|model| ("--model", model));
        models
            .chain(baseline.map(|baseline| ("--baseline", baseline)))
            .collect()
    }

    /// Reads `NAME=DIR` in the flags: the command then has the name, and the configuration's
    /// `embed.encoders` has its folder. A text that is a path here, or an encoder of the
    /// configuration, stays as it is.
    ///
    /// # Errors
    /// If a name is not valid or stands for two encoders, or its folder is missing.
    pub(crate) fn name_encoders(&mut self, config: &mut IsomerConfig, has_server: bool) -> Result<(), Failure> {
        for (flag, model) in self.encoders() {
            if config.embed.encoders.contains_key(model.as_str()) || to_path(model).exists() {
                continue;
            }
            // A path may have the sign in the name of a folder.
            let Some((name, folder)) = model.split_once('=').filter(|(name, _)| !name.contains('/')) else {
                continue;
            };
            let refused = |message: String| Failure::usage(format!("{flag}: `{model}`: {message}"));
            check_name(name).map_err(refused)?;
            if has_server {
                return Err(refused(
                    "the server at --server has the folders and names of its own configuration (embed.encoders); give an \
                     encoder of the server"
                        .to_owned(),
                ));
            }
            let folder = real(&to_path(folder)).ok_or_else(|| {
                refused(format!(
                    "the folder {folder} does not exist; a name stands for a folder"
                ))
            })?;
            match config.embed.encoders.get(name) {
                Some(other) if real(other).as_ref() != Some(&folder) => {
                    return Err(refused(format!(
                        "the name {name} stands for {} too; give each folder a name of its own",
                        other.display()
                    )));
                }
                Some(_) => {}
                None => {
                    let resolver = Resolver::new(config.models.clone()).map_err(Fault::from)?;
                    if resolver.entry(name).is_some() {
                        return Err(refused(format!(
                            "the catalogue of models has an encoder {name}; give the folder another name"
                        )));
                    }
                }
            }
            config.embed.encoders.insert(name.to_owned(), folder);
            *model = name.to_owned();
        }
        Ok(())
    }
}

#[cfg(feature = "index")]
impl IndexCommand {
    /// The encoder that a flag names.
    fn encoder(&mut self) -> Option<&mut String> {
        let encoder = match self {
            Self::Run(args) => &mut args.encoder,
            Self::Verify(args) => &mut args.encoder,
            Self::Migrate(IndexMigrateCommand::Start(args)) => &mut args.encoder,
            _ => return None,
        };
        encoder.model.as_mut()
    }
}

/// The path without links; `None` if nothing is there.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

fn check_name(name: &str) -> Result<(), String> {
    if is_plain_name(name) && name.len() <= MOST_LETTERS {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not a name; write NAME=DIR with a name of 1 to {MOST_LETTERS} letters, digits, `.`, `_` and `-` that starts \
         with a letter or digit"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use clap::Parser;

    use super::{super::Cli, *};

    /// The command with its names read, and the configuration's encoders.
    fn named(line: &[&str], configured: &[(&str, &Path)]) -> Result<(Vec<String>, Vec<(String, PathBuf)>), Failure> {
        let mut command = Cli::try_parse_from([&["isomer"], line].concat()).unwrap().command;
        let mut config = IsomerConfig::default();
        let configured = configured
            .iter()
            .map(|(name, path)| ((*name).to_owned(), path.to_path_buf()));
        config.embed.encoders = configured.collect();
        command.name_encoders(&mut config, false)?;
        let models = command.encoders().into_iter().map(|(_, model)| model.clone());
        Ok((models.collect(), config.embed.encoders.into_iter().collect()))
    }

    fn usage(line: &[&str], configured: &[(&str, &Path)]) -> String {
        let failure = named(line, configured).unwrap_err();
        assert_eq!(failure.code(), 2, "{failure:?}");
        format!("{failure:?}")
    }

    #[test]
    fn a_name_stands_for_its_folder_in_models_and_baseline() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap();
        let given = format!("new={}", folder.display());
        let line = [
            "check",
            "--model",
            &given,
            "--baseline",
            "new",
            "--model",
            "all-MiniLM-L6-v2",
        ];
        let (models, encoders) = named(&line, &[]).unwrap();
        assert_eq!(models, ["new", "all-MiniLM-L6-v2", "new"]);
        assert_eq!(encoders, [("new".to_owned(), folder.clone())]);
        // The same folder again, under the same name and under another.
        let again = [&line[..], &["--model", &given, "--model"]].concat();
        let other = format!("old={}", folder.display());
        let (models, encoders) = named(&[&again[..], &[&other]].concat(), &[]).unwrap();
        assert_eq!(models, ["new", "all-MiniLM-L6-v2", "new", "old", "new"]);
        assert_eq!(encoders.len(), 2);
    }

    #[test]
    fn a_name_of_two_folders_is_refused() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let of = |home: &tempfile::TempDir| format!("enc={}", home.path().display());
        let message = usage(
            &[
                "eval",
                "--task",
                "sts",
                "--data",
                "x",
                "--model",
                &of(&one),
                "--model",
                &of(&two),
            ],
            &[],
        );
        assert!(message.contains("enc"), "{message}");
        usage(&["embed", "--model", &of(&one)], &[("enc", two.path())]);
        assert!(named(&["embed", "--model", &of(&one)], &[("enc", one.path())]).is_ok());
        let catalogued = of(&one).replace("enc=", "all-MiniLM-L6-v2=");
        usage(&["embed", "--model", &catalogued], &[]);
    }

    #[test]
    fn a_path_with_an_equals_sign_is_a_path() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("lr=0.1");
        std::fs::create_dir(&folder).unwrap();
        let folder = folder.display().to_string();
        assert_eq!(
            named(&["embed", "--model", &folder], &[]).unwrap(),
            (vec![folder.clone()], vec![])
        );
        let given = format!("small={folder}");
        assert_eq!(named(&["embed", "--model", &given], &[]).unwrap().0, ["small"]);
        let missing = "runs/lr=0.2".to_owned();
        assert_eq!(
            named(&["embed", "--model", &missing], &[]).unwrap(),
            (vec![missing], vec![])
        );
    }

    #[test]
    fn names_have_an_alphabet_and_a_length_and_folders_that_are_there() {
        let home = tempfile::tempdir().unwrap();
        let here = home.path().display();
        let long = "n".repeat(MOST_LETTERS + 1);
        for name in ["", "a b", ".a", "a+int8", "é", &long] {
            usage(&["embed", "--model", &format!("{name}={here}")], &[]);
        }
        assert!(named(&["embed", "--model", &format!("{}={here}", &long[1..])], &[]).is_ok());
        usage(&["embed", "--model", &format!("enc={here}/no")], &[]);
    }

    #[test]
    fn a_server_has_names_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let given = format!("enc={}", home.path().display());
        let mut command = Cli::try_parse_from(["isomer", "embed", "--model", &given])
            .unwrap()
            .command;
        assert!(command.name_encoders(&mut IsomerConfig::default(), true).is_err());
    }
}
