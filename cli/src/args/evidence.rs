//! `isomer report attest`, `isomer report export` and `isomer report verify`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `isomer report …`
#[derive(Subcommand, Debug)]
pub(crate) enum ReportCommand {
    /// Sign the result of a check: an in-toto test result for each encoder that its gate judged, in
    /// a DSSE envelope.
    Attest(AttestArgs),
    /// Write a report in the forms of other tools: a CycloneDX bill of materials, model cards,
    /// scores for pages of Hugging Face.
    Export(ExportArgs),
    /// Check an attestation: its signature, and that it follows from its report. Exit code 0 if
    /// every rule is kept, 1 if one is broken or invalid, 4 if one is undecided, 3 if the
    /// attestation does not hold.
    Verify(VerifyArgs),
}

/// `isomer report attest`
#[derive(Args, Debug)]
#[command(after_help = "\
A key pair:
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem
  openssl pkey -in key.pem -pubout -out key.pub
Examples:
  isomer report attest --report isomer-report/report.json --key key.pem --out isomer-report
  isomer report attest --report isomer-report/report.json --key key.pem --push registry.example.com/encoders/enc:1
--push logs in with ISOMER_OCI_USERNAME and ISOMER_OCI_PASSWORD, or with what `docker login` or `oras login` left.")]
pub(crate) struct AttestArgs {
    /// The report.json of a check.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: PathBuf,
    /// Private key in PEM (PKCS#8): ECDSA on P-256, or Ed25519.
    #[arg(long, value_name = "FILE", env = "ISOMER_ATTEST")]
    pub(crate) key: PathBuf,
    /// Folder for attestation.dsse.json, or attestation-ENCODER.dsse.json where the gate judged
    /// several encoders.
    #[arg(long, default_value = "isomer-report", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Put the attestation beside this artifact of an OCI registry, as a referrer (OCI 1.1) in a
    /// Sigstore bundle. The artifact is fetched, and has to carry the weights of an encoder of the
    /// report; the attestation then names it too.
    #[arg(long, value_name = "REF")]
    pub(crate) push: Option<String>,
    /// Ask the registry without TLS. One on this machine always is.
    #[arg(long, requires = "push")]
    pub(crate) plain_http: bool,
    /// Bound on the bytes of the artifact's files.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 30, requires = "push")]
    pub(crate) max_bytes: u64,
}

/// `isomer report export`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  isomer report export --report isomer-report/report.json --form cyclonedx --out isomer-report
  isomer report export --report isomer-report/report.json --form model-card --out cards
  isomer report export --report isomer-report/report.json --form eval-results --source-url https://example.com/report.html")]
pub(crate) struct ExportArgs {
    /// The report.json of a check.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: PathBuf,
    /// A form to write; repeat for several.
    #[arg(long = "form", value_name = "FORM", required = true)]
    pub(crate) forms: Vec<ExportForm>,
    /// Eval-results: where the report can be read; the hub shows it beside the scores.
    #[arg(long, value_name = "URL")]
    pub(crate) source_url: Option<String>,
    /// Folder for bom.cdx.json, and for model-card.md and eval-results.yaml, or
    /// model-card-ENCODER.md and eval-results-ENCODER.yaml where the report has several encoders.
    #[arg(long, default_value = "isomer-report", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// A form of other tools.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExportForm {
    /// CycloneDX 1.6 (JSON): encoders as machine-learning models, with scores and intervals.
    Cyclonedx,
    /// Hugging Face: `model-index`, and a section for the model card of each encoder.
    ModelCard,
    /// Hugging Face: scores on the texts as they are, for `.eval_results/` of the model's
    /// repository.
    EvalResults,
}

/// `isomer report verify`
#[derive(Args, Debug)]
#[command(after_help = "\
Example: isomer report verify isomer-report/attestation.dsse.json --report isomer-report/report.json --key key.pub --model ./encoder")]
pub(crate) struct VerifyArgs {
    /// File of the attestation, e.g. `attestation.dsse.json`.
    pub(crate) attestation: PathBuf,
    /// The report.json that it is about.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: PathBuf,
    /// Public key in PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The encoder that is to be deployed, whose weights must be those that were checked: a folder,
    /// or an id of the cache.
    #[arg(long, value_name = "ID_OR_DIR")]
    pub(crate) model: Option<String>,
}
