//! Checks of versions of models, over a registry in memory and over its webhooks.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod flow;
mod mlflow;
mod receiver;
mod support;
