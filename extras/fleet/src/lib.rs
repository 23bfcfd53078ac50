//! Units of work that any worker of a fleet may execute. Each unit is executed once, and its answer
//! can then be found by its content address. Requests and answers are bytes to this crate; it does
//! not know services, suites or reports.
//!
//! **Three parts.** A queue (NATS JetStream) decides which worker executes a unit. A blob store
//! ([`isomer_blobs`]) keeps requests and answers. A [`Dispatcher`] requests units; a [`worker`]
//! executes them with its [`Executor`].
//!
//! **The queue is never the only record.** A dispatcher looks for the answer in the store before it
//! queues a unit, and publishes the unit again at intervals until the answer exists. The subject of
//! a message is the unit's address, and the stream keeps one message per subject. So publishing
//! again has no effect while the unit is queued or executed, and restores the unit after a broker
//! has lost it.
//!
//! **At-least-once delivery, one answer.** A worker that dies or hangs loses its lease, and the
//! unit is delivered to another worker. Answers are written create-only: the first one wins, and
//! everyone reads its bytes.
//!
//! **Counted once.** The first dispatcher that reads an answer claims it and counts its usage. For
//! every other dispatcher the answer counts as cached.
//!
//! **A lane** is the unit of scaling and limits: one kind of work, on one resource (a generator, an
//! encoder), in one class of arithmetic. A worker takes units only from lanes of its own class and
//! from lanes without a class.

mod activity;
mod config;
mod dispatcher;
pub mod limits;
mod metric_names;
mod overview;
mod queue;
mod ready;
mod time;
mod unit;
pub mod worker;
mod worker_info;

pub use activity::LaneActivity;
pub use config::FleetConfig;
pub use dispatcher::{Dispatcher, UnitAnswer, input_name};
pub use overview::{LaneState, Overview, RunWaits, Wait, WorkerState};
pub use queue::{FleetError, Queue};
pub use unit::{Address, Kind, Lane, Unit, Waits};
pub use worker::{Executor, UnitOutput};
pub use worker_info::WorkerInfo;
