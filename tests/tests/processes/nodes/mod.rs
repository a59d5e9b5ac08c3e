//! `pmixrun` and DVMs over several nodes, each with a real daemon, all on this host: a script in place of ssh starts the
//! daemons.

mod attach;
mod bytes;
mod door;
mod dvm;
mod jobs;
mod join;
mod loss;
mod pbs;
mod placing;
mod signals;
mod starting;
mod traces;
mod view;
