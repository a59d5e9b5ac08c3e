//! Names of environment variables.

// Generated from the Standard's tables by examples/gen.rs. Do not edit.

/// URI a spawned tool must call back on to reach the tool that started it.
#[doc(alias = "PMIX_LAUNCHER_RNDZ_URI")]
pub const LAUNCHER_RNDZ_URI: &str = "PMIX_LAUNCHER_RNDZ_URI";
/// Path where a started launcher must write its contact info (or read it, if the file already exists).
#[doc(alias = "PMIX_LAUNCHER_RNDZ_FILE")]
pub const LAUNCHER_RNDZ_FILE: &str = "PMIX_LAUNCHER_RNDZ_FILE";
/// Fd number of a pipe read end; closing of the pipe means the parent tool is gone.
#[doc(alias = "PMIX_KEEPALIVE_PIPE")]
pub const KEEPALIVE_PIPE: &str = "PMIX_KEEPALIVE_PIPE";
