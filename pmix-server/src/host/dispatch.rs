//! Derives the calls of a host's methods from the table of upcalls.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{Nspace, ProcId};

use super::*;
use pmix_engine::for_each_upcall;

/// Calls the method for a request.
macro_rules! dispatch {
    ($($name:ident $method:ident($request:ty) -> $reply:ty { $($about:tt)* })+) => {
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

/// A method of the trait without a row in the table would never be called. A row without a method does not compile above, so
/// comparing the counts is enough.
const _: () = {
    let methods = count(include_bytes!("mod.rs"), b"\n    async fn ");
    assert!(
        methods >= Upcall::ALL.len(),
        "a row of the table of upcalls in pmix-engine/src/upcall/mod.rs has no method: add it in pmix-server/src/host/mod.rs"
    );
    assert!(
        methods <= Upcall::ALL.len(),
        "a method of HostModule has no row in the table of upcalls: add it in pmix-engine/src/upcall/mod.rs"
    );
};

/// How many times a word occurs in a text.
const fn count(text: &[u8], word: &[u8]) -> usize {
    let (mut found, mut at) = (0, 0);
    while at + word.len() <= text.len() {
        let mut same = 0;
        while same < word.len() && text[at + same] == word[same] {
            same += 1;
        }
        found += (same == word.len()) as usize;
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted() {
        assert_eq!(count(b"a b ab a", b"a"), 3);
        assert_eq!(count(b"", b"a"), 0);
    }

    /// Every entry of the trait must be forwarded: a default would answer in place of the host.
    #[test]
    fn every_entry_is_forwarded() {
        let declared: std::collections::BTreeSet<_> = include_str!("mod.rs")
            .lines()
            .filter_map(|line| line.trim().strip_prefix("async fn ")?.split('(').next())
            .collect();
        let named: std::collections::BTreeSet<_> = Upcall::ALL.iter().map(|upcall| upcall.name()).collect();
        assert_eq!(declared, named);
        assert!(declared.len() >= 29, "an entry is gone");
    }
}
