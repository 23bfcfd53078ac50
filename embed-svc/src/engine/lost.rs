//! Devices that have failed permanently.

use std::sync::Arc;

use tokio::sync::SetOnce;

use crate::error::EmbedError;

/// The error of a device that has failed permanently. Its driver answers every further call of the
/// process with the same error, so the process must end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LostDevice(Arc<SetOnce<EmbedError>>);

impl LostDevice {
    /// Records the error of a batch if its device is lost. The first error is kept, because it
    /// names the cause.
    pub(crate) fn note<T>(&self, result: &Result<T, EmbedError>) {
        if let Err(error @ EmbedError::DeviceLost { .. }) = result
            && self.0.set(error.for_another()).is_ok()
        {
            tracing::error!(%error, "the process must be restarted");
        }
    }

    /// Waits for a signal to stop, or until a device is lost.
    pub async fn or(&self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            _ = self.0.wait() => {}
        }
    }

    /// # Errors
    /// If a device is lost.
    pub fn check(&self) -> Result<(), EmbedError> {
        self.0.get().map_or(Ok(()), |error| Err(error.for_another()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_lost_device_is_kept_and_its_first_error_stays() {
        let lost = LostDevice::default();
        let batch = |problem: &str| {
            Err::<(), _>(EmbedError::DeviceLost {
                device: "cuda:1".into(),
                problem: problem.into(),
            })
        };
        lost.note(&Ok(()));
        lost.note::<()>(&Err(EmbedError::OutOfMemory {
            device: "cuda:0".into(),
        }));
        assert!(lost.check().is_ok());
        let waiting = tokio::spawn({
            let lost = lost.clone();
            async move { lost.or(std::future::pending()).await }
        });
        lost.note(&batch("an illegal address"));
        lost.note(&batch("a later error"));
        waiting.await.expect("it has waited");
        let error = lost.check().expect_err("a device is lost").to_string();
        assert!(
            error.contains("cuda:1") && error.contains("an illegal address"),
            "{error}"
        );
    }
}
