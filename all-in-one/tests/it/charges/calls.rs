//! Calls that end in a chosen way.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use isomer_service_kit::{
    Fault,
    client::{self, ClientConfig},
};
use isomer_stubs::{raw::Raw, wait::until};
use tonic::{Code, Request, Status, client::Grpc};

use crate::{
    harness::{Harness, Key},
    models::ENCODER,
};

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Answer,
    Error,
    Deadline,
    Gone,
}

/// The client's deadline: part of the response has arrived by then.
const CUT: Duration = Duration::from_secs(2);
/// How long a leaving client stays after a model has begun its work: part of the response arrives.
const STAYS: Duration = Duration::from_millis(500);

/// A call whose client leaves while the models work on it.
///
/// # Errors
/// If the call ended before.
async fn left<T: std::fmt::Debug>(harness: &Harness, call: impl Future<Output = T>) -> Result<(), String> {
    let before = harness.models.counted();
    let leaves = async {
        until("a model works", || harness.models.counted() != before).await;
        tokio::time::sleep(STAYS).await;
    };
    tokio::select! {
        ended = call => Err(format!("it ended before its client left: {ended:?}")),
        () = leaves => Ok(()),
    }
}

/// The answers to a gRPC call.
pub async fn all(
    harness: &Harness,
    key: &Key,
    path: &str,
    messages: Vec<Vec<u8>>,
    end: End,
) -> Result<Vec<Vec<u8>>, Status> {
    let config = ClientConfig {
        address: format!("http://{}", harness.address),
        api_key: key.text.clone(),
        ..ClientConfig::default()
    };
    let mut grpc = Grpc::new(client::connect_lazy(&config).unwrap());
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    // A client that streams continues as long as it gets responses.
    let open = messages.len() > 1 && matches!(end, End::Deadline | End::Gone);
    let rest = if open {
        stream::pending().left_stream()
    } else {
        stream::empty().right_stream()
    };
    let mut request = Request::new(stream::iter(messages).chain(rest));
    if end == End::Deadline {
        request.set_timeout(CUT);
    }
    // This is for services whose messages name no encoder.
    request
        .metadata_mut()
        .insert("isomer-encoder", ENCODER.parse().unwrap());
    let answers = grpc.streaming(request, path.parse().unwrap(), Raw).await?;
    answers.into_inner().try_collect().await
}

/// A gRPC call of any kind.
///
/// # Errors
/// If the call ended in an unexpected way.
pub async fn grpc(harness: &Harness, key: &Key, path: &str, messages: Vec<Vec<u8>>, end: End) -> Result<(), String> {
    let call = all(harness, key, path, messages, end);
    if end == End::Gone {
        return left(harness, call).await;
    }
    match (end, call.await) {
        (End::Answer, Ok(_)) => Ok(()),
        // The client's own clock may be a little ahead of the server's.
        (End::Deadline, Err(status)) if matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled) => Ok(()),
        (End::Error, Err(status)) if status.code() != Code::DeadlineExceeded => Ok(()),
        (_, ended) => Err(format!("it ended in another way: {ended:?}")),
    }
}

/// A gRPC call that uses no model, whatever its result.
pub async fn free(harness: &Harness, key: &Key, path: &str) -> Result<(), String> {
    match tokio::time::timeout(CUT, all(harness, key, path, vec![Vec::new()], End::Answer)).await {
        Ok(Err(status)) if status.code() == Code::Unimplemented => Err(format!("it is not served: {status}")),
        _ => Ok(()),
    }
}

/// A gRPC call that is refused, whatever its request.
///
/// # Errors
/// If the call was not refused, or was refused as an unknown method.
pub async fn refused(harness: &Harness, key: &Key, path: &str) -> Result<(), String> {
    match all(harness, key, path, vec![Vec::new()], End::Answer).await {
        Err(status) if status.code() == Code::Unimplemented && Fault::from_status(&status).hint.is_some() => Ok(()),
        ended => Err(format!("it ended in another way: {ended:?}")),
    }
}

/// An HTTP call. Its deadline is the server's.
///
/// # Errors
/// As [`grpc`].
pub async fn http(harness: &Harness, key: &Key, path: &str, body: Option<String>, end: End) -> Result<(), String> {
    let url = format!("http://{}{path}", harness.address);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = match body {
        Some(body) => client.post(url).header("content-type", "application/json").body(body),
        None => client.get(url),
    };
    let call = request.bearer_auth(key.text.expose().unwrap()).send();
    if end == End::Gone {
        return left(harness, call).await;
    }
    let answer = call.await.map_err(|error| format!("{error:?}"))?;
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap_or_default();
    match (end, status) {
        (End::Answer, 200) | (End::Error, 400..=503) | (End::Deadline, 504) => Ok(()),
        _ => Err(format!("it ended with {status}: {text}")),
    }
}

/// The body of an answer to a GET.
pub async fn get(harness: &Harness, key: &Key, path: &str) -> String {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.get(format!("http://{}{path}", harness.address));
    let answer = request.bearer_auth(key.text.expose().unwrap()).send().await.unwrap();
    answer.text().await.unwrap()
}

/// The headers and the body of the answer to a POST, if it is refused.
pub async fn refusal(harness: &Harness, key: &Key, path: &str, body: &str) -> Option<String> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("http://{}{path}", harness.address));
    let request = request.header("content-type", "application/json").body(body.to_owned());
    let answer = request.bearer_auth(key.text.expose().unwrap()).send().await.unwrap();
    if answer.status().is_success() {
        return None;
    }
    let headers = format!("{:?}", answer.headers());
    Some(headers + &answer.text().await.unwrap())
}
