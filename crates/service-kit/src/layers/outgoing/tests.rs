#![allow(clippy::unwrap_used)]
use futures::{FutureExt, StreamExt, stream};
use http_body_util::BodyExt;

use super::*;
use crate::limits::LimitsConfig;

fn budget() -> Budget {
    Budget::new(&LimitsConfig {
        max_message_bytes: 4096,
        max_bytes_in_flight: 1 << 20,
        ..LimitsConfig::default()
    })
}

fn outgoing(budget: &Budget, client: &Client, body: impl Into<Body>, is_stream: bool) -> Body {
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(client.clone());
    let outgoing = OutgoingAnswer::of(&mut request, budget);
    let reservation = request.extensions().get::<Reservation>().unwrap();
    reservation.answer(300 << 10).unwrap();
    outgoing.response(Response::new(body.into()), is_stream).into_body()
}

async fn piece(body: &mut Body) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test(start_paused = true)]
async fn memory_comes_back_when_the_last_piece_is_written() {
    let (budget, client) = (budget(), Client::new(None));
    let text = vec![b'x'; 2 * PIECE + 10];
    let mut body = outgoing(&budget, &client, text.clone(), false);
    assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
    let mut pieces = Vec::new();
    while !body.is_end_stream() {
        pieces.push(piece(&mut body).await);
    }
    assert_eq!((pieces.len(), pieces.concat()), (3, text));
    drop(body);
    let last = pieces.pop();
    drop(pieces);
    assert_eq!(budget.reserved(), 300 << 10);
    drop(last);
    assert_eq!(budget.reserved(), 0);
    assert!(client.answers.lock().unwritten.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_loses_its_connection() {
    for handed_over in [0, 1] {
        let (budget, client) = (budget(), Client::new(None));
        let mut body = outgoing(&budget, &client, vec![b'x'; 3 * PIECE], false);
        let _taken = if handed_over == 1 {
            Some(piece(&mut body).await)
        } else {
            None
        };
        tokio::time::advance(UNREAD - Duration::from_secs(1)).await;
        assert!(!client.has_stopped_reading());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(client.has_stopped_reading());
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_before_an_answer_does_not_count() {
    let (budget, client) = (budget(), Client::new(None));
    tokio::time::advance(UNREAD * 10).await;
    let body = outgoing(&budget, &client, vec![b'x'; 3 * PIECE], false);
    assert!(!client.has_stopped_reading());
    drop(body);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_keeps_its_connection() {
    let (budget, client) = (budget(), Client::new(None));
    let mut body = outgoing(&budget, &client, vec![b'x'; 50 * PIECE], false);
    // 64 KiB in 16 seconds is the minimum rate.
    for _ in 0..50 {
        drop(piece(&mut body).await);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert!(!client.has_stopped_reading());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_beside_others_is_dropped_alone() {
    let (budget, client) = (budget(), Client::new(None));
    let mut unread = outgoing(&budget, &client, vec![b'x'; 3 * PIECE], false);
    let mut read = outgoing(&budget, &client, vec![b'x'; 100 * PIECE], false);
    for _ in 0..60 {
        drop(piece(&mut read).await);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!client.has_stopped_reading());
    }
    unread.frame().await.unwrap().unwrap_err();
    drop(unread);
    assert_eq!(budget.reserved(), 300 << 10);
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_wait_for_a_client_that_is_busy_and_for_its_next_message() {
    let (budget, client) = (budget(), Client::new(None));
    let silent = stream::pending::<Result<Bytes, io::Error>>();
    let mut silent = outgoing(&budget, &client, Body::from_stream(silent), false);
    assert!(silent.frame().now_or_never().is_none());
    let messages = stream::repeat(Bytes::from_static(b"message")).map(Ok::<_, io::Error>);
    let mut unread = outgoing(&budget, &client, Body::from_stream(messages), true);
    tokio::time::advance(STARVED - Duration::from_secs(1)).await;
    assert!(!client.has_stopped_reading());
    assert_eq!(piece(&mut unread).await, "message");
    tokio::time::advance(STARVED).await;
    assert!(!client.has_stopped_reading());
    unread.frame().await.unwrap().unwrap_err();
    assert!(
        silent.frame().now_or_never().is_none(),
        "it waits for its handler, not for its client"
    );
}
