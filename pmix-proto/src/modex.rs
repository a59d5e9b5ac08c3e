//! Encodes data of processes, for processes and for the exchange between servers in a fence or a direct modex.

use bytes::Bytes;
use pmix_types::message::{Changes, Modex};
use prost::Message;

use crate::convert::{Scope, Wire};
use crate::{ConvertError, Reason, v1};

/// The form of [`Changes`] that servers send each other. Raise it with any change that older servers would misunderstand.
pub const FORMAT: u32 = 1;

/// Encodes data of processes.
///
/// Concatenated encodings, in any order, decode to the data of all of them. Without processes the encoding is empty.
///
/// # Examples
/// ```
/// use pmix_proto::modex;
/// use pmix_types::message::{Modex, ProcData};
/// use pmix_types::{ProcId, Rank};
///
/// let of = |rank| {
///     let proc = ProcId::new("job-1".parse().unwrap(), Rank::from_raw(rank));
///     Modex::new(vec![ProcData::new(proc, vec![])])
/// };
/// let joined = [modex::encode(&of(4)), modex::encode(&of(0))].concat();
/// assert_eq!(modex::decode(joined.into())?.procs, [of(4).procs, of(0).procs].concat());
/// # Ok::<(), pmix_proto::ConvertError>(())
/// ```
pub fn encode(modex: &Modex) -> Bytes {
    v1::Modex::from(modex).encode_to_vec().into()
}

/// The reverse of [`encode`], for one encoding or several concatenated ones. Byte objects share the memory of `bytes`.
///
/// # Errors
/// [`ConvertError`] for malformed bytes.
pub fn decode(bytes: Bytes) -> Result<Modex, ConvertError> {
    v1::Modex::decode(bytes)?.try_into()
}

/// Encodes what servers send those of other nodes.
///
/// Concatenated encodings, in any order, decode to all of them (FEN-09).
pub fn encode_changes(changes: &[Changes]) -> Bytes {
    let changes = changes.iter().map(Wire::to_form).collect();
    v1::ServerData { unnumbered: Vec::new(), changes }.encode_to_vec().into()
}

/// The reverse of [`encode_changes`], for one encoding or several concatenated ones; nothing decodes to nothing. Byte
/// objects share the memory of `bytes`.
///
/// # Errors
/// [`ConvertError`] for malformed bytes, and for those of a server that uses another [`FORMAT`].
pub fn decode_changes(bytes: Bytes) -> Result<Vec<Changes>, ConvertError> {
    let is_empty = bytes.is_empty();
    let data = v1::ServerData::decode(bytes)?;
    if !data.unnumbered.is_empty() || data.changes.is_empty() && !is_empty {
        return Err(ConvertError::new(Reason::Invalid(other_format(0))));
    }
    Wire::from_form(data.changes, &mut Scope::default())
}

pub(crate) fn other_format(format: u32) -> String {
    format!(
        "it is in format {format}, but this server reads format {FORMAT}: run the same release on all nodes"
    )
}
