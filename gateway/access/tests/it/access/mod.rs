//! Admitted and refused requests, with the messages.

mod audit;
mod budgets;
mod deferred_charges;
mod head_file;
mod keys;
mod modes;
mod reservations;
pub(crate) mod support;
