//! Connected sets: processes that have called `PMIx_Connect` together, the names of these sets, and who is left in them.

mod membership;
mod names;
mod numbering;
mod sets;

pub(crate) use membership::{CompleteConnect, Entered, Introduction};
pub(crate) use numbering::Numbering;
pub(crate) use sets::{Absent, ConnectedSets, SetId, SetTerms};

#[cfg(test)]
pub(crate) use sets::{MAX_SETS, MAX_SETS_OF_USER};
