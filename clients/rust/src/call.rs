//! One call: its time, its attempts, its error.

use std::{future::Future, time::Duration};

use isomer_encoder_client::retry::Policy;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Response, Status};

use crate::{Channel, Error};

/// Rpcs that must not be made twice. All others may be repeated: CreateRun has a `request_id`, by
/// which the server recognises a repeated request.
const ONCE: [&str; 5] = [
    "/isomer.eval.v1.RunService/DeleteRun",
    "/isomer.gateway.v1.ProviderService/CreateProvider",
    // With an etag, a second UpdateProvider would be ABORTED because of the first one's change.
    "/isomer.gateway.v1.ProviderService/UpdateProvider",
    "/isomer.gateway.v1.ProviderService/DeleteProvider",
    "/isomer.gateway.v1.AccessService/CreateKey",
];

/// How near to its end an attempt that was cut off counts as over for want of time: both this side
/// and the library below watch the clock, and either may be first.
const SLACK: Duration = Duration::from_millis(20);

/// Makes calls as the settings say.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    pub(crate) channel: Channel,
    pub(crate) retries: Policy,
    /// The time for one request, its retries included.
    pub(crate) timeout: Option<Duration>,
    /// The end of all calls.
    pub(crate) until: Option<Instant>,
}

/// Calls an rpc by its stub: `unary!(calls, EncoderServiceClient.encode,
/// "/isomer.encoder.v1.EncoderService/Encode", request)`.
macro_rules! unary {
    ($calls:expr, $stub:ident.$method:ident, $path:literal, $request:expr) => {{
        let request = $request;
        let make = |channel| {
            let request = request.clone();
            async move {
                let mut stub = $stub::new(channel).max_decoding_message_size(usize::MAX);
                stub.$method(request).await
            }
        };
        $calls.unary($path, make).await
    }};
}

/// Opens a stream of answers by its stub, once.
macro_rules! opened {
    ($calls:expr, $stub:ident.$method:ident, $path:literal, $request:expr) => {{
        let calls = &$calls;
        let mut stub = $stub::new(calls.channel.clone()).max_decoding_message_size(usize::MAX);
        let opened = stub.$method($request).await;
        opened
            .map(tonic::Response::into_inner)
            .map_err(|status| Error::from_status(&status, $path, 1))
    }};
}

pub(crate) use {opened, unary};

impl Calls {
    fn deadline(&self) -> Option<Instant> {
        let own = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match (own, self.until) {
            (Some(own), Some(until)) => Some(own.min(until)),
            (own, until) => own.or(until),
        }
    }

    /// Makes an rpc, again as the policy says.
    pub(crate) async fn unary<T, A>(&self, path: &'static str, mut make: impl FnMut(Channel) -> A) -> Result<T, Error>
    where
        A: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = self.deadline();
        let mut attempt = 1;
        loop {
            // A request whose deadline has passed is not sent.
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::deadline(path, attempt));
            }
            let attempted = self.attempt(path, attempt, deadline, &mut make);
            let attempted = match deadline {
                Some(deadline) => timeout_at(deadline, attempted)
                    .await
                    .unwrap_or_else(|_| Err((Error::deadline(path, attempt), false))),
                None => attempted.await,
            };
            let (error, renewed) = match attempted {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if !renewed {
                self.pause(error, path, attempt, deadline).await?;
            }
            attempt += 1;
        }
    }

    /// One attempt. An error comes with whether another one may begin at once, with a new token.
    async fn attempt<T, A>(
        &self,
        path: &'static str,
        attempt: u32,
        deadline: Option<Instant>,
        make: &mut impl FnMut(Channel) -> A,
    ) -> Result<T, (Error, bool)>
    where
        A: Future<Output = Result<Response<T>, Status>>,
    {
        let secret = match self.channel.token() {
            Some(token) => Some(token.header().await.map_err(|error| (error, false))?),
            None => None,
        };
        let status = match make(self.channel.attempt(secret.clone(), deadline)).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => status,
        };
        let over = deadline.is_some_and(|deadline| Instant::now() + SLACK >= deadline);
        if over && matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded) {
            return Err((Error::deadline(path, attempt), false));
        }
        let error = Error::from_status(&status, path, attempt);
        let refused = attempt == 1 && status.code() == Code::Unauthenticated;
        if let (true, Some(token), Some(secret)) = (refused, self.channel.token(), &secret) {
            token.refused(secret).await;
            return Err((error, true));
        }
        Err((error, false))
    }

    /// Waits before a call is made again; the error where that makes no sense: it is final, or the
    /// pause would use up the time that is left.
    pub(crate) async fn pause(
        &self,
        error: Error,
        path: &str,
        attempt: u32,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let Some(wait) = self.retries.wait(error.fault(), attempt, !ONCE.contains(&path)) else {
            return Err(error);
        };
        if deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
            return Err(error);
        }
        sleep(wait).await;
        Ok(())
    }

    /// The end of a stream of answers, where its caller has set one.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use prost::Message;

    use super::ONCE;

    /// Rpcs whose names sound as if they must not be made twice, and that may be.
    const TWICE: [&str; 4] = [
        // By its request_id.
        "/isomer.eval.v1.RunService/CreateRun",
        // It sets what it names; keys have no etag.
        "/isomer.gateway.v1.AccessService/UpdateKey",
        // Cancelling or revoking twice has the same effect as once.
        "/isomer.eval.v1.RunService/CancelRun",
        "/isomer.gateway.v1.AccessService/RevokeKey",
    ];

    #[test]
    fn every_rpc_that_makes_changes_or_deletes_is_made_once_or_known_to_bear_it() {
        let set = prost_types::FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut paths = Vec::new();
        for file in set.file.iter().filter(|file| file.package().starts_with("isomer.")) {
            for service in &file.service {
                let methods = service.method.iter();
                paths.extend(methods.map(|method| format!("/{}.{}/{}", file.package(), service.name(), method.name())));
            }
        }
        let changes = |path: &&String| {
            let name = path.rsplit('/').next().unwrap();
            ["Create", "Update", "Delete", "Cancel", "Revoke"]
                .iter()
                .any(|verb| name.starts_with(verb))
        };
        let mut found: Vec<_> = paths.iter().filter(changes).map(String::as_str).collect();
        let mut known: Vec<_> = ONCE.into_iter().chain(TWICE).collect();
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
