//! How a server proves to a process that it is the one whose environment the process has.
//!
//! The address of a server that has ended can be taken by anybody. So a server gives each process that it starts a secret, in
//! [`VARIABLE`], which depends on the process's user. A process that has it begins with [`QUESTION`] and says nothing else before the
//! server has answered with the same secret. The server answers by the user of the connection, as the kernel reports it, so that
//! nobody can have it answer on behalf of another user.

use std::fmt;

use pmix_types::ProcId;

/// The variable with the identity of a server and its secret: `<namespace>.<rank>;<64 hexadecimal digits>`.
pub const VARIABLE: &str = "PMIX_SERVER_PROOF";

/// What a process sends first. Its first byte begins neither the framed wire, nor HTTP/2, nor the wire of the C library.
pub const QUESTION: [u8; 8] = *b"\x01pmix-?\n";

/// Bytes of a secret.
pub const LENGTH: usize = 32;

/// The secret of a server and a user. Shows nothing of itself in debug output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; LENGTH]);

impl Secret {
    /// One of these random bytes.
    pub const fn new(bytes: [u8; LENGTH]) -> Self {
        Self(bytes)
    }

    /// What a server answers.
    pub const fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// The value of [`VARIABLE`] for processes of this server.
    pub fn variable(&self, server: &ProcId) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{};{digits}", server.nspace, server.rank)
    }

    /// The secret in a value of [`VARIABLE`], if it is of this server.
    pub fn of_server(variable: &str, server: &ProcId) -> Option<Self> {
        let (whose, digits) = variable.split_once(';')?;
        if whose != format!("{}.{}", server.nspace, server.rank) || digits.len() != 2 * LENGTH {
            return None;
        }
        let mut bytes = [0; LENGTH];
        for (byte, digits) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            // no sign, which a number may have
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    fn server(name: &str) -> ProcId {
        ProcId::new(name.parse().unwrap(), Rank::from_raw(0))
    }

    #[test]
    fn a_variable_holds_the_secret_of_one_server() {
        let secret = Secret::new(std::array::from_fn(|place| place as u8 * 7));
        let variable = secret.variable(&server("srv.n0.1"));
        assert_eq!(Secret::of_server(&variable, &server("srv.n0.1")), Some(secret));
        assert_eq!(Secret::of_server(&variable, &server("srv.n0.2")), None);
        for broken in
            ["", ";", &variable[1..], &variable[..variable.len() - 1], "srv.n0.1.0;", "srv.n0.1.0;zz"]
        {
            assert_eq!(Secret::of_server(broken, &server("srv.n0.1")), None, "{broken}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
