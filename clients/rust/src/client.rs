//! The client.

use std::{collections::HashMap, fmt, future::Future, sync::Arc, time::Duration};

use isomer_proto::encoder::v1::Encoder;
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{Response, Status};

use crate::{
    Channel, Error, Keys, Providers, Runs, Statistics, Tasks, batching::BatchOptions, call::Calls,
    collection::KnownSpaces,
};

/// A client of one Isomer server. Clones are cheap and share everything: make one and keep it. Any
/// number of threads and tasks may use it. It needs a tokio runtime; connections are made and kept
/// in the runtime of the first call.
#[derive(Clone)]
pub struct Client {
    pub(crate) calls: Calls,
    pub(crate) batching: BatchOptions,
    pub(crate) spaces: Arc<KnownSpaces>,
    pub(crate) encoders: Arc<Mutex<HashMap<String, Arc<Encoder>>>>,
}

impl Client {
    pub(crate) fn of(calls: Calls, batching: BatchOptions) -> Self {
        Self {
            calls,
            batching,
            spaces: Arc::default(),
            encoders: Arc::default(),
        }
    }

    /// The same client, whose calls end after this time, finished or not
    /// ([`Error::DeadlineExceeded`]). The server receives the remaining time. Make one for each
    /// piece of work: the time begins now.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        let mut made = self.clone();
        let until = Instant::now().checked_add(time);
        made.calls.until = match (self.calls.until, until) {
            (Some(before), Some(until)) => Some(before.min(until)),
            (before, until) => before.or(until),
        };
        made
    }

    /// The channel, for generated stubs.
    pub fn channel(&self) -> Channel {
        self.calls.channel.clone()
    }

    /// Makes a unary call by a generated stub, with this client's deadline, retries and errors.
    /// `make` is called for each attempt, and only for calls that may be made twice more than once
    /// after a broken connection. `path` names the rpc: `/isomer.eval.v1.TaskService/Score`.
    ///
    /// # Errors
    /// That of the last attempt.
    pub async fn call<T, A>(&self, path: &'static str, make: impl FnMut(Channel) -> A) -> Result<T, Error>
    where
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.calls.unary(path, make).await
    }

    /// Scores of vectors and of data sets.
    pub fn tasks(&self) -> Tasks {
        Tasks(self.calls.clone())
    }

    /// Tests and intervals of scores.
    pub fn statistics(&self) -> Statistics {
        Statistics(self.calls.clone())
    }

    /// Robustness checks.
    pub fn runs(&self) -> Runs {
        Runs(self.calls.clone())
    }

    /// Providers of encoders at the gateway.
    pub fn providers(&self) -> Providers {
        Providers(self.calls.clone())
    }

    /// Keys of the gateway, and its audit log.
    pub fn keys(&self) -> Keys {
        Keys(self.calls.clone())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("channel", &self.calls.channel)
            .finish_non_exhaustive()
    }
}
