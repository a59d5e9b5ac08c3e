//! `pmix ps --hosts`: the hosts of each job.

use std::collections::BTreeMap;

use pmix_tool::types::{RankSet, SessionNode};
use pmix_tool::{Nspace, ProcInfo};
use serde::Serialize;

use super::render::Columns;

/// What a host has of a job.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct JobHost {
    /// `None` for ranks whose host is unknown.
    node: Option<String>,
    slots: Option<u32>,
    #[serde(serialize_with = "as_text")]
    ranks: RankSet,
    /// How many of these ranks are in each state.
    states: BTreeMap<String, u64>,
    lost: Option<String>,
}

fn as_text<S: serde::Serializer>(ranks: &RankSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(ranks)
}

/// The hosts of a job, in the order of their first ranks.
pub(super) fn hosts_of(procs: &[ProcInfo], nodes: &[SessionNode]) -> Vec<JobHost> {
    let mut hosts = Vec::<JobHost>::new();
    let mut places = BTreeMap::new();
    for proc in procs {
        let place = *places.entry(&proc.hostname).or_insert_with(|| {
            let node = nodes.iter().find(|node| Some(&node.name) == proc.hostname.as_ref());
            hosts.push(JobHost {
                node: proc.hostname.clone(),
                slots: node.and_then(|node| node.slots),
                ranks: RankSet::new(),
                states: BTreeMap::new(),
                lost: node.and_then(|node| node.lost.clone()),
            });
            hosts.len() - 1
        });
        if let Some(host) = hosts.get_mut(place) {
            host.ranks.insert(proc.proc.rank);
            *host.states.entry(proc.state.to_string()).or_default() += 1;
        }
    }
    hosts
}

pub(super) const HOST_COLUMNS: Columns = Columns {
    titles: &["NAMESPACE", "NODE", "SLOTS", "RANKS", "STATE"],
    numbers: &[2],
    texts: &[0, 1, 3, 4],
};

/// A row of the table of hosts; `-` means unknown. Where all ranks are in one state, there is no number.
pub(super) fn host_row(nspace: &Nspace, host: &JobHost) -> Vec<String> {
    let is_one = host.states.len() == 1;
    let state =
        |(state, count): (&String, &u64)| if is_one { state.clone() } else { format!("{count} {state}") };
    let states = host.lost.iter().map(|_| "lost".to_owned()).chain(host.states.iter().map(state));
    vec![
        nspace.to_string(),
        host.node.clone().unwrap_or_else(|| "-".into()),
        host.slots.map_or_else(|| "-".into(), |slots| slots.to_string()),
        host.ranks.to_string(),
        states.collect::<Vec<_>>().join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use pmix_tool::types::{ProcId, ProcState, Rank};

    use super::*;

    #[test]
    fn a_host_has_its_slots_its_ranks_and_their_states() {
        let nspace: Nspace = "job-1".parse().unwrap();
        let proc = |rank: u32, host: Option<&str>, state| {
            let mut info = ProcInfo::new(ProcId::new(nspace.clone(), Rank::new(rank).unwrap()));
            (info.hostname, info.state) = (host.map(Into::into), state);
            info
        };
        let procs = [
            proc(0, Some("n1"), ProcState::RUNNING),
            proc(1, Some("n0"), ProcState::ABORTED_BY_SIG),
            proc(2, Some("n1"), ProcState::RUNNING),
            proc(3, Some("n1"), ProcState::TERMINATED),
            proc(4, None, ProcState::RUNNING),
        ];
        let mut nodes = [SessionNode::new("n0"), SessionNode::new("n1"), SessionNode::new("n2")];
        (nodes[0].lost, nodes[1].slots) = (Some("it was cut off".into()), Some(4));
        let hosts = hosts_of(&procs, &nodes);
        let rows: Vec<_> = hosts.iter().map(|host| host_row(&nspace, host).join("|")).collect();
        assert_eq!(
            rows,
            [
                "job-1|n1|4|0,2-3|2 RUNNING, 1 TERMINATED",
                "job-1|n0|-|1|lost, ABORTED_BY_SIG",
                "job-1|-|-|4|RUNNING"
            ]
        );
        let json = serde_json::to_value(&hosts[..2]).unwrap();
        let expected = serde_json::json!([
            {"node": "n1", "slots": 4, "ranks": "0,2-3", "states": {"RUNNING": 2, "TERMINATED": 1}, "lost": null},
            {"node": "n0", "slots": null, "ranks": "1", "states": {"ABORTED_BY_SIG": 1}, "lost": "it was cut off"}
        ]);
        assert_eq!(json, expected);
    }
}
