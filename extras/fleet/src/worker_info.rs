//! The registered workers of a fleet.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    activity::LaneActivity,
    unit::{Kind, Lane},
};

/// Interval of a worker's heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(3);
/// Age at which the record of a worker expires.
pub(crate) const EXPIRES_AFTER: Duration = Duration::from_secs(10);

/// A worker's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// A unique id.
    pub id: String,
    /// The machine it runs on.
    pub host: String,
    /// Version of its program.
    pub version: String,
    /// Class of its arithmetic.
    pub class: String,
    /// Kinds of work that it takes, each with its maximum number of concurrent units.
    pub kinds: BTreeMap<Kind, usize>,
    /// How long it has been running.
    #[serde(default)]
    pub up_millis: u64,
    /// Lanes with current or recent activity.
    #[serde(default)]
    pub lanes: Vec<LaneActivity>,
}

impl WorkerInfo {
    /// This process as a worker.
    pub(crate) fn here(class: &str, kinds: &BTreeMap<Kind, usize>) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            id: uuid::Uuid::now_v7().to_string(),
            host: host.trim().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            class: class.to_owned(),
            kinds: kinds.clone(),
            up_millis: 0,
            lanes: Vec::new(),
        }
    }

    /// Whether it takes units of a lane of this program's version.
    pub fn accepts(&self, lane: &Lane) -> bool {
        self.version == env!("CARGO_PKG_VERSION")
            && self.kinds.contains_key(&lane.kind)
            && (lane.class.is_empty() || lane.class == self.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_takes_lanes_of_its_kinds_its_class_and_its_version() {
        let lane = |kind, class: &str| Lane {
            kind,
            of: "mini".to_owned(),
            class: class.to_owned(),
            max_in_flight: 0,
            limit: String::new(),
        };
        let worker = WorkerInfo::here("avx2", &BTreeMap::from([(Kind::Encode, 1)]));
        assert!(worker.accepts(&lane(Kind::Encode, "avx2")));
        assert!(worker.accepts(&lane(Kind::Encode, "")));
        assert!(!worker.accepts(&lane(Kind::Encode, "avx512")));
        assert!(!worker.accepts(&lane(Kind::Judge, "avx2")));
        let old = WorkerInfo {
            version: "0.0.9".to_owned(),
            ..worker
        };
        assert!(!old.accepts(&lane(Kind::Encode, "avx2")));
    }
}
