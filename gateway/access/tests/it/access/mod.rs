//! Admitted and refused requests, with the messages.

mod audit;
mod budgets;
mod head_file;
mod keys;
mod modes;
mod reservations;
pub(crate) mod support;
mod tabs;
