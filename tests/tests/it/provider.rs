//! A provider in another language, written using only our protos.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use isomer_adapters::{
    AddressGuard, EncoderBackend, GuardConfig, Surroundings,
    check::{CheckOptions, check},
    connect,
};
use isomer_proto::{
    encoder::v1::EncodeRequest,
    gateway::v1::{Provider, ProviderKind, ProviderLimits, SecretRef, secret_ref::Source},
};
use isomer_tests::workspace;
use tonic::Code;

/// A running provider; killed when dropped.
struct Python {
    child: Child,
    address: String,
}

impl Python {
    /// `None` without a Python that has the client libraries.
    fn start(arguments: &[&str]) -> Option<Self> {
        let Some(python) = std::env::var_os("ISOMER_TEST_PYTHON").map(PathBuf::from) else {
            isomer_stubs::skip("no Python client libraries; tests/run installs them and sets ISOMER_TEST_PYTHON");
            return None;
        };
        let mut child = Command::new(python)
            .arg(workspace().join("tests/python/provider/provider.py"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .expect("an address")
            .to_owned();
        Some(Self { child, address })
    }

    fn provider(&self) -> Provider {
        Provider {
            id: "python".into(),
            kind: ProviderKind::Isomer.into(),
            address: format!("grpc://{}", self.address),
            encoders: [("ours".to_owned(), "hashing-256".to_owned())].into(),
            ..Provider::default()
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connected(provider: &Provider) -> Arc<dyn EncoderBackend> {
    let surroundings = Surroundings {
        guard: AddressGuard::new(&GuardConfig {
            allow: vec!["127.0.0.1".into()],
        })
        .unwrap(),
        max_message_bytes: 64 << 20,
    };
    connect(provider, &surroundings).unwrap()
}

fn request(texts: &[String]) -> EncodeRequest {
    isomer_stubs::request::encode("ours", texts)
}

#[tokio::test]
async fn a_provider_in_python_passes_every_question_of_the_check() {
    let Some(python) = Python::start(&[]) else { return };
    let backend = connected(&python.provider());
    let report = check(backend.as_ref(), "ours", &CheckOptions::default()).await;
    for finding in &report.findings {
        println!(
            "{} {}: {}",
            if finding.passed { "ok" } else { "NO" },
            finding.name,
            finding.detail
        );
    }
    assert!(
        report.findings.iter().all(|finding| finding.passed),
        "{}",
        report.verdict
    );
    assert!(
        report.usable && report.verdict.starts_with("usable"),
        "{}",
        report.verdict
    );
    assert_eq!(report.vector_space.unwrap().model_id, "hashing-256");
}

#[tokio::test]
async fn its_vectors_are_the_same_in_pieces() {
    let Some(python) = Python::start(&[]) else { return };
    let texts: Vec<String> = (0..100).map(|number| format!("sentence number {number}")).collect();
    let whole = connected(&python.provider())
        .encode(request(&texts), None)
        .await
        .unwrap();
    let mut limited = python.provider();
    limited.limits = Some(ProviderLimits {
        max_batch_items: 7,
        ..ProviderLimits::default()
    });
    let pieces = connected(&limited).encode(request(&texts), None).await.unwrap();
    assert_eq!(whole.embeddings, pieces.embeddings);
    assert_eq!(whole.token_counts, pieces.token_counts);
    assert_eq!(whole.vector_space, pieces.vector_space);
}

#[tokio::test]
async fn its_key_is_sent_from_a_file_and_a_wrong_one_is_told() {
    let Some(python) = Python::start(&["--key", "the-right-key"]) else {
        return;
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut provider = python.provider();
    provider.secret = Some(SecretRef {
        source: Some(Source::File(file.path().display().to_string())),
    });
    writeln!(file, "the-wrong-key").unwrap();
    let texts = ["one".to_owned()];
    let fault = connected(&provider).encode(request(&texts), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::FailedPrecondition, Some("provider.secret"))
    );
    std::fs::write(file.path(), "the-right-key\n").unwrap();
    connected(&provider).encode(request(&texts), None).await.unwrap();
}
