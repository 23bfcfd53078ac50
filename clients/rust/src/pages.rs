//! Lists that come in pages.

use std::future::Future;

use futures::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};

use crate::Error;

/// The entries of every page, each page fetched when the one before is used up.
pub(crate) fn pages<E, A>(fetch: impl Fn(String) -> A + Send + 'static) -> BoxStream<'static, Result<E, Error>>
where
    E: Send + 'static,
    A: Future<Output = Result<(Vec<E>, String), Error>> + Send + 'static,
{
    let pages = stream::try_unfold((Some(String::new()), fetch), |(token, fetch)| async move {
        let Some(token) = token else { return Ok(None) };
        let (entries, next) = fetch(token).await?;
        Ok::<_, Error>(Some((entries, ((!next.is_empty()).then_some(next), fetch))))
    });
    pages.map_ok(entries).try_flatten().boxed()
}

fn entries<E>(page: Vec<E>) -> impl Stream<Item = Result<E, Error>> {
    stream::iter(page.into_iter().map(Ok))
}
