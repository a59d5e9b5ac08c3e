//! Our client under launchers of others, beside processes of others, and what each of their servers serves.

mod checks;
mod interop;
mod loss;
mod mixed;
mod ring;
mod tools;
