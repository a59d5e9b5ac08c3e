//! Who is refused, or shown out, that speaks PMI-1 or does not, while a job goes on.

use std::time::Duration;

use futures::FutureExt;
use pmix_pmi1::{MAX_LINE, MAX_SPAWN, Request, Response};
use pmix_server::Pmi1Wire;
use pmix_tests::{Logs, Pmi1Session, TestNode, noise};

const INIT: Response = Response::Init { version: 1, subversion: 1, rc: 0 };

async fn node() -> (TestNode, [Pmi1Session; 2]) {
    let node =
        TestNode::builder(3).server(|server| server.pmi1_wire(Pmi1Wire::InheritedOrPort)).start().await;
    let sessions = [Pmi1Session::init(&node, 0).await, Pmi1Session::init(&node, 1).await];
    (node, sessions)
}

/// The job does what jobs do.
async fn goes_on(sessions: &mut [Pmi1Session; 2]) {
    let [one, other] = sessions;
    one.put("goes", "on").await;
    assert_eq!(other.get("goes").await.as_deref(), Some("on"));
}

#[tokio::test]
async fn what_is_no_pmi_1_is_shown_out_while_the_job_goes_on() {
    let (node, mut sessions) = node().await;
    let broken_spawn = b"mcmd=spawn\nnprocs=1\nendcommand\n".to_vec();
    let long_spawn = [b"mcmd=spawn\n".to_vec(), b"a=b\n".repeat(MAX_SPAWN / 4 + 2)].concat();
    for garbage in [b"hello\n".to_vec(), vec![b'a'; MAX_LINE], b"\xff\n".to_vec(), broken_spawn, long_spawn] {
        let logs = Logs::start();
        for mut session in [Pmi1Session::of(&node, 2).await, Pmi1Session::init(&node, 2).await] {
            session.say(&garbage).await;
            assert_eq!(session.answer().await, None);
        }
        logs.line_with(&["closed a connection", "protocol error"]).await;
        goes_on(&mut sessions).await;
    }
}

/// Half a line, or half a spawn, is waited for; what has come of it ends with its connection.
#[tokio::test]
async fn half_a_message_of_pmi_1_is_no_message() {
    let (node, mut sessions) = node().await;
    for half in ["cmd=put key=half value=1", "mcmd=spawn\nnprocs=1\nexecname=true"] {
        let mut session = Pmi1Session::init(&node, 2).await;
        session.say(half.as_bytes()).await;
        goes_on(&mut sessions).await;
        drop(session);
        assert_eq!(sessions[0].get("half").await, None);
    }
}

#[tokio::test]
async fn a_random_stream_of_pmi_1_is_shown_out_while_the_job_goes_on() {
    let (node, mut sessions) = node().await;
    let noise = noise(1 << 20);
    for piece in noise.chunks(1 << 15) {
        let mut session = Pmi1Session::of(&node, 2).await;
        session.say(piece).await;
        while session.answer().await.is_some() {}
    }
    goes_on(&mut sessions).await;
}

#[tokio::test]
async fn requests_that_lack_something_or_come_too_early_are_answered_by_failures() {
    let (node, mut sessions) = node().await;
    let mut early = Pmi1Session::of(&node, 2).await;
    for line in ["cmd=put key=a value=b", "cmd=barrier_in", "cmd=get_appnum", "cmd=finalize"] {
        assert!(matches!(early.line(line).await, Response::Failed { .. }), "{line}");
    }
    for line in [
        "cmd=put value=b",
        "cmd=get_ranks2hosts",
        "cmd=create_kvs",
        "cmd=init pmi_version=one",
        "cmd=getbyidx idx=-1",
        "cmd=singinit pmi_version=1 pmi_subversion=1 stdio=yes authtype=none",
        "mcmd=spawn\nnprocs=1\nendcmd",
    ] {
        assert!(matches!(sessions[0].line(line).await, Response::Failed { .. }), "{line}");
    }
    let long = format!("cmd=put key={} value=b", "k".repeat(64));
    assert!(matches!(sessions[0].line(&long).await, Response::Put(Err(_))));
    let long = format!("cmd=put key=a value={}", "v".repeat(1024));
    assert!(matches!(sessions[0].line(&long).await, Response::Put(Err(_))));
    goes_on(&mut sessions).await;
}

#[tokio::test]
async fn text_that_is_not_utf_8_fails_with_its_request_and_the_connection_of_pmi_1_goes_on() {
    let (_node, mut sessions) = node().await;
    let block = |last: &[u8]| [b"mcmd=spawn\nnprocs=1\nexecname=true\n", last, b"endcmd\n"].concat();
    let spawn = block(b"arg1=ren\xe9\nargcnt=1\n");
    sessions[0].say(&spawn).await;
    assert!(matches!(sessions[0].answer().await, Some(Response::Spawned(Err(_)))));
    goes_on(&mut sessions).await;
    let spawn =
        [block(b"arg1=\xe9\nargcnt=1\ntotspawns=2\nspawnssofar=1\n"), block(b"totspawns=2\nspawnssofar=2\n")];
    sessions[0].say(&spawn.concat()).await;
    assert!(matches!(sessions[0].answer().await, Some(Response::Spawned(Err(_)))));
    for (line, command) in [
        (&b"cmd=put key=a value=\xe9\n"[..], "put"),
        (b"cmd=get key=\xe9\n", "get"),
        (b"cmd=publish_name service=\xe9 port=p\n", "publish"),
        (b"cmd=lookup_name service=\xe9\n", "lookup"),
        (b"cmd=unheard_of of=\xe9\n", "another"),
    ] {
        sessions[0].say(line).await;
        let answer = sessions[0].answer().await.expect("an answer");
        let is_due = match command {
            "put" => matches!(answer, Response::Put(Err(_))),
            "get" => matches!(answer, Response::Value(Err(_))),
            "publish" => matches!(answer, Response::Published(Err(_))),
            "lookup" => matches!(answer, Response::Port(Err(_))),
            _ => matches!(answer, Response::Failed { .. }),
        };
        assert!(is_due, "{command}: {answer:?}");
        goes_on(&mut sessions).await;
    }
}

/// It costs what its socket holds, and one request at a time.
#[tokio::test]
async fn a_process_of_pmi_1_that_never_reads_is_disconnected() {
    let patience = Duration::from_millis(200);
    let node = TestNode::builder(2)
        .server(|server| server.pmi1_wire(Pmi1Wire::Inherited).unread_timeout(patience))
        .start()
        .await;
    let logs = Logs::start();
    let mut silent = Pmi1Session::init(&node, 0).await;
    let line = Request::GetMaxes.encode();
    // more than all buffers between take; the rest is not written, because the server hangs up
    silent.say(&line.repeat(200_000)).await;
    logs.line_with(&["closed a connection", "does not read its messages"]).await;
    // others find that it is gone
    let mut other = Pmi1Session::init(&node, 1).await;
    assert!(matches!(other.ask(&Request::BarrierIn).await, Response::Failed { .. }));
}

#[tokio::test]
async fn a_process_without_a_socket_comes_to_the_port_by_its_number() {
    let (node, mut sessions) = node().await;
    let (address, id) = Pmi1Session::port(&node, 2).await;
    assert_eq!(Pmi1Session::port(&node, 2).await, (address.clone(), id.clone()), "it keeps its number");
    let mut third = Pmi1Session::at(&address).await;
    let answer = third.line(&format!("cmd=initack pmiid={id}")).await;
    assert_eq!(answer, Response::InitAck { size: 3, rank: 2, debug: false });
    let answer = third.line("cmd=init pmi_version=1 pmi_subversion=1").await;
    assert_eq!(answer, INIT);
    assert_eq!(node.stats().await.connections, 3);
    third.put("third", "3").await;
    assert_eq!(sessions[0].get("third").await.as_deref(), Some("3"));
    for session in sessions.iter_mut().chain([&mut third]) {
        session.say(&Request::BarrierIn.encode()).await;
    }
    for session in sessions.iter_mut().chain([&mut third]) {
        assert_eq!(session.answer().await, Some(Response::BarrierOut));
    }
    assert_eq!(third.ask(&Request::Finalize).await, Response::FinalizeAck);
}

#[tokio::test]
async fn who_comes_to_the_port_without_a_number_of_its_own_is_refused() {
    let (node, mut sessions) = node().await;
    let (address, id) = Pmi1Session::port(&node, 2).await;
    let mut third = Pmi1Session::at(&address).await;
    third.line(&format!("cmd=initack pmiid={id}")).await;
    let long = format!("cmd=initack pmiid={}", "0".repeat(200));
    for (line, reason) in [
        (format!("cmd=initack pmiid={id}"), "is connected already"),
        ("cmd=initack pmiid=4711".to_owned(), "there is no process with PMI_ID 4711"),
        ("cmd=initack pmiid=-1".to_owned(), "there is no process with PMI_ID -1"),
        ("cmd=init pmi_version=1 pmi_subversion=1".to_owned(), "its first message is not initack"),
        ("hello".to_owned(), "does not speak the protocol"),
        (long, "its greeting is too long"),
    ] {
        let logs = Logs::start();
        let mut stranger = Pmi1Session::at(&address).await;
        stranger.say(format!("{line}\n").as_bytes()).await;
        logs.line_with(&["refused a connection", reason]).await;
        assert_eq!(stranger.answer().await, None, "{line}");
    }
    assert_eq!(node.stats().await.connections, 3, "nobody else was let in");
    goes_on(&mut sessions).await;
    // the place is free again when it has left
    assert_eq!(third.line("cmd=init pmi_version=1 pmi_subversion=1").await, INIT);
    assert_eq!(third.ask(&Request::Finalize).await, Response::FinalizeAck);
    drop(third);
    let mut again = Pmi1Session::at(&address).await;
    loop {
        again.say(format!("cmd=initack pmiid={id}\n").as_bytes()).await;
        match again.answer().await {
            Some(answer) => break assert!(matches!(answer, Response::InitAck { rank: 2, .. })),
            None => again = Pmi1Session::at(&address).await,
        }
    }
}

/// Also if the end of the job is not awaited.
#[tokio::test]
async fn reg_11_the_connection_and_the_number_of_a_process_at_the_port_end_with_its_job() {
    for is_awaited in [true, false] {
        let (node, _sessions) = node().await;
        let (address, id) = Pmi1Session::port(&node, 2).await;
        let mut third = Pmi1Session::at(&address).await;
        third.line(&format!("cmd=initack pmiid={id}")).await;
        let nspace = node.job().nspace;
        let mut gone = Box::pin(node.handle().deregister_nspace(&nspace));
        match is_awaited {
            true => gone.await.unwrap(),
            false => {
                // the server, on its own thread, may have done it before the answer is looked for
                let _ = (&mut gone).now_or_never();
                drop(gone);
            }
        }
        assert_eq!(third.answer().await, None);
        let logs = Logs::start();
        let mut again = Pmi1Session::at(&address).await;
        again.say(format!("cmd=initack pmiid={id}\n").as_bytes()).await;
        logs.line_with(&["refused a connection", "there is no process with PMI_ID"]).await;
    }
}

#[tokio::test]
async fn a_process_at_the_port_stays_if_the_end_of_its_job_is_given_up_before_it_is_asked_for() {
    let (node, mut sessions) = node().await;
    let (address, id) = Pmi1Session::port(&node, 2).await;
    let mut third = Pmi1Session::at(&address).await;
    third.line(&format!("cmd=initack pmiid={id}")).await;
    assert_eq!(third.line("cmd=init pmi_version=1 pmi_subversion=1").await, INIT);
    let nspace = node.job().nspace;
    let mut gone = Box::pin(node.handle().deregister_nspace(&nspace));
    // a task that has used its budget up must wait, as for a full inbox
    while tokio::task::consume_budget().now_or_never().is_some() {}
    assert!((&mut gone).now_or_never().is_none());
    drop(gone);
    third.put("third", "3").await;
    assert_eq!(sessions[0].get("third").await.as_deref(), Some("3"));
}
