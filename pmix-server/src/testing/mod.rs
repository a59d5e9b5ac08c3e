//! Checks for those who embed the server: whether a host, or a whole running resource manager, keeps the Standard's
//! rules. Feature `testing`.
//!
//! - [`conformance`] runs programs of several processes and compares what they see with the rules.
//! - [`wrong`] holds hosts that break one rule each, to show that the checks find it.

pub mod conformance;
pub mod wrong;
