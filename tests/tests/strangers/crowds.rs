//! More connections than a server has descriptors for.
