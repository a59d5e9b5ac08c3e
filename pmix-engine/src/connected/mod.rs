//! Connected sets: the processes that have called `PMIx_Connect` together, what they are called, and who of them is left.

mod membership;
mod numbering;
mod sets;

pub(crate) use membership::{Entered, Introduction};
pub(crate) use numbering::Numbering;
pub(crate) use sets::{Absent, ConnectedSets, SetId, Terms};

#[cfg(test)]
pub(crate) use sets::MAX_SETS;
