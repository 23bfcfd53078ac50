//! `isomer man`: manual pages, generated from the description of the command line.

// The page contains the commands of all features.
#[cfg(all(
    test,
    feature = "evidence",
    feature = "fleet",
    feature = "index",
    feature = "man",
    feature = "registry"
))]
mod reference;

use std::{fs, io::Write, path::Path};

use clap::CommandFactory;

use crate::{
    args::Cli,
    commands::{stdout_failure, write_failure},
    exit::Failure,
};

/// Writes `isomer.1` to standard output, or the pages of all commands into a folder.
pub(crate) fn write(folder: Option<&Path>) -> Result<(), Failure> {
    match folder {
        Some(folder) => fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
            .map_err(|error| write_failure(&format!("to {}", folder.display()), &error)),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .and_then(|()| std::io::stdout().lock().write_all(&page))
                .map_err(|error| stdout_failure(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("man");
        write(Some(&below)).unwrap();
        for page in ["isomer.1", "isomer-check.1", "isomer-providers-apply.1"] {
            let text = fs::read_to_string(below.join(page)).unwrap();
            assert!(text.contains(".SH NAME"), "{page}: {text}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(Some(&file.path().join("man"))).unwrap_err();
    }
}
