//! Streams of answers.

use std::task::{Poll, ready};

use futures::{Stream, StreamExt, stream::poll_fn};

/// Passes items on up to and including the first error, which ends the stream. Later items are not
/// awaited.
pub fn until_error<T, E>(stream: impl Stream<Item = Result<T, E>>) -> impl Stream<Item = Result<T, E>> {
    let mut stream = Box::pin(stream);
    let mut failed = false;
    poll_fn(move |context| {
        if failed {
            return Poll::Ready(None);
        }
        let item = ready!(stream.poll_next_unpin(context));
        failed = matches!(item, Some(Err(_)));
        Poll::Ready(item)
    })
}

#[cfg(test)]
mod tests {
    use futures::{
        FutureExt,
        stream::{iter, pending},
    };

    use super::*;

    #[test]
    fn a_stream_ends_with_its_first_error() {
        let items = |items: Vec<Result<u8, &'static str>>| {
            let stream = until_error(iter(items));
            stream.collect::<Vec<_>>().now_or_never()
        };
        assert_eq!(items(vec![Ok(1), Ok(2)]), Some(vec![Ok(1), Ok(2)]));
        assert_eq!(
            items(vec![Ok(1), Err("x"), Ok(2), Err("y")]),
            Some(vec![Ok(1), Err("x")])
        );
        assert_eq!(items(vec![]), Some(vec![]));
    }

    #[test]
    fn a_sender_that_goes_quiet_after_an_error_does_not_hold_the_end() {
        let answers = iter([Ok(1), Err("x")]).chain(pending());
        assert_eq!(
            until_error(answers).collect::<Vec<_>>().now_or_never(),
            Some(vec![Ok(1), Err("x")])
        );
    }
}
