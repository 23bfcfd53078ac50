//! Secrets in logs: all output that is logged, returned or printed while keys and tokens are used
//! is searched for them.

use std::{io::Write, sync::Arc};

use isomer_access::{AccessScope, AccessServer, Budget, BudgetPeriod, KeyChange, Limits, NewKey, Scopes};
use jsonwebtoken::Algorithm;
use parking_lot::Mutex;
use serde_json::json;

use crate::attacks::identity_provider::*;

#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_key_and_no_token_is_ever_logged_or_printed() {
    let captured = LogCapture::default();
    let log = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || log.clone())
        .finish();
    // This test runs in its own process.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut printed = String::new();
    let mut print = |text: String| printed.push_str(&text);

    let provider = Provider::start(&[public(Algorithm::ES256, "e")]).await;
    let access = door(provider.config()).await;
    let keys = access.keys();
    let new = NewKey {
        name: "team".to_owned(),
        scopes: Scopes::of(&[AccessScope::Encode]),
        limits: Limits {
            requests_per_second: Some(1.0),
            budgets: vec![Budget {
                per: BudgetPeriod::Total,
                tokens: Some(1),
                cost_usd: None,
            }],
            ..Limits::default()
        },
        expires: None,
    };
    let (record, secret) = keys.create("test", new).await.unwrap();
    print(format!("{record:?} {secret:?}"));
    let text = secret.expose().unwrap().to_owned();
    let good = token(Algorithm::ES256, "e", &claims());
    let mut expired = claims();
    expired["exp"] = json!(1);
    let expired = token(Algorithm::ES256, "e", &expired);
    let mistyped = format!("{}x", &text[..text.len() - 1]);

    for credential in [&text, &text, &text, &mistyped, &good, &expired] {
        for path in [ENCODE, "/isomer.gateway.v1.AccessService/ListKeys", "/healthz"] {
            match ask(&access, path, credential).await {
                Ok(caller) => {
                    caller.charge(1, 100_000_000);
                    print(format!("{caller:?}"));
                }
                Err(fault) => print(format!("{fault} {fault:?} {:?}", tonic::Status::from(fault.clone()))),
            }
        }
    }
    let change = KeyChange {
        name: Some("other".to_owned()),
        ..KeyChange::default()
    };
    print(format!("{:?}", keys.update("test", &record.id, change).await));
    print(format!("{:?}", keys.get(&text).await));
    print(format!(
        "{:?} {:?}",
        keys.list(0, "").await,
        keys.revoke("test", &record.id).await
    ));
    print(format!("{:?}", keys.audit_events(0, 0).await));
    access.flush().await.unwrap();
    print(format!("{access:?} {:?}", AccessServer::new(access.clone())));

    let log = String::from_utf8(captured.0.lock().clone()).unwrap();
    assert!(
        log.contains("audit") && log.contains("refused"),
        "the log was captured: {log}"
    );
    assert!(
        printed.contains("MISTYPED_KEY") && printed.contains("BUDGET_EXCEEDED") && printed.contains("EXPIRED_TOKEN")
    );
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    let digest = {
        use sha2::Digest;
        hex::encode(sha2::Sha256::digest(text.as_bytes()))
    };
    for secret in [
        text[17..60].to_owned(),
        mistyped[17..60].to_owned(),
        signature(&good),
        signature(&expired),
        digest,
    ] {
        for (place, haystack) in [("the log", &log), ("what was printed", &printed)] {
            assert!(!haystack.contains(&secret), "{place} holds {secret}");
        }
    }
}
