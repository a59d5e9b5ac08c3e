//! Who owns the other end of a loopback connection.

use std::io;
use std::net::SocketAddr;

/// The user whose process holds the socket at `peer` that is connected to `here`, as the kernel says.
///
/// TCP carries no credentials, and what a process says of itself proves nothing; the kernel's table of connections
/// names the owner of each.
///
/// # Errors
/// The table cannot be read, or the connection is not in it any more.
pub(super) fn uid_of(peer: SocketAddr, here: SocketAddr) -> io::Result<u32> {
    let table = procfs::net::tcp().map_err(io::Error::other)?;
    let ours = table.into_iter().find(|entry| entry.local_address == peer && entry.remote_address == here);
    ours.map(|entry| entry.uid)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the connection is gone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_tells_the_owner_of_a_connection() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let client = tokio::net::TcpStream::connect(here).await.unwrap();
        let peer = client.local_addr().unwrap();
        assert_eq!(uid_of(peer, here).unwrap(), rustix::process::geteuid().as_raw());
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(uid_of(nobody, here).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
