//! Derives the calls of a host's methods from the table of upcalls.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{Nspace, ProcId};

use super::*;
use pmix_types::for_each_upcall;

/// Calls the method for a request.
macro_rules! dispatch {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty { $($about:tt)* })+) => {
        /// Calls the host's method for a request. A host that wraps another one uses this to pass on requests that it
        /// does not change.
        ///
        /// # Errors
        /// Those of the method.
        ///
        /// # Cancel safety
        /// That of the method.
        pub async fn call(
            host: &dyn HostModule,
            cx: &UpcallContext,
            request: UpcallRequest,
        ) -> HostResult<Answer> {
            match request {
                $(UpcallRequest::$name(request) => host.$method(cx, request).await.map(Answer::from),)+
            }
        }

        /// A shared host is a host, so that a server and the host's owner can share it.
        #[async_trait]
        impl<T: HostModule + ?Sized> HostModule for Arc<T> {
            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }

            fn started(&self, handle: &ServerHandle) {
                (**self).started(handle);
            }

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> HostResult<$reply> {
                (**self).$method(cx, req).await
            })+
        }
    };
}

for_each_upcall!(dispatch);
