//! Response bodies, read under a limit.

/// Most bytes of an error's body that are read.
const ERROR_BYTES: usize = 64 << 10;

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// It is longer than the limit. The part that fits is kept, since the beginning of an error
    /// often says what is wrong.
    #[error("the answer is longer than {most} bytes")]
    TooLong {
        /// The limit, in bytes.
        most: usize,
        /// The beginning.
        beginning: Vec<u8>,
    },
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
}

/// The body of an answer of at most `most` bytes, counted while they arrive.
///
/// # Errors
/// If the body is longer or the connection breaks.
pub async fn read(answer: &mut reqwest::Response, most: usize) -> Result<Vec<u8>, Unread> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        let room = most - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Err(Unread::TooLong { most, beginning: body });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The body of an answer: up to `most` bytes if it is a success, only the beginning if it is an
/// error.
///
/// # Errors
/// If the body of a success is longer or the connection breaks.
pub async fn read_by_status(answer: &mut reqwest::Response, most: usize) -> Result<Vec<u8>, Unread> {
    if answer.status().is_success() {
        return read(answer, most).await;
    }
    match read(answer, ERROR_BYTES.min(most)).await {
        Err(Unread::TooLong { beginning, .. }) => Ok(beginning),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn answer(length: usize) -> reqwest::Response {
        http::Response::new(vec![b'a'; length]).into()
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_the_limit_and_no_further() {
        assert_eq!(read(&mut answer(10), 10).await.unwrap(), [b'a'; 10]);
        match read(&mut answer(11), 10).await {
            Err(Unread::TooLong { most: 10, beginning }) => assert_eq!(beginning, [b'a'; 10]),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_long_error_is_cut_and_a_long_success_is_refused() {
        let answer = |status: u16| -> reqwest::Response {
            let answer = http::Response::builder()
                .status(status)
                .body(vec![b'a'; 2 * ERROR_BYTES]);
            answer.unwrap().into()
        };
        let body = read_by_status(&mut answer(500), usize::MAX).await.unwrap();
        assert_eq!(body.len(), ERROR_BYTES);
        assert_eq!(read_by_status(&mut answer(500), 10).await.unwrap().len(), 10);
        let body = read_by_status(&mut answer(200), 2 * ERROR_BYTES).await.unwrap();
        assert_eq!(body.len(), 2 * ERROR_BYTES);
        assert!(read_by_status(&mut answer(200), ERROR_BYTES).await.is_err());
    }
}
