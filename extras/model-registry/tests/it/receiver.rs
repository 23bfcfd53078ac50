//! The receiver of webhooks and the queue behind it.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use http::StatusCode;
use isomer_model_registry::{
    ledger::Ledger,
    mlflow::webhook::{DELIVERY, SIGNATURE, TIMESTAMP, WINDOW},
    service::{HOOK, Service},
};
use isomer_outbound::secret::SecretSource;
use isomer_proto::eval::v1::Verdict;
use isomer_service_kit::config::Secret;
use sha2::Sha256;
use tempfile::TempDir;

use super::support::{CHAMPION, FixedEngine, Memory, PASSED, checker, given, policy};

const DAY: Duration = Duration::from_secs(86_400);
const SECRET: &str = "s3cret";

struct Receiver {
    service: Arc<Service<Memory, FixedEngine>>,
    address: String,
    _folder: TempDir,
}

async fn receiver(memory: &Memory, engine: FixedEngine, models: &[&str]) -> Receiver {
    receiver_that_rereads(memory, engine, models, DAY).await
}

async fn receiver_that_rereads(memory: &Memory, engine: FixedEngine, models: &[&str], reread: Duration) -> Receiver {
    let (checker, folder) = checker(memory, engine, policy());
    let ledger = Ledger::open("sqlite::memory:").await.unwrap();
    let service = Service::new(
        checker,
        ledger,
        models.iter().map(|&name| name.to_owned()).collect(),
        reread,
    );
    let routes = service.routes(SecretSource::Given(Secret::new(SECRET)));
    let address = isomer_stubs::http::serve(routes).await;
    Receiver {
        service,
        address: format!("http://{address}{HOOK}"),
        _folder: folder,
    }
}

impl Receiver {
    async fn send(&self, secret: &str, id: &str, age: i64, body: &str) -> StatusCode {
        let time = jiff::Timestamp::now().as_second() - age;
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{id}.{time}.{body}").as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let client = isomer_outbound::client::builder().build().unwrap();
        let request = client
            .post(&self.address)
            .header(DELIVERY, id)
            .header(TIMESTAMP, time)
            .header(SIGNATURE, signature)
            .body(body.to_owned());
        request.send().await.unwrap().status()
    }
}

fn created(version: &str) -> String {
    format!(r#"{{"entity":"model_version","action":"created","data":{{"name":"enc","version":"{version}"}}}}"#)
}

#[tokio::test]
async fn a_hundred_deliveries_at_once_check_each_version_once() {
    let memory = Memory::with(&["1", "2"]);
    let engine = given(Verdict::Pass);
    let runs = engine.runs.clone();
    let receiver = receiver(&memory, engine, &[]).await;
    let sends = (0..100).map(|n| {
        let receiver = &receiver;
        async move {
            let body = created(if n % 2 == 0 { "1" } else { "2" });
            // Twenty are forged, twenty old, and of the others three have one id.
            match n % 5 {
                0 => receiver.send("guessed", &format!("forged-{n}"), 0, &body).await,
                1 => receiver.send(SECRET, &format!("old-{n}"), WINDOW + 60, &body).await,
                _ => receiver.send(SECRET, &format!("id-{}", n / 5), 0, &body).await,
            }
        }
    });
    let answers = futures::future::join_all(sends).await;
    let count = |status: StatusCode| answers.iter().filter(|&&one| one == status).count();
    assert_eq!(count(StatusCode::UNAUTHORIZED), 40);
    assert_eq!(count(StatusCode::ACCEPTED), 20);
    assert_eq!(count(StatusCode::OK), 40);
    assert_eq!(receiver.service.drain().await.unwrap(), 2);
    assert_eq!(runs.lock().len(), 2);
    // Another delivery of the same version, with a new id: it has its verdict.
    assert_eq!(
        receiver.send(SECRET, "later", 0, &created("1")).await,
        StatusCode::ACCEPTED
    );
    assert_eq!(receiver.service.drain().await.unwrap(), 1);
    assert_eq!(runs.lock().len(), 2);
}

#[tokio::test]
async fn what_is_no_version_of_ours_is_answered_and_runs_nothing() {
    let memory = Memory::with(&["1"]);
    let engine = given(Verdict::Pass);
    let runs = engine.runs.clone();
    let receiver = receiver(&memory, engine, &["enc*"]).await;
    let tag = r#"{"entity":"model_version_tag","action":"set","data":{"name":"enc","version":"1","key":"isomer.verdict","value":"pass"}}"#;
    let passed = format!(
        r#"{{"entity":"model_version_alias","action":"created","data":{{"name":"enc","alias":"{PASSED}","version":"1"}}}}"#
    );
    let other = created("1").replace("\"enc\"", "\"classifier\"");
    for (id, body) in [
        ("a", tag),
        ("b", &passed),
        ("c", &other),
        ("d", "{\"entity\":\"x\",\"action\":\"y\"}"),
    ] {
        assert_eq!(receiver.send(SECRET, id, 0, body).await, StatusCode::OK, "{body}");
    }
    assert_eq!(receiver.send(SECRET, "e", 0, "no JSON").await, StatusCode::BAD_REQUEST);
    assert_eq!(receiver.service.drain().await.unwrap(), 0);
    // MLflow's test delivery names a version that is not there.
    assert_eq!(
        receiver.send(SECRET, "f", 0, &created("77")).await,
        StatusCode::ACCEPTED
    );
    assert_eq!(receiver.service.drain().await.unwrap(), 1);
    assert!(runs.lock().is_empty());
}

#[tokio::test]
async fn a_look_finds_what_webhooks_missed_and_takes_back_what_was_not_earned() {
    let memory = Memory::with(&["1", "2"]);
    memory.set(CHAMPION, "1");
    let engine = given(Verdict::Fail);
    let runs = engine.runs.clone();
    let receiver = receiver(&memory, engine, &[]).await;
    let look = receiver.service.look().await.unwrap();
    assert_eq!((look.versions, look.queued, look.withdrawn), (2, 2, 0));
    // Waiting ones are not put there twice.
    assert_eq!(receiver.service.look().await.unwrap().queued, 0);
    receiver.service.drain().await.unwrap();
    assert_eq!(runs.lock().len(), 2);
    memory.set(PASSED, "2");
    let look = receiver.service.look().await.unwrap();
    assert_eq!((look.queued, look.withdrawn), (0, 1));
    assert_eq!(memory.alias(PASSED), None);
}

#[tokio::test]
async fn a_look_reads_the_files_of_what_passed_again_when_it_is_time() {
    for (reread, withdrawn) in [(DAY, 0), (Duration::ZERO, 1)] {
        let memory = Memory::with(&["1"]);
        let engine = given(Verdict::Pass);
        let runs = engine.runs.clone();
        let receiver = receiver_that_rereads(&memory, engine, &[], reread).await;
        receiver.service.look().await.unwrap();
        receiver.service.drain().await.unwrap();
        // Read for the first time.
        assert_eq!(receiver.service.look().await.unwrap().withdrawn, 0);
        {
            let mut state = memory.0.lock();
            let weights = state
                .files
                .get_mut("1")
                .unwrap()
                .get_mut("0_StaticEmbedding/model.safetensors");
            *weights.unwrap().last_mut().unwrap() ^= 1;
        }
        let look = receiver.service.look().await.unwrap();
        assert_eq!((look.withdrawn, look.queued), (withdrawn, withdrawn), "{reread:?}");
        assert_eq!(memory.alias(PASSED).is_none(), withdrawn == 1);
        receiver.service.drain().await.unwrap();
        assert_eq!(memory.alias(PASSED).as_deref(), Some("1"));
        assert_eq!(runs.lock().len(), 1 + withdrawn);
    }
}
