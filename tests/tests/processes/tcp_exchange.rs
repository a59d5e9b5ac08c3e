//! The example of servers in processes of their own, joined over TCP: what it does, and how it fares with strangers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use pmix_test_wait::within;
use pmix_tests::{Running, example};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const KEYS: [[u8; 32]; 2] = [[7; 32], [8; 32]];

/// The process of a node, with what the example's launcher tells it.
fn node(dir: &Path, number: usize, listening: &[(&str, SocketAddr)]) -> Running {
    let name = format!("n{number}");
    let listening: serde_json::Map<_, _> =
        listening.iter().map(|(node, address)| ((*node).to_owned(), json!(address.to_string()))).collect();
    let setup = json!({
        "node": name, "keys": { "n0": KEYS[0], "n1": KEYS[1] }, "listening": listening, "root": dir,
        "nspace": "job", "to_lose": "n1",
    });
    let file = dir.join(format!("{name}.json"));
    std::fs::write(&file, setup.to_string()).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" node < \"$1\""]).arg(example("tcp_exchange")).arg(file);
    Running::start(command)
}

async fn address(node: &mut Running) -> SocketAddr {
    let line = node.line_with(" listens on ").await;
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// A greeting in one frame: a node's name and a key.
fn greeting(name: &str, key: &[u8]) -> Vec<u8> {
    let mut message = vec![0x0a, u8::try_from(name.len()).unwrap()];
    message.extend(name.bytes());
    message.extend([0x12, u8::try_from(key.len()).unwrap()]);
    message.extend(key);
    framed(&message)
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(message.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(message);
    bytes
}

/// Everything that comes, until the other end closes.
async fn all_of(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // it may close without having read everything, which is an error here
    let _ = within(stream.read_to_end(&mut bytes)).await;
    bytes
}

#[tokio::test]
async fn two_server_processes_work_together_until_one_is_killed() {
    for (lost, left) in [("n1", "n0"), ("n0", "n1")] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(example("tcp_exchange"));
        command.arg(lost).env("TMPDIR", dir.path());
        let (status, out, err) = Running::start(command).end().await;
        assert!(status.success(), "{out}{err}");
        assert_eq!(err, "");
        for rank in 0..4 {
            let (node, other) = (rank / 2, (rank + 2) % 4);
            for does in [
                "fence: has the endpoints of all 4 ranks".to_owned(),
                format!("direct modex: has the greeting of rank {other}"),
                format!("lookup: has what rank {other} has published"),
            ] {
                assert!(out.contains(&format!("rank {rank} on n{node}: {does}\n")), "{does}: {out}");
            }
        }
        let failed = format!(" on {left}: fence failed: exchange: node {lost} is lost: ");
        let failures: Vec<_> = out.lines().filter(|line| line.contains(&failed)).collect();
        assert_eq!(failures.len(), 2, "{out}");
        assert!(failures.iter().all(|line| line.ends_with("(ERR_UNREACH)")), "{out}");
        assert!(out.ends_with("all as it should be\n"), "{out}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is left");
    }
}

#[tokio::test]
async fn strangers_at_its_port_learn_nothing_and_keep_no_node_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = node(dir.path(), 0, &[]);
    let address = address(&mut first).await;
    let connect = || async { within(TcpStream::connect(address)).await.unwrap() };
    drop(connect().await);

    // more than may be at their greeting at once, and none says anything
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(connect().await);
    }
    let half = [&KEYS[1][..16], &[0; 16]].concat();
    let attacks = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 1 << 16],
        u32::MAX.to_be_bytes().to_vec(),
        framed(b"hello"),
        framed(b""),
        greeting("n1", &[0; 32]),
        greeting("n1", &half),
        greeting("n1", &KEYS[1][..31]),
        greeting("n1", b""),
        greeting("n1", &KEYS[0]),
        greeting("n2", &KEYS[1]),
        greeting("", b""),
    ];
    let mut streams = Vec::new();
    for bytes in &attacks {
        let mut stream = connect().await;
        // it may be closed before all is written
        let _ = within(stream.write_all(bytes)).await;
        streams.push(stream);
    }
    // with a key that is right, but not that of a node to come: it is greeted, and not let in
    let mut itself = connect().await;
    itself.write_all(&greeting("n0", &KEYS[0])).await.unwrap();

    let second = node(dir.path(), 1, &[("n0", address)]);
    for stream in silent.into_iter().chain(streams) {
        assert_eq!(all_of(stream).await, b"", "a stranger learns nothing");
    }
    all_of(itself).await;
    for _ in 0..2 {
        first.line_with("enters the last fence").await;
    }
    let refused = TcpStream::connect(address).await;
    assert!(refused.is_err(), "it does not listen any more");
    second.kill();
    for _ in 0..2 {
        let line = first.line_with(" failed").await;
        assert!(line.contains("node n1 is lost: ") && line.ends_with("(ERR_UNREACH)"), "{line}");
    }
    let (status, _, err) = first.end().await;
    assert!(status.success() && err.is_empty(), "{status} {err}");
}

/// When a node has ended, any process can listen at its port.
#[tokio::test]
async fn a_node_does_not_take_strangers_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = b"SSH-2.0-OpenSSH_9.2\r\n".to_vec();
    let answers = [
        (Some(greeting("n0", &[0; 32])), "it does not have the key of a node"),
        (Some(greeting("n1", &KEYS[1])), "it is another node"),
        (Some(garbage), "frame size too big"),
        (Some(Vec::new()), "it closed the connection"),
        (None, "deadline has elapsed"),
    ];
    for (answer, why) in answers {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let node = node(dir.path(), 1, &[("n0", address)]);
        let (mut stream, _) = within(listener.accept()).await.unwrap();
        let mut shown = vec![0; greeting("n1", &KEYS[1]).len()];
        within(stream.read_exact(&mut shown)).await.unwrap();
        let kept = match answer {
            Some(answer) => {
                stream.write_all(&answer).await.unwrap();
                stream.shutdown().await.unwrap();
                None
            }
            None => Some(stream),
        };
        let (status, _, err) = node.end().await;
        assert_eq!(status.code(), Some(1), "{err}");
        let expected = format!("tcp_exchange: node n0 at {address} cannot be reached: {why}");
        assert!(err.starts_with(&expected), "{err}");
        drop(kept);
    }
}
