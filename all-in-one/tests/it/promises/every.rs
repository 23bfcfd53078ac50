//! The promises common to all rpcs.

use std::sync::atomic::Ordering;

use isomer_proto::eval::v1::{CancelRunRequest, GetReportRequest, GetRunRequest, run_service_client::RunServiceClient};
use isomer_service_kit::{
    Fault,
    client::{self, ClientConfig},
};
use isomer_stubs::{
    promise::{keeps, promised},
    request::small_run,
    wait::found,
};

use super::{ask::ask, comments};
use crate::{harness::Harness, models};

/// Adds an answer that is not refused as promised, or not explained.
fn refused(promise: &str, name: &str, answer: Result<Vec<Vec<u8>>, tonic::Status>, wrong: &mut Vec<String>) {
    match answer {
        Ok(_) => wrong.push(format!("{name}: it was answered")),
        Err(status) => {
            let fault = Fault::from_status(&status);
            if !keeps(promise, &fault) || fault.message.is_empty() || fault.hint.is_none() {
                wrong.push(format!("{name}: {status:?}"));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_cannot_be_decoded_are_refused_by_every_rpc() {
    let harness = Harness::new().await;
    let key = harness.key().await;
    let mut wrong = Vec::new();
    let mut texts = 0;
    for (path, request) in comments::rpcs() {
        // This rpc is not served and reads no message.
        if path == "/tei.v1.Predict/PredictStream" {
            continue;
        }
        // A key with an unterminated varint.
        let mut broken = vec![vec![0xff; 11]];
        if let Some(message) = comments::not_utf8(&request, 4) {
            texts += 1;
            broken.push(message);
        }
        for message in broken {
            let name = format!("{path} {message:?}");
            let answer = ask(&harness, &key, &path, vec![message], &[]).await;
            let promise = "isomer.common.v1 INVALID_ARGUMENT UNDECODABLE_MESSAGE";
            refused(promise, &name, answer, &mut wrong);
        }
    }
    assert!(texts > 20, "most requests have a text somewhere: {texts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_methods_and_codings_are_explained() {
    let harness = Harness::new().await;
    let key = harness.key().await;
    let mut wrong = Vec::new();
    for (path, _) in comments::rpcs() {
        let (service, _) = path.rsplit_once('/').unwrap();
        for unknown in [format!("{service}/NoSuchMethod"), format!("{service}X/Get")] {
            let answer = ask(&harness, &key, &unknown, vec![Vec::new()], &[]).await;
            let named = answer.as_ref().is_err_and(|status| status.message().contains(&unknown));
            let promise = "isomer.common.v1 UNIMPLEMENTED NOT_SERVED_YET";
            refused(promise, &unknown, answer, &mut wrong);
            if !named {
                wrong.push(format!("{unknown} is not in the message"));
            }
        }
        let answer = ask(&harness, &key, &path, vec![Vec::new()], &[("grpc-encoding", "br")]).await;
        let promise = "isomer.common.v1 UNIMPLEMENTED UNSUPPORTED_ENCODING";
        refused(promise, &format!("{path} br"), answer, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_token_that_was_not_given_out_is_refused_by_every_list() {
    let harness = Harness::new().await;
    let key = harness.key().await;
    let mut wrong = Vec::new();
    let mut lists = 0;
    let promise = "isomer.common.v1 INVALID_ARGUMENT page_token";
    for (path, request) in comments::rpcs() {
        let fields = comments::message(&request).unwrap().field;
        let Some(token) = fields.into_iter().find(|field| field.name() == "page_token") else {
            continue;
        };
        lists += 1;
        for text in ["garbage", "00", "-1", "99999999999999999999", "zz.zz"] {
            let mut message = Vec::new();
            prost::encoding::string::encode(token.number() as u32, &text.to_owned(), &mut message);
            match ask(&harness, &key, &path, vec![message], &[]).await {
                Ok(_) => wrong.push(format!("{path} {text}: it was answered")),
                Err(status) if keeps(promise, &Fault::from_status(&status)) => {}
                Err(status) => wrong.push(format!("{path} {text}: {status:?}")),
            }
        }
        if let Err(status) = ask(&harness, &key, &path, vec![Vec::new()], &[]).await {
            wrong.push(format!("{path}: {status}"));
        }
    }
    assert_eq!(lists, 7, "lists with pages");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_under_way_has_no_report_and_is_not_deleted() {
    let harness = Harness::new().await;
    harness.models.silent.store(true, Ordering::SeqCst);
    let config = ClientConfig {
        address: format!("http://{}", harness.address),
        api_key: harness.key().await.text,
        ..ClientConfig::default()
    };
    let mut client = RunServiceClient::new(client::connect_lazy(&config).unwrap());
    let mut request = small_run(models::ENCODER);
    request.spec.as_mut().unwrap().limit = None;
    let id = client.create_run(request).await.unwrap().into_inner().run.unwrap().id;
    let report = GetReportRequest {
        id: id.clone(),
        ..GetReportRequest::default()
    };
    let cancel = |reason: String| CancelRunRequest { id: id.clone(), reason };
    let refused = Fault::from_status(&client.get_report(report).await.unwrap_err());
    promised("RunService.GetReport FAILED_PRECONDITION NO_REPORT", &refused);
    let delete = || isomer_proto::eval::v1::DeleteRunRequest { id: id.clone() };
    let refused = Fault::from_status(&client.delete_run(delete()).await.unwrap_err());
    promised("RunService.DeleteRun FAILED_PRECONDITION RUN_ACTIVE", &refused);
    let refused = Fault::from_status(&client.cancel_run(cancel("x".repeat(1001))).await.unwrap_err());
    promised("CancelRunRequest.reason INVALID_ARGUMENT reason", &refused);
    client.cancel_run(cancel("x".repeat(1000))).await.unwrap();
    let ended = async || {
        let request = GetRunRequest { id: id.clone() };
        let run = client.get_run(request).await.unwrap().into_inner().run.unwrap();
        run.end_time
    };
    found("the run ends", ended).await;
    client.delete_run(delete()).await.unwrap();
}
