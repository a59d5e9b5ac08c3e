//! Requests of tools for nodes of the host itself: to add some, or to have some leave.

use std::sync::OnceLock;

use pmix_server::host::{HostError, HostResult};
use pmix_types::Status;
use tokio::sync::{mpsc, oneshot};

use super::choice::{Wanted, bad};

/// Requests that wait for the owner of the host.
const WAITING: usize = 16;

/// What a tool wants of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeChange {
    /// These nodes, with the number of slots of each, are to take jobs.
    Add(Vec<(String, u32)>),
    /// These nodes are to take no further jobs, and to leave when those that run there have ended.
    Leave(Vec<String>),
}

/// A request of a tool. It is refused if this is dropped.
#[derive(Debug)]
pub struct NodeRequest {
    wanted: NodeChange,
    done: oneshot::Sender<Result<(), String>>,
}

impl NodeRequest {
    /// What is wanted.
    pub const fn wanted(&self) -> &NodeChange {
        &self.wanted
    }

    /// Answers it: an error is told to the user of the tool.
    pub fn answer(self, result: Result<(), String>) {
        // the tool may be gone
        let _ = self.done.send(result);
    }
}

/// The way of requests to the owner of the host.
#[derive(Debug, Default)]
pub(super) struct NodeRequests(OnceLock<mpsc::Sender<NodeRequest>>);

impl NodeRequests {
    pub(super) fn receive(&self) -> mpsc::Receiver<NodeRequest> {
        let (sender, receiver) = mpsc::channel(WAITING);
        // the first one counts; a later one finds its channel closed
        let _ = self.0.set(sender);
        receiver
    }

    /// Whether there is anybody to ask.
    pub(super) fn are_heard(&self) -> bool {
        self.0.get().is_some_and(|sender| !sender.is_closed())
    }

    /// Asks the owner of the host, and waits for the answer.
    ///
    /// # Errors
    /// It is refused, with the reason.
    pub(super) async fn ask(&self, wanted: NodeChange) -> HostResult<()> {
        let gone = || HostError::not_supported("a change of the nodes of this server");
        let (done, answer) = oneshot::channel();
        let sender = self.0.get().ok_or_else(gone)?;
        sender.send(NodeRequest { wanted, done }).await.map_err(|_| gone())?;
        let failed = |reason: String| HostError::new(Status::ERR_JOB_ALLOC_FAILED, reason);
        answer.await.map_err(|_| gone())?.map_err(failed)
    }
}

/// The nodes that a request names, and nothing else, with the slots of each, one if that is not given.
///
/// # Errors
/// It says more, or has other than one number for each node.
pub(super) fn named(wanted: &Wanted) -> HostResult<Vec<(String, u32)>> {
    let Wanted { nodes: None, named: Some(named), excluded, slots: None, slots_of_each } = wanted else {
        let what = "nodes are named by ALLOC_NODE_LIST, and their slots by ALLOC_NUM_CPU_LIST alone";
        return Err(bad(what.to_owned()));
    };
    if !excluded.is_empty() {
        return Err(bad("ALLOC_EXCLUDE has no meaning where nodes are named".to_owned()));
    }
    let each = slots_of_each.clone().unwrap_or_else(|| vec![1; named.len()]);
    if each.len() != named.len() {
        return Err(bad(format!("ALLOC_NUM_CPU_LIST has {} numbers for {} nodes", each.len(), named.len())));
    }
    let slots = |slots: u64| u32::try_from(slots).ok().filter(|slots| *slots > 0);
    named
        .iter()
        .zip(each)
        .map(|(name, number)| {
            let slots =
                slots(number).ok_or_else(|| bad(format!("node {name} cannot have {number} slots")))?;
            Ok((name.clone(), slots))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(named: &[&str], slots_of_each: Option<Vec<u64>>) -> Wanted {
        let named = Some(named.iter().map(|name| (*name).to_owned()).collect());
        Wanted { named, slots_of_each, ..Wanted::default() }
    }

    #[test]
    fn alc_01_nodes_are_added_by_name_with_their_slots() {
        let of = |wanted: Wanted| named(&wanted).map_err(|error| error.status());
        assert_eq!(of(wanted(&["a", "b"], Some(vec![4, 1]))), Ok(vec![("a".into(), 4), ("b".into(), 1)]));
        assert_eq!(of(wanted(&["a"], None)), Ok(vec![("a".into(), 1)]));
        for wrong in [
            wanted(&["a"], Some(vec![4, 1])),
            wanted(&["a"], Some(vec![0])),
            wanted(&["a"], Some(vec![1 << 40])),
            Wanted { nodes: Some(1), ..wanted(&["a"], None) },
            Wanted { slots: Some(1), ..wanted(&["a"], None) },
            Wanted { excluded: vec!["b".into()], ..wanted(&["a"], None) },
            Wanted { nodes: Some(1), ..Wanted::default() },
        ] {
            assert_eq!(of(wrong.clone()), Err(Status::ERR_BAD_PARAM), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_request_that_nobody_answers_is_refused() {
        let requests = NodeRequests::default();
        let ask = || requests.ask(NodeChange::Leave(vec!["a".into()]));
        assert!(!requests.are_heard());
        assert_eq!(ask().await.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        let mut receiver = requests.receive();
        let (asked, ()) = tokio::join!(ask(), async {
            let request = receiver.recv().await.unwrap();
            assert_eq!(*request.wanted(), NodeChange::Leave(vec!["a".into()]));
            request.answer(Err("it is needed".into()));
        });
        let refusal = asked.unwrap_err();
        assert_eq!(
            (refusal.status(), refusal.to_string().contains("it is needed")),
            (Status::ERR_JOB_ALLOC_FAILED, true)
        );
        let (asked, _) = tokio::join!(ask(), async { drop(receiver.recv().await) });
        assert_eq!(asked.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        drop(receiver);
        assert!(!requests.are_heard());
        assert_eq!(ask().await.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    }
}
