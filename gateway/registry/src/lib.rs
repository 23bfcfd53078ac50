//! Which encoder providers there are.
