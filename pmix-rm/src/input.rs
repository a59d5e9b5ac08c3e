//! Input that comes to a process through its launcher.

use bytes::Bytes;
use pmix_types::ProcId;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

/// Pieces that may wait for a process to read; who brings more waits.
const WAITING: usize = 16;

/// A piece of input, or its end.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Data(Bytes),
    End,
}

/// Writes what is sent into the pipe until its end, or that of the process.
pub(crate) fn feed(
    proc: ProcId,
    mut pipe: pipe::Sender,
    mut ended: watch::Receiver<()>,
) -> mpsc::Sender<Input> {
    let (sender, mut inputs) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let write = async {
            while let Some(Input::Data(data)) = inputs.recv().await {
                pipe.write_all(&data).await?;
            }
            Ok::<(), std::io::Error>(())
        };
        tokio::select! {
            written = write => if let Err(error) = written {
                tracing::debug!(%proc, %error, "input is not read any more");
            },
            // descendants may hold the pipe open
            () = async { while ended.changed().await.is_ok() {} } => {}
        }
    });
    sender
}
