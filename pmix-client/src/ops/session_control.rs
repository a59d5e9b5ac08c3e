use pmix_types::Info;
use pmix_types::message::SessionControl;

use super::builder::builder;
use crate::error::Error;

builder! {
    /// A request about a session. Await it to send it and get the results. See [`Client::session_control`](crate::Client::session_control).
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::keys;
    ///
    /// client.session_control(7).directive(keys::SESSION_PAUSE, true).await?;
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host does not control sessions, errors of the host, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not cancel a request that was sent.
    SessionControlBuilder(SessionControl) -> Vec<Info>
}

impl SessionControlBuilder {
    async fn ask(self) -> Result<Vec<Info>, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.call(request).await
    }
}
