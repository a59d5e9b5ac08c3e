use pmix_types::Query;
use pmix_types::why::RECORD;

use crate::error::Error;
use crate::tool::Tool;

impl Tool {
    /// Reads the flight recorder of the server: a header, a line for each of the last requests, replies, calls of its
    /// host and connections, then a line for each operation that waits. Only the server's user and root may.
    ///
    /// Other servers have records of their own: a job of several nodes has one on each.
    ///
    /// # Errors
    /// As [`Tool::query`], with `ERR_NO_PERMISSIONS` for other users; [`Error::Unsupported`] if the server has no
    /// such record, as with other implementations of PMIx.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn record(&self) -> Result<String, Error> {
        let unsupported = || self.unsupported_key(RECORD.key_name());
        match self.query([Query::new(&RECORD)]).await {
            Ok(answer) => answer.get(RECORD)?.ok_or_else(unsupported),
            Err(error) if error.is_not_found() || error.is_not_supported() => Err(unsupported()),
            Err(error) => Err(error),
        }
    }
}
