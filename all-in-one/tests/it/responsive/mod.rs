//! Nothing heavy runs on the runtime's threads: a server with one thread answers health checks
//! while any call is in flight.
//!
//! The rows are all rpcs of the descriptor set and all HTTP paths: a row without a case fails the
//! test. A case is a large legal request, or one that takes long. In a debug build its numbers are
//! smaller. Print the milliseconds with
//! `cargo test --release -p isomer-all-in-one --test it responsive:: -- --nocapture`.

mod alone;
mod http;
mod rows;
mod statistics;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use alone::IsolatedServer;
use rows::{Cost, Row};

use crate::promises::comments;

/// A call is heavy if it takes at least this many times as long as a health check alone.
const HEAVY: u32 = 5;
/// Maximum number of attempts of a call before it counts as delaying health checks.
const TRIES: u8 = 3;

#[test]
fn every_rpc_and_every_route_has_a_case() {
    let mut served: BTreeSet<String> = comments::rpcs().into_iter().map(|(path, _)| path).collect();
    served.extend(isomer_gateway::http_paths().into_iter().map(str::to_owned));
    let cases = rows::all().into_iter().map(|row| row.name);
    let cases: BTreeSet<String> = cases
        .chain(http::READ_NO_BODY.iter().map(ToString::to_string))
        .collect();
    assert_eq!(served, cases, "left: rows that are served; right: rows with a case");
}

/// Response times of health checks while a call was in flight.
struct ResponseTimes {
    call: Duration,
    answers: usize,
    longest: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_answers_while_any_call_is_under_way() {
    let only = std::env::var("RESPONSIVE_ONLY").unwrap_or_default();
    let wanted = |row: &Row| row.name.contains(&only);
    let calls = rows::all().iter().filter(|row| wanted(row)).count();
    let alone = IsolatedServer::start(calls * usize::from(TRIES));
    let mut failed = Vec::new();
    // Other programs slow down some of the checks, so the shortest time counts.
    let mut undisturbed = Duration::MAX;
    // Other programs use the processors too, so a failed call is repeated; only a call that fails
    // each time is our fault.
    for left in (0..TRIES).rev() {
        let again = std::mem::take(&mut failed);
        let is_first = left + 1 == TRIES;
        for row in rows::all().into_iter().filter(wanted) {
            let name = format!("{} ({})", row.name, row.what);
            if !is_first && !again.iter().any(|(known, _)| *known == name) {
                continue;
            }
            undisturbed = undisturbed.min(alone.health_by_itself().await);
            if let Err(why) = measure(&alone, row, &name, undisturbed).await {
                failed.push((name, why));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

async fn measure(alone: &IsolatedServer, row: Row, name: &str, own: Duration) -> Result<(), String> {
    let takes = row.takes;
    let watched = watch(alone, row).await;
    println!(
        "{:>8.1} ms, health {:>6.1} ms at most, {:>5} answers, alone {:>5.2} ms: {name}",
        watched.call.as_secs_f64() * 1e3,
        watched.longest.as_secs_f64() * 1e3,
        watched.answers,
        own.as_secs_f64() * 1e3,
    );
    if watched.answers == 0 {
        return Err("health answered after the call".to_owned());
    }
    if watched.call < own * HEAVY {
        return Err(format!("{:?} is not heavy beside {own:?}", watched.call));
    }
    // Computation runs on other threads, so a health check never waits for half of it. A message is
    // decoded on the thread that serves it, as a part of moving its bytes.
    let most = match takes {
        Cost::Computing => watched.call / 2,
        Cost::Moving => watched.call * 4 / 5,
    };
    if watched.longest > most {
        return Err(format!("health waited {:?} of {:?}", watched.longest, watched.call));
    }
    Ok(())
}

async fn watch(alone: &IsolatedServer, row: Row) -> ResponseTimes {
    let mut health = alone.health().await;
    let way = (row.request)();
    let call = tokio::spawn(alone.call(row.name, way));
    let began = Instant::now();
    let (mut answers, mut longest) = (0, Duration::ZERO);
    loop {
        let asked = Instant::now();
        alone::check(&mut health).await;
        if call.is_finished() {
            // This response waited for the call, perhaps until it ended.
            let ended = call.await.unwrap();
            longest = longest.max(ended.saturating_duration_since(asked));
            return ResponseTimes {
                call: ended.duration_since(began),
                answers,
                longest,
            };
        }
        answers += 1;
        longest = longest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
