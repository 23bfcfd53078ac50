//! `isomer init`

use std::path::PathBuf;

use clap::Args;

/// `isomer init`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  isomer init pairs.csv
  isomer init pairs.csv --field sentence1=text_a --field sentence2=text_b --field score=gold
  isomer init data/tickets data/faq --name support --out checks/suite.toml
The kind of task follows from the columns and files; `docs/reference/data.md` lists them for each task.")]
pub(crate) struct InitArgs {
    /// Files or folders, a data set each.
    #[arg(value_name = "DATA", required = true)]
    pub(crate) data: Vec<PathBuf>,
    /// Kind of task of every data set [default: the first that its columns fit].
    #[arg(long, env = "ISOMER_INIT_TASK", value_name = "TYPE")]
    pub(crate) task: Option<String>,
    /// A column of another name: ours=theirs, e.g. sentence1=text_a; may be given several times.
    #[arg(long = "field", value_name = "OURS=THEIRS")]
    pub(crate) fields: Vec<String>,
    /// Split: the data set's file is named after it.
    #[arg(long, env = "ISOMER_INIT_SPLIT", value_name = "NAME", default_value = "test")]
    pub(crate) split: String,
    /// Name of the suite.
    #[arg(long, env = "ISOMER_INIT_NAME", value_name = "NAME", default_value = "our-suite")]
    pub(crate) name: String,
    /// The file to write.
    #[arg(long, env = "ISOMER_INIT_OUT", value_name = "FILE", default_value = "suite.toml")]
    pub(crate) out: PathBuf,
    /// Replace a file that exists.
    #[arg(long)]
    pub(crate) force: bool,
}
