//! What builders of requests to the resource manager have in common.

use pmix_types::Info;
use pmix_types::message::{Reply, Request};

use crate::client::Client;
use crate::error::Error;

/// Declares a builder: a request that takes directives and is sent when it is awaited. Its `ask` says how.
macro_rules! builder {
    ($(#[$doc:meta])* $name:ident($request:ty) -> $output:ty) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a request is sent when it is awaited"]
        pub struct $name<'a> {
            client: &'a $crate::client::Client,
            request: $request,
        }

        impl<'a> $name<'a> {
            pub(crate) const fn new(client: &'a $crate::client::Client, request: $request) -> Self {
                Self { client, request }
            }
        }

        $crate::ops::builder::directives!($name: request.directives);
        $crate::ops::builder::awaited!($name -> $output, ask);
    };
}
pub(super) use builder;

/// Gives a builder the methods to add directives, which it keeps in the field that is named.
macro_rules! directives {
    ($name:ident: $($field:ident).+) => {
        impl $name<'_> {
            /// Limits the wait; rounded up to whole seconds, zero means no limit (GEN-12).
            #[doc(alias = "PMIX_TIMEOUT")]
            pub fn timeout(self, limit: std::time::Duration) -> Self {
                self.directive(&pmix_types::keys::TIMEOUT, $crate::ops::whole_seconds(limit))
            }

            /// Adds an optional directive.
            pub fn directive<D: pmix_types::ValueType>(
                mut self,
                key: &pmix_types::Key<D>,
                value: impl Into<D>,
            ) -> Self {
                self.$($field).+.push(pmix_types::Info::new(key, value));
                self
            }

            /// Adds directives, which may be required ones.
            pub fn directives(mut self, directives: pmix_types::Directives) -> Self {
                self.$($field).+.extend(directives);
                self
            }
        }
    };
}
pub(super) use directives;

/// Has a builder do its work, the method that is named, when it is awaited.
macro_rules! awaited {
    ($name:ident -> $output:ty, $work:ident) => {
        impl<'a> std::future::IntoFuture for $name<'a> {
            type Output = Result<$output, $crate::error::Error>;
            type IntoFuture = futures::future::BoxFuture<'a, Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.$work())
            }
        }
    };
}
pub(super) use awaited;

/// Sends a request whose answer are infos.
pub(super) async fn infos(client: &Client, request: Request) -> Result<Vec<Info>, Error> {
    let operation = request.operation();
    match client.session(operation)?.request(request).await? {
        Reply::Info(infos) => Ok(infos),
        Reply::Done => Ok(Vec::new()),
        _ => Err(Error::unexpected_reply(operation)),
    }
}
