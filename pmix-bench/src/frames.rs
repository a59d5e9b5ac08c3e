//! The lower bound for fences over sockets: small frames of one size between the ranks and one thread, without a
//! protocol.

use std::path::{Path, PathBuf};
use std::{io, thread};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;

/// A frame: the number of the round.
pub(crate) type Frame = [u8; 16];

/// Of a round.
pub(crate) fn frame(round: usize) -> Frame {
    (round as u128).to_le_bytes()
}

/// Where the ranks of the launch with this page find the thread.
pub(crate) fn address(page: &Path) -> PathBuf {
    page.with_extension("frames")
}

/// Starts the thread: as often as each of so many ranks has sent a frame, all get it back. It ends with the first rank.
pub(crate) fn serve(page: &Path, ranks: u32) -> io::Result<()> {
    let address = address(page);
    // that of the launch before
    let _ = std::fs::remove_file(&address);
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let listener = {
        let _inside = runtime.enter();
        UnixListener::bind(address)?
    };
    thread::spawn(move || runtime.block_on(rounds(&listener, ranks)));
    Ok(())
}

async fn rounds(listener: &UnixListener, ranks: u32) -> io::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..ranks {
        streams.push(listener.accept().await?.0);
    }
    loop {
        let mut frame = Frame::default();
        for stream in &mut streams {
            stream.read_exact(&mut frame).await?;
        }
        for stream in &mut streams {
            stream.write_all(&frame).await?;
        }
    }
}

/// A rank's part of a round.
pub(crate) async fn meet(stream: &mut UnixStream, round: usize) -> io::Result<()> {
    let sent = frame(round);
    let mut got = Frame::default();
    stream.write_all(&sent).await?;
    stream.read_exact(&mut got).await?;
    if got == sent { Ok(()) } else { Err(io::Error::other("a frame of another round came back")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_frame_comes_back_when_all_have_sent_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("page");
        serve(&page, 2).unwrap();
        let mut first = UnixStream::connect(address(&page)).await.unwrap();
        let mut second = UnixStream::connect(address(&page)).await.unwrap();
        for round in 0..3 {
            first.write_all(&frame(round)).await.unwrap();
            // nothing can be there before the second has sent
            assert_eq!(first.try_read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            meet(&mut second, round).await.unwrap();
            let mut got = Frame::default();
            first.read_exact(&mut got).await.unwrap();
            assert_eq!(got, frame(round));
        }
        drop(first);
        assert!(meet(&mut second, 3).await.is_err());
    }
}
