//! `pmix-test-server DIR RANKS PUT_LIMIT PATIENCE_MS`: a server in a process of its own, whose memory can be measured.
//!
//! Registers job `job` with so many ranks of its own user, speaks both wires, and says where on its standard output.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a fixture of tests")]

use std::time::Duration;

use pmix_native::Dialect;
use pmix_server::types::job::JobSpec;
use pmix_server::types::{Nspace, ProcId, Rank};
use pmix_server::{NativeWire, Server};
use rustix::process::{getegid, geteuid};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, ranks, put_limit, patience] = args.try_into().unwrap();
    let ranks: u32 = ranks.parse().unwrap();
    let server = Server::builder()
        .session_root(dir)
        .hostname("n0")
        .native_wire(NativeWire::On)
        .put_limit(put_limit.parse().unwrap())
        .patience(Duration::from_millis(patience.parse().unwrap()))
        .start()
        .await
        .unwrap();
    let (handle, nspace) = (server.handle(), Nspace::new("job").unwrap());
    let spec = JobSpec::new(nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, ranks).unwrap();
    handle.register_nspace(spec).await.unwrap();
    for rank in 0..ranks {
        let proc = ProcId::new(nspace.clone(), Rank::from_raw(rank));
        handle.register_client(&proc, geteuid().as_raw(), getegid().as_raw(), None).await.unwrap();
    }
    let env = handle.setup_fork(&ProcId::new(nspace, Rank::from_raw(0))).await.unwrap();
    let native = env.iter().find(|(name, _)| *name == Dialect::V41.uri_variable()).unwrap().1;
    println!("{}", handle.uri());
    println!("{native}");
    std::future::pending::<()>().await;
}
