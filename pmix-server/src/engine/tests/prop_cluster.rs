//! Several engines under one host.
