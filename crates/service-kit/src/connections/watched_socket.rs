//! A connection's socket, which closes when its time limit is reached.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::{Activity, Slot};
use crate::minimum_rate::MinimumRate;

/// How often a waiting connection checks the clock: the server may have become crowded in the
/// meantime.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A socket with a clock and a permit.
#[derive(Debug)]
pub(crate) struct WatchedSocket<I> {
    io: I,
    activity: Arc<Activity>,
    place: Slot,
    look: Pin<Box<Sleep>>,
    /// How long the client may read too little for anything to be written, while data waits to be
    /// written.
    stuck: Option<MinimumRate>,
}

impl<I> WatchedSocket<I> {
    pub(super) fn new(io: I, activity: Arc<Activity>, place: Slot) -> Self {
        let first = place.0.patience.first_request.min(LOOK_EVERY);
        Self {
            io,
            activity,
            place,
            look: Box::pin(tokio::time::sleep(first)),
            stuck: None,
        }
    }

    /// Waits for the clock while the socket is not ready. An error means that the time limit is
    /// reached.
    fn is_over(&mut self, cx: &mut Context<'_>) -> Result<(), io::Error> {
        while self.look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let shared = &self.place.0;
            let closing = self.activity.closing_time(shared);
            let unread = self.stuck.map(|rate| rate.deadline());
            let next = match (closing, unread) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if next.is_some_and(|at| at <= now) || self.activity.client.has_stopped_reading() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the other side was silent for too long",
                ));
            }
            let look = now + LOOK_EVERY;
            self.look.as_mut().reset(next.map_or(look, |at| at.min(look)));
        }
        Ok(())
    }

    /// Records the outcome of a write.
    fn wrote(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &outcome {
            if let (Some(rate), Ok(bytes)) = (&mut self.stuck, written) {
                rate.passed(*bytes);
            }
            return outcome;
        }
        let unread = self.place.0.patience.unread;
        self.stuck.get_or_insert_with(|| MinimumRate::new(unread));
        match self.is_over(cx) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WatchedSocket<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // The clock is also checked here: a byte now and then must not keep a connection open for
        // ever.
        if let Err(error) = this.is_over(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut this.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WatchedSocket<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All data is written before the flush.
        self.stuck = None;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
