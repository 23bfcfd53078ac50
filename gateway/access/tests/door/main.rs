//! Who is let in, who is not, and what is said to them.

mod audit;
mod budgets;
mod keys;
mod modes;
mod support;
