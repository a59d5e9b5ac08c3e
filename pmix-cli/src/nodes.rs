//! `pmix nodes`: the nodes on which jobs may run.

use std::io::{self, Write};
use std::process::ExitCode;
use std::str::FromStr;

use pmix_tool::types::{AllocDirective, SessionNode, escaped};
use pmix_tool::{Directives, Error, Nspace, ToolBuilder, keys};
use serde::Serialize;

use super::render::{Columns, write_fitted, write_wrapped};
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Lists the nodes of each session
///
/// With `add` and `drain`, it changes the nodes of a DVM (`pmixd --head`).
///
/// By default it queries all live servers of this user on this node. SLOTS is how many processes of a job a node takes, RANKS how many
/// processes of all jobs run there, PROCESSORS how many those on the node's machine may use. A node is up, lost for
/// the reason below the table, or draining: then it takes no further jobs, and leaves when its last one has ended. Columns without any known value are left out.
///
/// The JSON report is one object: {"schema", "servers": [{"nspace", "pid", "uri", "nodes": [{"node", "machine", "processors", "slots",
/// "procs", "lost", "drains"}]}]}. What is unknown is null, as are the slots of a node that takes any number of processes; "lost" is the reason, or
/// null. The list is empty if no server could be queried.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the table was printed; 1 if no server is running, or one could not be queried; 2 for an \
                  invalid command line."
)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    change: Option<Change>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

/// A change of the nodes of a DVM.
#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Start daemons on further nodes, or on those that were lost and are back; returns when they take jobs
    ///
    /// The daemons are started as the head has started its first ones.
    Add {
        /// Nodes, each with its number of slots after a colon (1 if not given)
        #[arg(value_name = "NODE[:SLOTS]", required = true)]
        nodes: Vec<NodeToAdd>,

        #[command(flatten)]
        selection: Selection,
    },
    /// Have nodes take no further jobs, and leave when the last one there has ended; returns at once
    Drain {
        /// The nodes
        #[arg(value_name = "NODE", required = true)]
        nodes: Vec<String>,

        #[command(flatten)]
        selection: Selection,
    },
}

/// A node with its number of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeToAdd {
    name: String,
    slots: u32,
}

impl FromStr for NodeToAdd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, slots) = text.split_once(':').unwrap_or((text, "1"));
        let slots = slots.parse().ok().filter(|slots| *slots > 0);
        let slots = slots.ok_or_else(|| "the number of slots must be at least 1".to_owned())?;
        if name.is_empty() || name.contains(',') {
            return Err("write the name of one node".to_owned());
        }
        Ok(Self { name: name.to_owned(), slots })
    }
}

/// How long nodes may take to come if the command line does not say: longer than the head waits by default.
const COMING: u32 = 90;

async fn change(change: Change) -> Result<ExitCode, Trouble> {
    let (selection, what, directive, directives) = match change {
        Change::Add { nodes, selection } => {
            let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
            let slots: Vec<_> = nodes.iter().map(|node| node.slots.to_string()).collect();
            let directives = Directives::new()
                .require(&keys::ALLOC_NODE_LIST, names.join(","))
                .require(&keys::ALLOC_NUM_CPU_LIST, slots.join(","));
            (selection.with_patience(COMING), "add", AllocDirective::EXTEND, directives)
        }
        Change::Drain { nodes, selection } => {
            let directives = Directives::new().require(&keys::ALLOC_NODE_LIST, nodes.join(","));
            (selection, "drain", AllocDirective::RELEASE, directives)
        }
    };
    let tool = selection.connect().await?;
    let request = tool.client().allocate(directive).directives(directives);
    match request.await {
        Err(pmix_tool::client::Error::Pmix(refused)) => {
            return Err(Trouble::Other(format!("cannot {what} nodes: {}", refused.failure)));
        }
        changed => changed.map(drop)?,
    }
    finalize(tool).await;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Serialize)]
struct ServerNodes {
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
    if let Some(wanted) = args.change {
        return change(wanted).await;
    }
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
            servers: Vec<ServerNodes>,
        }
        console.json(&Report { servers })?;
    } else {
        write(&servers, console)?;
    }
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn query(builder: ToolBuilder) -> Result<ServerNodes, Error> {
    let tool = builder.connect().await?;
    let nodes = tool.nodes().await?;
    let server = tool.server()?;
    let report = ServerNodes {
        nspace: server.proc_id().nspace.clone(),
        pid: server.info().map(|info| info.pid),
        uri: server.uri().to_owned(),
        nodes,
    };
    finalize(tool).await;
    Ok(report)
}

/// A table for each server, with a title if there are several.
fn write(servers: &[ServerNodes], console: &mut Console<'_>) -> io::Result<()> {
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
        match node {
            SessionNode { lost: Some(_), .. } => "lost",
            SessionNode { drains: true, .. } => "draining",
            _ => "up",
        }
        .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::color;
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
    fn a_node_to_add_has_one_slot_unless_more_are_given() {
        let read = |text: &str| text.parse::<NodeToAdd>().map(|node| (node.name, node.slots));
        assert_eq!([read("n1"), read("n1:4")], [Ok(("n1".into(), 1)), Ok(("n1".into(), 4))]);
        for wrong in ["", ":4", "n1:0", "n1:x", "n1,n2", "n1:4:4"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_node_that_is_to_leave_says_so() {
        let mut node = SessionNode::new("n2");
        node.drains = true;
        let table = written(&[node], None);
        assert_eq!(table, "NODE  STATE\nn2    draining\n");
        assert_eq!(color::paint(&table), "NODE  STATE\nn2    \x1b[33mdraining\x1b[0m");
    }

    #[test]
    fn what_is_known_of_no_node_has_no_column() {
        assert_eq!(written(&[SessionNode::new("n2")], None), "NODE  STATE\nn2    up\n");
    }
}
