//! What is sent on the wires of C programs, and what is refused: no library of others is needed.

mod commands;
mod pmi1;
mod pmi1_refusals;
mod refusals;
mod requests;
mod rust_client;
mod tools;
mod why;
