//! How a job has ended, as the answer to a query.

use crate::{DataArray, DataType, Key};

/// A query for how a job of this host has ended, named by the qualifier `NSPACE`: an array with its `JOB_TERM_STATUS` and `EXIT_CODE`.
/// There is no answer while it runs, nor for one that is not known or not remembered. A key of our own: in the Standard, only an
/// event reports the end of a job, and a process that registers later does not receive it.
pub const JOB_END: Key<DataArray> = Key::new("rs.pmix.job.end", DataType::DATA_ARRAY);
