//! Another user at the port for PMI-1.

use pmix_pmi1::Response;
use pmix_server::Pmi1Wire;
use pmix_tests::{Logs, OtherUser, Pmi1Session, Running, TestNode};

/// By a shell, which says the number of a process of ours and what it gets for that.
fn claim(address: &str, id: &str) -> String {
    let (host, port) = address.split_once(':').unwrap();
    let talk = format!("exec 3<>/dev/tcp/{host}/{port}; echo cmd=initack pmiid={id} >&3; cat <&3");
    format!("bash -c '{talk}' 2>/dev/null; echo refused")
}

#[tokio::test]
async fn sec_01_another_user_does_not_come_in_by_the_port_for_pmi_1() {
    let Some(stranger) = OtherUser::second() else { return };
    for (other_users, reason) in [(false, "belongs to uid"), (true, "belongs to another user")] {
        let wire = Pmi1Wire::InheritedOrPort;
        let node = TestNode::builder(2)
            .server(|server| server.pmi1_wire(wire).other_users(other_users))
            .start()
            .await;
        let (address, id) = Pmi1Session::port(&node, 1).await;
        let logs = Logs::start();
        let attack = stranger.command_line(&claim(&address, &id));
        let (status, out, err) = Running::start(attack).end().await;
        assert!(status.success(), "{out}{err}");
        assert_eq!(out, "refused\n", "it is told nothing");
        logs.line_with(&["refused a connection", reason]).await;
        assert_eq!(node.stats().await.connections, 0);
        // the place was not taken
        let mut own = Pmi1Session::at(&address).await;
        assert!(matches!(
            own.line(&format!("cmd=initack pmiid={id}")).await,
            Response::InitAck { rank: 1, .. }
        ));
    }
}
