//! Who may ask the gateway for what, and how much of it.
