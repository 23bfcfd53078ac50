//! Bodies of answers, read under a limit.

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// It is longer than the limit. What fits is here: the beginning of an error says what is wrong, too.
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

/// The body of an answer of at most `most` bytes, counted as they come.
///
/// # Errors
/// A longer one; a connection that breaks.
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
}
