use pmix_types::{Status, Uid};

use pmix_server::host::HostError;

/// Limits of the data that each user has published. A publish that exceeds it fails with `ERR_OUT_OF_RESOURCE`, and
/// publishes nothing.
///
/// # Examples
/// ```
/// use pmix_host::PublishLimits;
///
/// let limits = PublishLimits::default().items(1000);
/// assert_eq!(limits.items, 1000);
/// assert_eq!(limits.bytes, 256 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishLimits {
    /// Keys, counted once for each range that they are published in; 131,072 by default.
    pub items: usize,
    /// Bytes of keys, values and lists of access, as they are held in memory; 256 MiB by default.
    pub bytes: usize,
}

impl PublishLimits {
    /// Sets the limit of keys.
    #[must_use]
    pub const fn items(mut self, items: usize) -> Self {
        self.items = items;
        self
    }

    /// Sets the limit of bytes.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Why a user may not have so much.
    pub(crate) fn refuse(self, usage: Usage, uid: Uid) -> Option<HostError> {
        let reason = if usage.items > self.items {
            format!("uid {uid} would have more than {} keys published", self.items)
        } else if usage.bytes > self.bytes {
            format!("uid {uid} would have more than {} bytes published", self.bytes)
        } else {
            return None;
        };
        let message = format!("{reason}, the limit of the host: unpublish what is no longer needed");
        Some(HostError::new(Status::ERR_OUT_OF_RESOURCE, message))
    }
}

impl Default for PublishLimits {
    fn default() -> Self {
        Self { items: 1 << 17, bytes: 256 << 20 }
    }
}

/// What a user has published.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    items: usize,
    bytes: usize,
}

impl Usage {
    pub(crate) const fn plus(self, bytes: usize) -> Self {
        Self { items: self.items.saturating_add(1), bytes: self.bytes.saturating_add(bytes) }
    }

    pub(crate) const fn add(&mut self, bytes: usize) {
        *self = self.plus(bytes);
    }

    pub(crate) const fn subtract(&mut self, bytes: usize) {
        self.items = self.items.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(crate) const fn is_none(self) -> bool {
        self.items == 0
    }
}
