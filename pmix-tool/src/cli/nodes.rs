//! `pmix nodes`: the nodes on which jobs may run.

use std::io::{self, Write};
use std::process::ExitCode;

use pmix_tool::types::{SessionNode, escaped};
use pmix_tool::{Error, Nspace, ToolBuilder};
use serde::Serialize;

use super::render::{Columns, write_fitted, write_wrapped};
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Lists the nodes of each session
///
/// By default it queries all live servers of this user on this node. SLOTS is how many processes of a job a node takes, RANKS how many
/// processes of all jobs run there, PROCESSORS how many those on the node's machine may use. A node is up, or lost for
/// the reason below the table. Columns of which nothing is known are left out.
///
/// The JSON report is one object: {"servers": [{"nspace", "pid", "uri", "nodes": [{"name", "machine", "processors", "slots",
/// "procs", "lost"}]}]}. What is unknown is null, as are the slots of a node that takes any number of processes; "lost" is the reason, or
/// null. The list is empty if no server could be queried.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the table was printed; 1 if no server is running, or one could not be queried; 2 for an \
                  invalid command line."
)]
pub(super) struct Args {
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Serialize)]
struct ServerReport {
    nspace: Nspace,
    pid: Option<u32>,
    uri: String,
    nodes: Vec<SessionNode>,
}

const COLUMNS: Columns = Columns {
    titles: &["NODE", "MACHINE", "PROCESSORS", "SLOTS", "RANKS", "STATE"],
    numbers: &[2, 3, 4],
    texts: &[0, 1],
};

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let mut servers = Vec::new();
    let mut is_complete = true;
    for tool in args.selection.candidates()? {
        match query(tool).await {
            Ok(server) => servers.push(server),
            Err(error) => {
                is_complete = false;
                console.complain(&error.to_string());
            }
        }
    }
    if args.json {
        #[derive(Serialize)]
        struct Report {
            servers: Vec<ServerReport>,
        }
        console.json(&Report { servers })?;
    } else {
        write(&servers, console)?;
    }
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn query(builder: ToolBuilder) -> Result<ServerReport, Error> {
    let tool = builder.connect().await?;
    let nodes = tool.nodes().await?;
    let server = tool.server()?;
    let report = ServerReport {
        nspace: server.proc_id().nspace.clone(),
        pid: server.info().map(|info| info.pid),
        uri: server.uri().to_owned(),
        nodes,
    };
    finalize(tool).await;
    Ok(report)
}

/// A table for each server, with a title if there are several.
fn write(servers: &[ServerReport], console: &mut Console<'_>) -> io::Result<()> {
    for (index, server) in servers.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        if let (2.., Some(pid)) = (servers.len(), server.pid) {
            writeln!(console.out, "server {}, pid {pid}:", server.nspace)?;
        }
        write_nodes(console.out, &server.nodes, console.width)?;
    }
    Ok(())
}

/// The table, and below it why nodes are lost.
fn write_nodes(out: &mut dyn Write, nodes: &[SessionNode], width: Option<usize>) -> io::Result<()> {
    write_fitted(out, COLUMNS, nodes.iter().map(row).collect(), width)?;
    for (node, reason) in nodes.iter().filter_map(|node| Some((node, node.lost.as_ref()?))) {
        let told = format!("node {} is lost: {reason}", node.name);
        write_wrapped(out, &escaped(&told).to_string(), width)?;
    }
    Ok(())
}

fn row(node: &SessionNode) -> Vec<String> {
    let number = |number: Option<u32>| number.map_or_else(|| "-".into(), |number| number.to_string());
    vec![
        node.name.clone(),
        node.machine.clone().unwrap_or_else(|| "-".into()),
        number(node.processors),
        number(node.slots),
        number(node.procs),
        if node.lost.is_some() { "lost" } else { "up" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(nodes: &[SessionNode], width: Option<usize>) -> String {
        let mut out = Vec::new();
        write_nodes(&mut out, nodes, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nodes_fit_a_terminal_and_the_loss_of_one_has_its_reason() {
        let mut nodes = vec![SessionNode::new("n0"), SessionNode::new("n1")];
        nodes[0].machine = Some("rack-2-machine-7.cluster-of-the-institute.example.org".into());
        (nodes[0].processors, nodes[0].slots, nodes[0].procs) = (Some(64), Some(8), Some(8));
        nodes[1].procs = Some(0);
        nodes[1].lost = Some("its connection has ended:\nthe other side has not answered for 20 s".into());
        let expected = "\
NODE  MACHINE                                    PROCESSORS  SLOTS  RANKS  STATE
n0    rack-2-machine-7.cl...stitute.example.org          64      8      8  up
n1    -                                                   -      -      0  lost
node n1 is lost: its connection has ended:\\nthe other side has not answered for
  20 s
";
        assert_eq!(written(&nodes, Some(80)), expected);
        assert!(written(&nodes, Some(50)).lines().all(|line| line.chars().count() <= 50));
        assert!(written(&nodes, None).contains("machine-7.cluster-of-the-institute.example.org   "));
    }

    #[test]
    fn what_is_known_of_no_node_has_no_column() {
        assert_eq!(written(&[SessionNode::new("n2")], None), "NODE  STATE\nn2    up\n");
    }
}
