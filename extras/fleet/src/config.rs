//! Where the queue is, and how units are leased.

use std::{path::PathBuf, time::Duration};

use isomer_blobs::StoreConfig;
use isomer_service_kit::config::{ConfigError, Validate};
use serde::{Deserialize, Serialize};

/// Settings of [`crate::Queue`], of [`crate::Dispatcher`] and of [`crate::worker`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetConfig {
    /// Where the work of runs is done. Empty: in this process. `nats://HOST:PORT` (several
    /// separated by commas, `tls://` for TLS): by the workers at this NATS server with JetStream.
    pub engine: String,
    /// File with the NATS credentials of this process (JWT and seed).
    pub credentials_file: Option<PathBuf>,
    /// PEM file with the authorities of the NATS servers' certificates; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Name of this fleet's stream, buckets and subjects, if several share a NATS server: letters,
    /// digits and `-`.
    pub name: String,
    /// Servers of the NATS cluster that keep each queued unit: 1, 3 or 5.
    pub replicas: usize,
    /// Seconds without a sign of life after which a unit of a worker is given to another.
    pub lease_seconds: u64,
    /// Maximum number of times a unit is started, including by workers that died over it.
    pub attempts: u32,
    /// Units that a run has queued or in work at the same time.
    pub units_in_flight: usize,
    /// Seconds after which a unit without an answer is looked for in the store and offered again.
    pub republish_seconds: u64,
    /// Seconds for which a run waits while no worker takes its units; then it fails; running it
    /// again resumes it.
    pub worker_wait_seconds: u64,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            engine: String::new(),
            credentials_file: None,
            ca_file: None,
            name: "isomer".to_owned(),
            replicas: 1,
            lease_seconds: 30,
            attempts: 5,
            units_in_flight: 64,
            republish_seconds: 5,
            worker_wait_seconds: 300,
        }
    }
}

impl FleetConfig {
    /// Whether units go to workers.
    pub fn is_set(&self) -> bool {
        !self.engine.is_empty()
    }

    /// Checks that there is a store if units go to workers.
    ///
    /// # Errors
    /// Names `store.url`.
    pub fn check_store(&self, store: &StoreConfig) -> Result<(), ConfigError> {
        if !self.is_set() || store.is_set() {
            return Ok(());
        }
        Err(ConfigError::new(
            "store.url",
            "is empty, and workers (fleet.engine) leave their answers in a store",
            "name a folder that all machines share, or s3://BUCKET/PREFIX (--store)",
        ))
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    pub(crate) fn worker_wait(&self) -> Duration {
        Duration::from_secs(self.worker_wait_seconds)
    }

    pub(crate) fn republish_after(&self) -> Duration {
        Duration::from_secs(self.republish_seconds)
    }
}

impl Validate for FleetConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let form =
            "write nats://HOST:PORT or tls://HOST:PORT, several separated by commas; leave it empty for this process";
        let known = |server: &str| server.starts_with("nats://") || server.starts_with("tls://");
        if self.is_set() && !self.engine.split(',').map(str::trim).all(known) {
            return Err(ConfigError::new(
                "engine",
                "names something that is not a NATS server",
                form,
            ));
        }
        if self.engine.contains('@') {
            let message = "holds a user or a password, which would appear wherever the address is shown";
            return Err(ConfigError::new("engine", message, "give them in `credentials_file`"));
        }
        let word = !self.name.is_empty()
            && self
                .name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !word {
            let message = "is empty or has a character that a NATS subject cannot hold";
            return Err(ConfigError::new("name", message, "use letters, digits and `-`"));
        }
        if !matches!(self.replicas, 1 | 3 | 5) {
            return Err(ConfigError::new(
                "replicas",
                "is not 1, 3 or 5",
                "use 3 with a cluster of three servers",
            ));
        }
        let least = [
            ("lease_seconds", self.lease_seconds),
            ("attempts", self.attempts.into()),
            ("units_in_flight", self.units_in_flight as u64),
            ("republish_seconds", self.republish_seconds),
            ("worker_wait_seconds", self.worker_wait_seconds),
        ];
        match least.into_iter().find(|(_, value)| *value == 0) {
            Some((field, _)) => Err(ConfigError::new(
                field,
                "is 0: nothing would ever be done",
                "give at least 1",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_could_not_work_is_named() {
        let with = |change: fn(&mut FleetConfig)| {
            let mut config = FleetConfig::default();
            change(&mut config);
            config.validate().map_err(|error| error.field().to_owned())
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|c| c.engine = "nats://a:4222,tls://b:4222".into()), Ok(()));
        let refused: [(fn(&mut FleetConfig), &str); 6] = [
            (|c| c.engine = "redis://h".into(), "engine"),
            (|c| c.engine = "nats://me:pw@h:4222".into(), "engine"),
            (|c| c.name = "a.b".into(), "name"),
            (|c| c.replicas = 2, "replicas"),
            (|c| c.lease_seconds = 0, "lease_seconds"),
            (|c| c.attempts = 0, "attempts"),
        ];
        for (change, field) in refused {
            assert_eq!(with(change), Err(field.to_owned()));
        }
    }
}
