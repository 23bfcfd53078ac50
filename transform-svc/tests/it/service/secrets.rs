//! An API key is sent to its server and appears nowhere else.

use std::{fs, io, sync::Arc, time::Duration};

use isomer_proto::transform::v1::Check;
use isomer_service_kit::config::Secret;
use isomer_stubs::openai::{Answer, Stub};
use isomer_transform::cache::Cache;
use parking_lot::Mutex;
use tonic::Code;

use crate::support::{client, config, paraphrase, transform, try_transform};

/// Everything logged by this program, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The log is captured for the whole program: events in a thread's subscriber depend on which
    /// thread logs first.
    fn start() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

const KEY: &str = "sk-hunter2-0123456789abcdef";

#[tokio::test]
async fn a_key_that_the_server_repeats_stands_in_no_answer_log_or_file() {
    let log = Log::start();
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut config = config(&stub, home.path());
    config.generators.get_mut("stub").unwrap().api_key = Secret::new(KEY);
    assert!(!format!("{config:?}").contains("hunter2"));
    let mut client = client(config, home.path()).await;

    // Errors that end the request.
    stub.script([Answer::EchoKey(401)]);
    let fault = try_transform(&mut client, paraphrase(), &["A text for the wrong key."])
        .await
        .unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "GENERATOR_REFUSED")
    );
    let hint = fault.hint.as_ref().unwrap();
    assert!(hint.contains("api_key of the configuration"), "{hint}");
    assert!(
        fault.message.contains("stub knows no key") && fault.message.contains("[secret]"),
        "{fault}"
    );
    assert!(!format!("{fault:?}").contains("hunter2"), "{fault:?}");

    // Errors that end a text.
    let bad = format!(r#"{{"choices": "{KEY}"}}"#);
    for (text, answer, says) in [
        (
            "A text that is rejected with the key.",
            Answer::EchoKey(400),
            "[secret]",
        ),
        ("A text that meets a broken server.", Answer::EchoKey(500), "[secret]"),
        ("A text with an answer that is none.", Answer::Raw(bad), "[secret]"),
        (
            "A text whose answer is the key.",
            Answer::Text(format!("Your key is {KEY} today.")),
            "repeats the key",
        ),
    ] {
        stub.mark(text, [answer]);
        let response = transform(&mut client, paraphrase(), &[text]).await;
        let result = &response.results[0];
        assert!(result.failed_checks().eq([Check::GeneratorError]), "{result:?}");
        assert!(result.error.contains(says), "{}", result.error);
        assert!(!format!("{response:?}").contains("hunter2"), "{response:?}");
    }
    transform(&mut client, paraphrase(), &["A text that comes back as it should."]).await;

    let seen = stub.seen();
    assert_eq!(seen.len(), 1 + 1 + 4 + 4 + 4 + 1);
    let header = format!("Bearer {KEY}");
    assert!(
        seen.iter().all(|seen| seen.authorization.as_deref() == Some(&header)),
        "it was sent"
    );
    assert!(seen.iter().all(|seen| !seen.body.to_string().contains("hunter2")));
    // The key is not in exported cache entries either.
    let shared = home.path().join("shared.jsonl");
    let exported = Cache::open(&home.path().join("cache"))
        .unwrap()
        .export_jsonl(&shared)
        .unwrap();
    assert_eq!((exported.records, exported.left_out), (1, 0));
    let text = fs::read_to_string(&shared).unwrap();
    assert!(text.contains("comes back as it should") && !text.contains("hunter2"));

    let log = log.text();
    assert!(
        log.contains("the generator is asked again") && log.contains("[secret]"),
        "the log is complete"
    );
    assert!(
        !log.contains("hunter2"),
        "{}",
        log.lines().find(|line| line.contains("hunter2")).unwrap()
    );
    let files: Vec<_> = fs::read_dir(home.path().join("cache"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1);
    let kept = fs::read_to_string(&files[0]).unwrap();
    assert!(kept.contains("comes back as it should") && !kept.contains("hunter2"));
}

#[tokio::test]
async fn a_key_is_read_from_its_file_whenever_the_file_changes() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("key");
    fs::write(&file, "sk-first\n").unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut config = config(&stub, home.path());
    config.generators.get_mut("stub").unwrap().api_key_file = Some(file.clone());
    let mut client = client(config, home.path()).await;
    transform(&mut client, paraphrase(), &["A text under the first key."]).await;

    fs::write(&file, "sk-the-second\n").unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    transform(&mut client, paraphrase(), &["A text under the second key."]).await;
    let sent: Vec<_> = stub.seen().into_iter().filter_map(|seen| seen.authorization).collect();
    assert_eq!(sent, ["Bearer sk-first", "Bearer sk-the-second"]);

    fs::remove_file(&file).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let fault = try_transform(&mut client, paraphrase(), &["A text under no key."])
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::FailedPrecondition);
    assert!(fault.message.contains("key") && fault.hint.is_some(), "{fault}");
    assert_eq!(stub.calls(), 2, "nothing is asked without its key");
}

#[tokio::test]
async fn a_variable_that_is_named_must_be_set_and_an_empty_name_sends_no_key() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let ask = async |variable: &str| {
        let mut config = config(&stub, home.path());
        config.generators.get_mut("stub").unwrap().api_key_env = Some(variable.to_owned());
        let mut client = client(config, home.path()).await;
        try_transform(&mut client, paraphrase(), &["A text for a server."]).await
    };
    let fault = ask("ISOMER_NO_SUCH_VARIABLE").await.unwrap_err();
    assert_eq!(fault.code, Code::FailedPrecondition);
    assert!(fault.message.contains("ISOMER_NO_SUCH_VARIABLE"), "{fault}");
    assert_eq!(stub.calls(), 0);
    ask("").await.unwrap();
    assert_eq!(stub.seen()[0].authorization, None);
}
