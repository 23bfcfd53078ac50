//! Response bodies, read up to a limit.

use isomer_service_kit::{Fault, WorkMemory};

/// Maximum number of bytes that are read of an error's body.
const ERROR_BYTES: usize = 64 << 10;

/// The reason why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is longer than the limit. The part within the limit is kept, because the beginning of an
    /// error often contains the reason.
    #[error("the answer is longer than {most} bytes")]
    TooLong {
        /// The limit, in bytes.
        most: usize,
        beginning: Vec<u8>,
    },
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
    /// The request for which it is read may reserve no more memory.
    #[error(transparent)]
    NoMemory(#[from] Fault),
}

/// Memory of an answer of `n` bytes while it is read and parsed, as a multiple of `n`.
const PEAK_FACTOR: usize = 2;

/// The body of an answer of at most `most` bytes, counted as they arrive.
///
/// # Errors
/// If the body is longer or the connection breaks.
pub async fn read(answer: &mut reqwest::Response, most: usize) -> Result<Vec<u8>, BodyError> {
    read_in_memory(answer, most, &mut WorkMemory::new()).await
}

async fn read_in_memory(
    answer: &mut reqwest::Response,
    most: usize,
    memory: &mut WorkMemory,
) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        let room = most - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Err(BodyError::TooLong { most, beginning: body });
        }
        memory.grow_to((body.len() + chunk.len()).saturating_mul(PEAK_FACTOR))?;
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The body of an answer: up to `most` bytes if it is a success, only the beginning if it is an
/// error.
///
/// # Errors
/// If the body of a success is longer or the connection breaks.
pub async fn read_by_status(answer: &mut reqwest::Response, most: usize) -> Result<Vec<u8>, BodyError> {
    read_by_status_in_memory(answer, most, &mut WorkMemory::new()).await
}

/// [`read_by_status`] within the memory of the request for which it is read. The caller holds the
/// memory until the body is parsed.
///
/// # Errors
/// Those of [`read_by_status`]; also if the request may reserve no more memory.
pub async fn read_by_status_in_memory(
    answer: &mut reqwest::Response,
    most: usize,
    memory: &mut WorkMemory,
) -> Result<Vec<u8>, BodyError> {
    if answer.status().is_success() {
        return read_in_memory(answer, most, memory).await;
    }
    match read_in_memory(answer, ERROR_BYTES.min(most), memory).await {
        Err(BodyError::TooLong { beginning, .. }) => Ok(beginning),
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
            Err(BodyError::TooLong { most: 10, beginning }) => assert_eq!(beginning, [b'a'; 10]),
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
