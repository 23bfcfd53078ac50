//! Decides whether cached vectors and new ones are of one vector space.
//!
//! Providers seldom report their weights, so a server with another model at the same address is
//! recognised only by its vectors. An epoch is a period in which no such change was seen. The cache
//! returns only vectors of the current epoch.
//!
//! A change that broke no connection is detected when one answer combines vectors of several
//! answers. The oldest of them is encoded again and must come out the same. This is done however
//! recent the last check was, because a server can be replaced at any moment. It costs one text,
//! and only if the combined answers were not found to agree before.
//!
//! One of several replicas may be replaced while the others stay. Their first vectors were found to
//! agree. So the vectors of each are known to be right up to the time of its last check. A check is
//! a comparison with its first vectors, or with a text encoded again whose vector is known to be
//! right.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_adapters::check::Fingerprint;
use isomer_proto::{
    common::v1::{Dtype, VectorSpace},
    encoder::v1::EncodeRequest,
};
use isomer_service_kit::{Fault, vectors};
use parking_lot::Mutex;

/// Reason of an answer that would mix vectors of two spaces.
pub(super) const CHANGED: &str = "SPACE_CHANGED";
/// Two vectors of one model may differ in one of this many bits, because values near 0 change their
/// sign. Vectors of two models differ in every second bit.
const DIFFERENT_BITS: u32 = 10;

/// The fault for an answer that would mix vectors of two spaces.
pub(super) fn changed(encoder_id: &str) -> Fault {
    let message = format!("the vectors of encoder `{encoder_id}` changed while the request was answered");
    Fault::unavailable(CHANGED, message)
        .hint("try again; if it stays so, servers with different weights answer at one address")
        .with("encoder_id", encoder_id)
}

/// A period in which a route's vectors are of one space, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    pub(super) number: u64,
    /// Whether several replicas with agreeing first vectors answer.
    several: bool,
    /// Attempts so far. An attempt's number serves as the time of its vectors.
    attempts: AtomicU64,
    /// Whether a provider has answered.
    used: AtomicBool,
    /// By replica: the first and last of the attempts that agree.
    agreed: Mutex<BTreeMap<usize, (u64, u64)>>,
}

/// The source of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// The replica, by its index in the route.
    pub(super) replica: usize,
    pub(super) attempt: u64,
}

impl Epoch {
    pub(super) fn new(several: bool) -> Self {
        Self {
            several,
            ..Self::default()
        }
    }

    pub(super) fn next(&self) -> Self {
        Self {
            number: self.number + 1,
            several: self.several,
            ..Self::default()
        }
    }

    /// Returns the number of a new attempt. A server that is being replaced finishes earlier
    /// requests, so attempts are ordered by their beginning.
    pub(super) fn begin(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::AcqRel)
    }

    pub(super) fn answered(&self) {
        self.used.store(true, Ordering::Release);
    }

    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// Records that a vector came out the same in a later attempt, so the model was not replaced
    /// between the two.
    pub(super) fn agree(&self, before: Origin, now: Origin) {
        if self.several {
            self.confirmed(now);
        } else {
            self.extend(now.replica, before.attempt, now.attempt);
        }
    }

    /// Records that a replica agreed with its first vectors at the time of an attempt.
    pub(super) fn confirmed(&self, now: Origin) {
        self.extend(now.replica, 0, now.attempt);
    }

    fn extend(&self, replica: usize, first: u64, last: u64) {
        let mut agreed = self.agreed.lock();
        let agreed = agreed.entry(replica).or_insert((first, last));
        *agreed = match *agreed {
            (from, to) if first <= to && from <= last => (from.min(first), to.max(last)),
            _ => (first, last),
        };
    }

    fn knows(&self, origin: Origin) -> bool {
        let agreed = self.agreed.lock();
        agreed
            .get(&origin.replica)
            .is_some_and(|(from, to)| (*from..=*to).contains(&origin.attempt))
    }

    /// Whether a vector can represent the epoch's space in a comparison with a new vector.
    pub(super) fn is_measure(&self, origin: Origin) -> bool {
        !self.several || self.knows(origin)
    }
}

/// The vector of one text.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) bytes: Arc<[u8]>,
    pub(super) tokens: u32,
    /// `None` if the provider does not report it.
    pub(super) truncated: Option<bool>,
    pub(super) shape: Arc<Shape>,
    pub(super) origin: Origin,
}

/// The properties that the rows of one answer share.
#[derive(Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) cols: u32,
    pub(super) dtype: i32,
    pub(super) space: Option<VectorSpace>,
}

impl Row {
    /// Whether only the values identify the model. If a provider reports a digest of its weights,
    /// the digest is compared instead. A vector of zeros identifies nothing.
    pub(super) fn shows_model(&self) -> bool {
        let space = self.shape.space.as_ref();
        space.is_none_or(|space| space.weights_digest.is_empty()) && self.bytes.iter().any(|byte| *byte != 0)
    }

    /// Whether both vectors are of one text by one model.
    pub(super) fn agrees(&self, now: &Self) -> bool {
        let (ours, theirs) = (&self.shape, &now.shape);
        if (ours.cols, ours.dtype) != (theirs.cols, theirs.dtype) {
            return false;
        }
        match Dtype::try_from(ours.dtype) {
            Ok(Dtype::Ubinary) => {
                let bits = self.bytes.iter().zip(&*now.bytes);
                let different: u32 = bits.map(|(a, b)| (a ^ b).count_ones()).sum();
                different * DIFFERENT_BITS <= ours.cols
            }
            Ok(Dtype::F16) => same(vectors::widened(&self.bytes), vectors::widened(&now.bytes)),
            Ok(Dtype::F32) => same(vectors::floats(&self.bytes), vectors::floats(&now.bytes)),
            _ => self.bytes == now.bytes,
        }
    }
}

fn same(before: impl Iterator<Item = f32>, now: impl Iterator<Item = f32>) -> bool {
    let of = |row: Vec<f32>| Fingerprint::of_rows(vec![row]);
    of(before.collect()).agrees(&of(now.collect())).is_ok()
}

/// A text with its vector, and the request that reproduces the vector.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) row: Row,
    pub(super) request: EncodeRequest,
}

/// The vectors that one answer combines.
#[derive(Debug, Default)]
pub(super) struct Meeting(Mutex<MeetingState>);

#[derive(Debug, Default)]
struct MeetingState {
    oldest: Option<Anchor>,
    /// By replica, the newest attempt.
    newest: BTreeMap<usize, u64>,
}

/// The checks that an answer still needs.
#[derive(Debug)]
pub(super) enum PendingCheck {
    /// For one provider: its oldest text in the answer must come out the same.
    Text(Anchor),
    /// For replicas: they must agree with their first vectors.
    Replicas(Vec<usize>),
}

impl Meeting {
    /// Adds the vectors of a part of the answer, and its oldest text.
    pub(super) fn add(&self, oldest: Anchor, origins: impl Iterator<Item = Origin>) {
        let mut met = self.0.lock();
        for Origin { replica, attempt } in origins {
            let newest = met.newest.entry(replica).or_default();
            *newest = attempt.max(*newest);
        }
        let older = |before: &Anchor| before.row.origin.attempt <= oldest.row.origin.attempt;
        if !met.oldest.as_ref().is_some_and(older) {
            met.oldest = Some(oldest);
        }
    }

    /// The vectors or replicas not yet found to agree. `None` if all vectors come from one attempt.
    pub(super) fn unverified(self, epoch: &Epoch) -> Option<PendingCheck> {
        let MeetingState { oldest, newest } = self.0.into_inner();
        let oldest = oldest?;
        let newest = newest.into_iter().map(|(replica, attempt)| Origin { replica, attempt });
        let newest: Vec<Origin> = newest.collect();
        if newest == [oldest.row.origin] {
            return None;
        }
        let unknown: Vec<usize> = newest
            .iter()
            .filter(|origin| !epoch.knows(**origin))
            .map(|origin| origin.replica)
            .collect();
        if epoch.several {
            return (!unknown.is_empty()).then_some(PendingCheck::Replicas(unknown));
        }
        let known = unknown.is_empty() && epoch.knows(oldest.row.origin);
        (!known).then_some(PendingCheck::Text(oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_agree_within_one_checked_time() {
        let epoch = Epoch::default();
        let at = |attempt| Origin { replica: 0, attempt };
        let known = |attempts: [u64; 2]| attempts.into_iter().all(|attempt| epoch.knows(at(attempt)));
        epoch.agree(at(3), at(6));
        assert!(known([3, 6]) && !known([2, 4]) && !known([6, 7]));
        epoch.agree(at(6), at(9));
        assert!(known([3, 9]), "both times have an attempt in common");
        epoch.agree(at(11), at(12));
        assert!(known([11, 12]) && !epoch.knows(at(9)), "nothing is known between");
    }

    #[test]
    fn a_replica_is_known_up_to_its_own_last_check() {
        let epoch = Epoch::new(true);
        let at = |replica, attempt| Origin { replica, attempt };
        assert!(!epoch.is_measure(at(0, 1)));
        epoch.confirmed(at(0, 4));
        assert!(epoch.is_measure(at(0, 1)) && !epoch.knows(at(0, 5)) && !epoch.knows(at(1, 1)));
        epoch.agree(at(0, 1), at(1, 6));
        assert!(epoch.knows(at(1, 6)) && !epoch.knows(at(0, 6)));
    }

    fn row(dtype: Dtype, bytes: &[u8], cols: u32) -> Row {
        let shape = Shape {
            cols,
            dtype: dtype.into(),
            space: None,
        };
        Row {
            bytes: bytes.into(),
            tokens: 1,
            truncated: None,
            shape: Arc::new(shape),
            origin: Origin { replica: 0, attempt: 0 },
        }
    }

    #[test]
    fn a_model_differs_a_little_from_itself_and_much_from_another() {
        let floats = |values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            row(Dtype::F32, &bytes, 3)
        };
        let before = floats(&[0.6, 0.8, 0.01]);
        assert!(before.agrees(&floats(&[0.6001, 0.7999, 0.0101])));
        assert!(!before.agrees(&floats(&[0.8, 0.6, 0.01])));
        assert!(!before.agrees(&floats(&[6.0, 8.0, 0.1])), "ten times as long");
        let halves = |values: &[f32]| {
            let mut bytes = Vec::new();
            assert!(vectors::halves(values, &mut bytes).is_ok());
            row(Dtype::F16, &bytes, 3)
        };
        assert!(halves(&[0.6, 0.8, 0.01]).agrees(&halves(&[0.6002, 0.7999, 0.0101])));
        assert!(!halves(&[0.6, 0.8, 0.01]).agrees(&halves(&[0.8, 0.6, 0.01])));
        let bits = |first: u8| row(Dtype::Ubinary, &[first, 0b1010_1010, 0xf0, 0x0f], 32);
        assert!(bits(0xff).agrees(&bits(0xfb)), "one bit of 32");
        assert!(!bits(0xff).agrees(&bits(0x0f)), "four bits of 32");
    }
}
