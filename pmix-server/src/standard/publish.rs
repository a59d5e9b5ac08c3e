//! Published data.

use pmix_types::Status;

use super::store::{Look, User};
use super::{Exchange, Launcher, StandardHost};
use crate::host::{Found, HostResult, LookupRequest, PublishRequest, UnpublishRequest, UpcallContext};

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    pub(super) fn file(&self, publisher: &User, req: PublishRequest) -> HostResult<()> {
        self.store().publish(publisher, req.data, &req.directives)?;
        self.0.published.send_replace(());
        Ok(())
    }

    pub(super) async fn find(&self, cx: &UpcallContext, req: LookupRequest) -> HostResult<Found> {
        let look = Look::new(User::of(cx), req.keys, &req.directives)?;
        let mut published = self.0.published.subscribe();
        loop {
            let found = self.store().look(&look);
            if let Some(found) = found {
                return found;
            }
            tokio::select! {
                _ = published.changed() => {}
                () = cx.cancelled() => return Err(Status::ERR_TIMEOUT.into()),
            }
        }
    }

    pub(super) fn take_back(&self, publisher: &User, req: UnpublishRequest) -> HostResult<()> {
        self.store().unpublish(&publisher.proc, &req.keys, &req.directives)
    }
}
