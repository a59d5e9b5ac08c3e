//! Tools linked with the C library attach to their server again. Some libraries open one more connection then, under the
//! name that the tool has.

use std::process::Command;

use bytes::BytesMut;
use pmix_client::ProcId;
use pmix_client::types::{DataRange, Status};
use pmix_native::conn::{ConnectError, Peer as Who, Role, ToolAnswer, ToolIdentity};
use pmix_native::{Dialect, Encoding};
use pmix_tests::{Peer, Running, TestNode, beside, native_connect, native_stream, native_user, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::tools::with_job;

/// What the program listens for.
const CODE: Status = Status::from_raw(-3007);

async fn start(library: Peer, acts: &str) -> Option<(TestNode, Running)> {
    let tool = library.program("pmix_tool_again")?;
    let (node, uri) = with_job("again", "job-a").await;
    let mut command = beside(&node, Command::new(tool));
    command.arg(uri).args(acts.split_whitespace());
    Some((node, Running::start(command)))
}

/// All of these acts succeed, and end with the end of the tool.
async fn ends(tool: Running, acts: &str, said: &[&str]) {
    let (status, out, err) = tool.end().await;
    assert!(status.success(), "{status} {out}{err}");
    for act in acts.split_whitespace().chain(["finalize"]) {
        assert!(out.lines().any(|line| line == format!("{act}: 0")), "{act}: {out}{err}");
    }
    for line in said {
        assert!(out.lines().any(|found| found == *line), "{line:?}: {out}{err}");
    }
    assert!(!out.contains("now "), "it has another name, or another server: {out}{err}");
}

/// What the tool has asked for before, and what it asks for later, holds; an event comes once.
async fn attaches_again(library: Peer, again: &str) {
    let acts = format!("listen {again} servers query");
    let Some((node, mut tool)) = start(library, &format!("{acts} hear")).await else { return };
    let said = tool.line_with("query:").await;
    assert_eq!(said, "query: 0");
    let rank = node.client(0).await;
    within(rank.notify(CODE).range(DataRange::GLOBAL)).await.unwrap();
    ends(tool, "hear", &["namespaces job-a", "heard 1"]).await;
}

#[tokio::test]
async fn tol_12_a_c_tool_attaches_again_and_keeps_what_it_has() {
    attaches_again(Peer::Libpmix, "attach").await;
}

#[tokio::test]
async fn tol_12_a_tool_of_libpmix_5_attaches_again_and_keeps_what_it_has() {
    attaches_again(Peer::Libpmix5, "attach attach").await;
}

#[tokio::test]
async fn tol_12_a_tool_of_libpmix_5_attaches_again_to_its_primary_server() {
    attaches_again(Peer::Libpmix5, "primary set").await;
}

/// Another process of the same user that claims the name of a tool is refused, and the tool goes on.
async fn is_not_replaced(library: Peer) {
    let Some((node, mut tool)) = start(library, "listen hear").await else { return };
    let name = tool.line_with("attached as").await;
    let (nspace, rank) = name.strip_prefix("attached as ").unwrap().rsplit_once(':').unwrap();
    let name = ProcId::new(nspace.parse().unwrap(), rank.parse().unwrap());
    assert_eq!(tool.line_with("listen:").await, "listen: 0");
    let identity = ToolIdentity::Given(name);
    let who = Who::Tool { role: Role::Tool, user: native_user(), identity };
    let mut stream = native_stream(&node).await;
    let connect = native_connect(who, Encoding::plain(Dialect::V41), "5.0.11").encode().unwrap();
    stream.write_all(&connect).await.unwrap();
    let mut said = BytesMut::new();
    within(stream.read_buf(&mut said)).await.unwrap();
    let answer = ToolAnswer::decode(&mut said, false);
    assert!(matches!(answer, Err(ConnectError::Refused(Status::ERR_EXISTS))), "{answer:?}");

    let rank = node.client(0).await;
    within(rank.notify(CODE).range(DataRange::GLOBAL)).await.unwrap();
    ends(tool, "hear", &["heard 1"]).await;
}

#[tokio::test]
async fn tol_09e_nobody_attaches_under_the_name_of_a_c_tool() {
    is_not_replaced(Peer::Libpmix).await;
}

#[tokio::test]
async fn tol_09e_nobody_attaches_under_the_name_of_a_tool_of_libpmix_5() {
    is_not_replaced(Peer::Libpmix5).await;
}
