//! `pmix` with readers that have gone or pause, and with servers that do not answer.

mod readers;
mod rig;
mod unanswered;
