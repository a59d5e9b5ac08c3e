//! Encodes data of processes, for the exchange between servers in a fence or a direct modex.

use bytes::Bytes;
use pmix_types::message::Modex;
use prost::Message;

use crate::{ConvertError, v1};

/// Encodes data of processes.
///
/// Concatenated encodings, in any order, decode to the data of all of them (FEN-09). Without processes the encoding is
/// empty.
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
