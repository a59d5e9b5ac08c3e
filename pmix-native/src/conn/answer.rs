use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::{Nspace, ProcId, Rank, Status};

use super::ConnectError;

/// The server's answer to a client that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAnswer {
    /// A number for the headers of the client's messages. It is not checked.
    pub index: u32,
}

/// The server's answer to a tool, launcher, singleton or scheduler that it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// The name assigned to the tool, if it asked for one.
    pub assigned: Option<ProcId>,
    /// The server's own name.
    pub server: ProcId,
}

const WORD: usize = 4;
/// A namespace with its NULs, and a rank.
const NAME: usize = NSPACE + WORD;
const NSPACE: usize = 256;

impl ClientAnswer {
    /// Encodes the answer.
    pub fn encode(self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(2 * WORD);
        bytes.put_i32(Status::SUCCESS.to_raw());
        bytes.put_u32(self.index);
        bytes.freeze()
    }

    /// Decodes the answer from the front of the buffer; `None` if it is incomplete.
    ///
    /// # Errors
    /// [`ConnectError::Refused`].
    pub fn decode(arrived: &mut BytesMut) -> Result<Option<Self>, ConnectError> {
        let mut rest = &arrived[..];
        if !accepted(&mut rest)? || rest.len() < WORD {
            return Ok(None);
        }
        let index = rest.get_u32();
        arrived.advance(2 * WORD);
        Ok(Some(Self { index }))
    }
}

impl ToolAnswer {
    /// Encodes the answer.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(2 * WORD + 2 * NAME);
        bytes.put_i32(Status::SUCCESS.to_raw());
        for proc in self.assigned.iter().chain([&self.server]) {
            bytes.put_slice(proc.nspace.as_bytes());
            bytes.put_bytes(0, NSPACE.saturating_sub(proc.nspace.len()));
            bytes.put_u32(proc.rank.to_raw());
        }
        bytes.put_i32(Status::SUCCESS.to_raw());
        bytes.freeze()
    }

    /// Encodes the answer to a tool that the server refuses, before it closes the connection.
    pub fn refusal(status: Status) -> Bytes {
        Bytes::copy_from_slice(&status.to_raw().to_be_bytes())
    }

    /// Decodes the answer from the front of the buffer; `None` if it is incomplete. `assigned` says whether the tool asked
    /// for a name.
    ///
    /// # Errors
    /// [`ConnectError::Refused`], or the error of a name.
    pub fn decode(arrived: &mut BytesMut, assigned: bool) -> Result<Option<Self>, ConnectError> {
        let mut rest = &arrived[..];
        let names = if assigned { 2 } else { 1 };
        if !accepted(&mut rest)? || rest.len() < names * NAME + WORD {
            return Ok(None);
        }
        let assigned = if assigned { Some(name(&mut rest)?) } else { None };
        let server = name(&mut rest)?;
        accepted(&mut rest)?;
        let read = arrived.len() - rest.len();
        arrived.advance(read);
        Ok(Some(Self { assigned, server }))
    }
}

/// Reads a status; returns whether it was complete.
fn accepted(rest: &mut &[u8]) -> Result<bool, ConnectError> {
    match rest.try_get_i32().map(Status::from_raw) {
        Ok(Status::SUCCESS) => Ok(true),
        Ok(refused) => Err(ConnectError::Refused(refused)),
        Err(_) => Ok(false),
    }
}

fn name(rest: &mut &[u8]) -> Result<ProcId, ConnectError> {
    let (nspace, behind) = rest.split_at_checked(NSPACE).ok_or(ConnectError::End("name"))?;
    *rest = behind;
    let length = nspace.iter().position(|byte| *byte == 0).unwrap_or(NSPACE);
    let nspace = std::str::from_utf8(nspace.get(..length).unwrap_or_default());
    let nspace = Nspace::new(nspace.map_err(|_| ConnectError::Utf8("namespace"))?)?;
    let rank = rest.try_get_u32().map_err(|_| ConnectError::End("rank"))?;
    Ok(ProcId::new(nspace, Rank::from_raw(rank)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank))
    }

    #[test]
    fn a_client_reads_its_index_once_it_is_there() {
        let sent = ClientAnswer { index: 1 }.encode();
        assert_eq!(sent[..], [0, 0, 0, 0, 0, 0, 0, 1]);
        for cut in 0..sent.len() {
            assert_eq!(ClientAnswer::decode(&mut BytesMut::from(&sent[..cut])), Ok(None));
        }
        let mut arrived = BytesMut::from(&[&sent[..], b"next"].concat()[..]);
        assert_eq!(ClientAnswer::decode(&mut arrived), Ok(Some(ClientAnswer { index: 1 })));
        assert_eq!(arrived, "next");
    }

    #[test]
    fn a_tool_reads_its_own_and_the_servers_name() {
        let longest = "n".repeat(255);
        for assigned in [None, Some(proc(&longest, 3))] {
            let answer = ToolAnswer { assigned, server: proc("srv.1", 0) };
            let sent = answer.encode();
            let asked = answer.assigned.is_some();
            assert_eq!(sent.len(), if asked { 528 } else { 268 });
            for cut in [0, 3, 4, 200, sent.len() - 1] {
                assert_eq!(ToolAnswer::decode(&mut BytesMut::from(&sent[..cut]), asked), Ok(None));
            }
            assert_eq!(ToolAnswer::decode(&mut BytesMut::from(&sent[..]), asked), Ok(Some(answer)));
        }
    }

    #[test]
    fn refusals_are_told_at_once() {
        let mut arrived = BytesMut::from(&ToolAnswer::refusal(Status::ERR_INVALID_CRED)[..]);
        let refused = Err(ConnectError::Refused(Status::ERR_INVALID_CRED));
        assert_eq!(ToolAnswer::decode(&mut arrived, true), refused);
        let mut late = BytesMut::from(&ToolAnswer { assigned: None, server: proc("s", 0) }.encode()[..]);
        let end = late.len() - 4;
        late[end..].copy_from_slice(&Status::ERR_INVALID_CRED.to_raw().to_be_bytes());
        assert_eq!(ToolAnswer::decode(&mut late, false), refused);
    }
}
