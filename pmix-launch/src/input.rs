//! Forwarded input of a process.

use bytes::Bytes;
use pmix_types::ProcId;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

/// Pieces that may wait for a process to read; senders of more wait.
const WAITING: usize = 16;

/// A piece of input, or its end.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Data(Bytes),
    End,
}

/// Writes pieces to the pipe until the end of the input or of the process.
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
                tracing::debug!(%proc, %error, "the process no longer reads its input");
            },
            // descendants may keep the pipe open
            () = async { while ended.changed().await.is_ok() {} } => {}
        }
    });
    sender
}
