//! Finds the items of a batch because of which a server refuses the whole batch.

use tonic::Code;

/// The answers to a batch, and its refused items.
#[derive(Debug)]
pub struct HalvedBatch<T, E> {
    /// Parts of the batch with their answers.
    pub answers: Vec<(Vec<usize>, T)>,
    /// Items that are refused alone, with the refusal.
    pub refused: Vec<(usize, E)>,
}

/// Number of halvings of a refused batch after which some part must have succeeded. A server that
/// refuses everything is not asked for each item.
const HOPELESS_AFTER: usize = 3;

/// Whether a refusal may be due to one of the texts. Other codes concern the caller or the server.
pub fn concerns_texts(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition | Code::Internal | Code::Unknown
    )
}

/// Sends a batch. If it is refused and `of_items` holds for the refusal, it is halved until each
/// part is answered or has one item.
///
/// # Errors
/// A refusal for which `of_items` does not hold; the first refusal if no part is answered after
/// three halvings.
pub async fn send<T, E, F>(
    batch: Vec<usize>,
    send: impl Fn(Vec<usize>) -> F,
    of_items: impl Fn(&E) -> bool,
) -> Result<HalvedBatch<T, E>, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut halved = HalvedBatch {
        answers: Vec::new(),
        refused: Vec::new(),
    };
    let (mut parts, mut halvings) = (vec![batch], 0);
    while !parts.is_empty() {
        let mut halves = Vec::new();
        for mut part in std::mem::take(&mut parts) {
            match send(part.clone()).await {
                Ok(answer) => halved.answers.push((part, answer)),
                Err(error) if !of_items(&error) => return Err(error),
                Err(error) => match part.as_slice() {
                    [item] => halved.refused.push((*item, error)),
                    _ => {
                        let second = part.split_off(part.len() / 2);
                        halves.push((error, [part, second]));
                    }
                },
            }
        }
        if halvings == HOPELESS_AFTER && halved.answers.is_empty() && !halves.is_empty() {
            let (error, _) = halves.swap_remove(0);
            return Err(error);
        }
        parts.extend(halves.into_iter().flat_map(|(_, halves)| halves));
        halvings += 1;
    }
    Ok(halved)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use super::*;

    /// Sends the numbers below 64 to a server that refuses batches with some of them; returns the
    /// result and the number of calls.
    async fn sent(refuses: fn(usize) -> bool, code: Code) -> (Result<HalvedBatch<(), Code>, Code>, usize) {
        let calls = Cell::new(0);
        let send_part = |part: Vec<usize>| {
            calls.set(calls.get() + 1);
            let refused = part.into_iter().any(refuses);
            async move { if refused { Err(code) } else { Ok(()) } }
        };
        let halved = send((0..64).collect(), send_part, |code: &Code| concerns_texts(*code)).await;
        (halved, calls.get())
    }

    #[tokio::test]
    async fn refused_items_are_found_and_all_others_are_answered() {
        let one: fn(usize) -> bool = |item| item == 7;
        let several: fn(usize) -> bool = |item| [0, 1, 40, 63].contains(&item);
        let none: fn(usize) -> bool = |_| false;
        for (refuses, expected) in [(one, vec![7]), (several, vec![0, 1, 40, 63]), (none, vec![])] {
            let (halved, _) = sent(refuses, Code::Internal).await;
            let halved = halved.unwrap();
            let mut refused: Vec<usize> = halved.refused.iter().map(|(item, _)| *item).collect();
            refused.sort_unstable();
            assert_eq!(refused, expected);
            let mut answered: Vec<usize> = halved.answers.into_iter().flat_map(|(part, ())| part).collect();
            answered.sort_unstable();
            assert!(answered.iter().copied().eq((0..64).filter(|item| !refuses(*item))));
        }
    }

    #[tokio::test]
    async fn a_server_that_refuses_everything_is_not_asked_for_each_item() {
        let (halved, calls) = sent(|_| true, Code::InvalidArgument).await;
        assert_eq!((halved.unwrap_err(), calls), (Code::InvalidArgument, 1 + 2 + 4 + 8));
        let (halved, calls) = sent(|_| true, Code::Unauthenticated).await;
        assert_eq!((halved.unwrap_err(), calls), (Code::Unauthenticated, 1));
    }
}
