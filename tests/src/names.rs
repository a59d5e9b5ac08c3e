use pmix_client::types::Info;
use pmix_client::{Nspace, ProcId, Rank, keys};
use rustix::process::{getegid, geteuid};

/// The namespace of this name.
///
/// # Panics
/// If it cannot be one.
pub fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

/// A process by its namespace and rank.
///
/// # Panics
/// If the namespace cannot be one.
pub fn proc(name: &str, rank: u32) -> ProcId {
    ProcId::new(nspace(name), Rank::from_raw(rank))
}

/// All processes of a namespace.
///
/// # Panics
/// If it cannot be one.
pub fn all_of(name: &str) -> ProcId {
    ProcId::wildcard(nspace(name))
}

/// What a credential of this type says of our own user, who has asked for it.
pub fn own_credential(kind: &str) -> [Info; 3] {
    [
        Info::new(&keys::USERID, geteuid().as_raw()),
        Info::new(&keys::GRPID, getegid().as_raw()),
        Info::new(&keys::CRED_TYPE, kind),
    ]
}
