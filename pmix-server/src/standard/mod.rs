//! A ready host for most resource managers: [`StandardHost`] on a [`Launcher`] and an [`Exchange`].

mod job;
mod traits;

pub use job::{JobOutcome, JobReport, JobStart, OnFailure};
pub use traits::{
    Exchange, ExchangeError, LaunchError, LaunchJob, LaunchProc, LaunchReport, Launcher, OutputChannel, ProcExit,
    Responder,
};
