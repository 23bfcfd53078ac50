//! Which requests are admitted, which are refused, and with what message.

mod audit;
mod budgets;
mod head_file;
mod keys;
mod modes;
mod reservations;
pub(crate) mod support;
mod tabs;
