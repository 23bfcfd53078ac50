//! Vectors for texts: from the cache, from a request in flight, or from a provider. All of them are
//! of one vector space.

use std::sync::Arc;

use isomer_adapters::metered;
use isomer_encoder_client::answer::asks;
use isomer_proto::encoder::v1::{EncodeRequest, EncodeResponse, Output, encode_request::Prompt};
use isomer_service_kit::{Fault, Tenant};
use isomer_usage::Count;
use tokio::time::{Instant, timeout_at};
use tonic::Code;

use super::{
    PricedVectors, Router,
    cache::{self, CacheScope},
    epoch::{Anchor, CHANGED, Epoch, Meeting, Origin, PendingCheck, changed},
    parts,
    replica::Replica,
    route::{OTHER_SPACE, Route},
    router::Shared,
};

/// Maximum number of times that a request is started if the vectors changed while it was answered:
/// one for the change, and one for a change that the comparison with the earlier vectors finds.
const ROUNDS: usize = 3;
/// Maximum number of bytes of all copies of a literal prompt.
const MOST_OF_PROMPTS: usize = 4 << 20;

impl Router {
    /// Vectors for texts of a tenant: from the cache, from a request in flight, or from a provider.
    ///
    /// # Errors
    /// `NOT_FOUND` if no provider offers the encoder; `FAILED_PRECONDITION` with the reason
    /// `OTHER_SPACE` if the providers that offer it have changed it; `UNAVAILABLE` if none of them
    /// answers; the provider's own refusal.
    pub async fn encode(
        &self,
        request: EncodeRequest,
        tenant: &Tenant,
        deadline: Option<Instant>,
    ) -> Result<PricedVectors, Fault> {
        let route = &*self.shared.table().route(&request.encoder_id)?;
        // Every server refuses such a request, but the cache would answer it.
        if request.inputs.is_empty() {
            return Err(Fault::invalid("inputs", "is empty").hint("give at least one text"));
        }
        check_prompt(&request)?;
        let count = Count::of_part();
        let encoding = Encoding {
            shared: &self.shared,
            route,
            tenant,
            deadline,
            count: &count,
        };
        let response = encoding.answer(request).await?;
        Ok(PricedVectors {
            response,
            cost_nano_usd: count.used().cost_nano_usd,
        })
    }
}

/// Refuses a literal prompt that would fill memory, because adapters put it in front of each text.
fn check_prompt(request: &EncodeRequest) -> Result<(), Fault> {
    let Some(Prompt::LiteralPrompt(prompt)) = &request.prompt else {
        return Ok(());
    };
    let (texts, bytes) = (request.inputs.len(), prompt.len().saturating_mul(request.inputs.len()));
    if bytes <= MOST_OF_PROMPTS {
        return Ok(());
    }
    let message = format!("has {bytes} bytes with {texts} texts, at most {MOST_OF_PROMPTS}");
    Err(Fault::invalid("literal_prompt", message).hint("shorten it, or send fewer texts at once"))
}

/// One request for vectors.
struct Encoding<'a> {
    shared: &'a Shared,
    route: &'a Route,
    tenant: &'a Tenant,
    deadline: Option<Instant>,
    count: &'a Count,
}

impl Encoding<'_> {
    /// Starts again with an empty cache if the vectors changed meanwhile.
    async fn answer(&self, request: EncodeRequest) -> Result<EncodeResponse, Fault> {
        if self.route.replicas().all(|replica| !replica.remote) {
            // The model of this process does not change, and the request may be large.
            return Ok(self.send(&self.route.epoch(), request).await?.0);
        }
        for _ in 0..ROUNDS {
            let epoch = self.route.epoch();
            match self.in_epoch(&epoch, request.clone()).await {
                Ok(answer) if Arc::ptr_eq(&epoch, &self.route.epoch()) => return Ok(answer),
                Ok(_) => {}
                Err(fault) if fault.reason == CHANGED => self.route.distrust(&epoch),
                Err(fault) => return Err(fault),
            }
        }
        Err(changed(&request.encoder_id))
    }

    async fn in_epoch(&self, epoch: &Arc<Epoch>, request: EncodeRequest) -> Result<EncodeResponse, Fault> {
        let meeting = Meeting::default();
        let look_up = |request: EncodeRequest| {
            let meeting = &meeting;
            async move {
                let scope = CacheScope {
                    route: self.route.generation,
                    epoch,
                    tenant: self.tenant,
                    meeting,
                };
                match &self.shared.cache {
                    // Routes for unlisted ids have no number of their own.
                    Some(cache) if self.route.remote() && scope.route > 0 && cache::applies(&request) => {
                        cache.encode(scope, request, |request| self.send(epoch, request)).await
                    }
                    _ => Ok(self.send(epoch, request).await?.0),
                }
            }
        };
        // Work in this process has no time limit, and is fastest in one batch.
        let most = if self.route.remote() {
            self.shared.policy.config.part_tokens
        } else {
            0
        };
        let parts = parts::cut(&request, most);
        let response = match parts.len() {
            0 | 1 => look_up(request).await?,
            _ => parts::send(&request, parts, self.route.replicas().count(), look_up).await?,
        };
        match meeting.unverified(epoch) {
            None => {}
            Some(PendingCheck::Text(anchor)) => self.verify(epoch, anchor).await?,
            Some(PendingCheck::Replicas(replicas)) => self.compare(epoch, replicas).await?,
        }
        Ok(response)
    }

    /// Encodes the oldest text of an answer again, and compares its vectors.
    async fn verify(&self, epoch: &Arc<Epoch>, Anchor { row, request }: Anchor) -> Result<(), Fault> {
        let encoder_id = request.encoder_id.clone();
        let (answer, origin) = self.send(epoch, request).await?;
        let now = cache::rows(&encoder_id, &answer, origin, 1)?;
        if !answer.errors.is_empty() || !now.iter().all(|now| row.agrees(now)) {
            return Err(changed(&encoder_id));
        }
        epoch.agree(row.origin, origin);
        Ok(())
    }

    /// Compares replicas with their first vectors. A replica that differs or does not answer ends
    /// the epoch: another replica may still answer the request.
    async fn compare(&self, epoch: &Arc<Epoch>, replicas: Vec<usize>) -> Result<(), Fault> {
        for replica in replicas {
            let now = Origin {
                replica,
                attempt: epoch.begin(),
            };
            let agrees = self.in_time(self.route.compare_again(replica)).await;
            agrees.map_err(|_| changed(&self.route.encoder_id))?;
            epoch.confirmed(now);
        }
        Ok(())
    }

    /// An answer of a provider, and its origin.
    async fn send(&self, epoch: &Arc<Epoch>, request: EncodeRequest) -> Result<(EncodeResponse, Origin), Fault> {
        let replicas = self.route.usable().await?;
        let encoder_id = request.encoder_id.clone();
        let call = |replica: Arc<Replica>, request| self.attempt(epoch, replica, request);
        // Boxed because the future is large and would otherwise be part of each caller's future.
        let answered = Box::pin(self.shared.send(&replicas, request, self.deadline, call));
        match answered.await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(changed(&encoder_id)),
            Err(fault) => {
                if fault.reason == OTHER_SPACE {
                    // The last provider was refused. The refusal is permanent, so the caller gets
                    // its error.
                    self.route.usable().await?;
                }
                Err(fault)
            }
        }
    }

    /// Makes one attempt at a replica. `None` if the epoch has ended: the caller's vectors from
    /// that epoch must not be combined with those of the replica.
    async fn attempt(
        &self,
        epoch: &Arc<Epoch>,
        replica: Arc<Replica>,
        request: EncodeRequest,
    ) -> Result<Option<(EncodeResponse, Origin)>, Fault> {
        let one_vector = asks(&request, Output::TextVector);
        self.in_time(self.route.confirm(&replica)).await?;
        if !Arc::ptr_eq(epoch, &self.route.epoch()) {
            return Ok(None);
        }
        let origin = Origin {
            replica: self.route.place(&replica),
            attempt: epoch.begin(),
        };
        let call = replica.backend.encode_for(self.tenant, request, self.deadline);
        let answer = metered(&replica.charging(self.count), call).await?;
        // The server may have been replaced since.
        self.in_time(self.route.confirm(&replica)).await?;
        if one_vector {
            self.route.fits(&replica, answer.vector_space.as_ref())?;
        }
        epoch.answered();
        Ok(Some((answer, origin)))
    }

    /// Waits for a comparison until the caller's deadline.
    async fn in_time(&self, comparison: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
        let Some(deadline) = self.deadline else {
            return comparison.await;
        };
        timeout_at(deadline, comparison).await.unwrap_or_else(|_| {
            let message = format!(
                "encoder `{}` was not compared with its first vectors before the caller's deadline",
                self.route.encoder_id
            );
            Err(Fault::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message))
        })
    }
}
