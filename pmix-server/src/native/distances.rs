//! Distances from processors to devices, for libraries that cannot read the topology themselves.

use std::sync::Arc;

use pmix_native::msg::{Body, DeviceDistances, Reply};
use pmix_topology::{DeviceFilter, Processors, Topology};
use pmix_types::{Directives, Status, keys};
use tokio::sync::OnceCell;

/// The topology of this node, read when somebody asks for the first time.
#[derive(Debug, Default)]
pub(super) struct Distances(OnceCell<Arc<Topology>>);

impl Distances {
    /// The distances on this node, whatever topology the request has: the process is here.
    pub(super) async fn answer(&self, asked: DeviceDistances) -> Reply {
        let (processors, filter) = match (Processors::try_from(&asked.cpuset), filter(asked.info)) {
            (Ok(processors), Ok(filter)) => (processors, filter),
            (Err(_), _) => return Status::ERR_BAD_PARAM.into(),
            (_, Err(status)) => return status.into(),
        };
        // many small files
        let read = || async { tokio::task::spawn_blocking(|| Arc::new(Topology::read())).await };
        match self.0.get_or_try_init(read).await {
            Ok(topology) => Body::Distances(topology.compute_distances(&processors, &filter)).into(),
            Err(_) => Status::ERROR.into(),
        }
    }
}

/// Which devices are wanted; each may be named.
fn filter(mut info: Directives) -> Result<DeviceFilter, Status> {
    let types = info.take(&keys::DEVICE_TYPE).map_err(|failure| failure.status())?.unwrap_or_default();
    let mut filter = DeviceFilter::of_types(types);
    for id in info.take_each(|info| info.is(&keys::DEVICE_ID)) {
        filter.ids.push(id.get().map_err(|_| Status::ERR_BAD_PARAM)?);
    }
    info.deny_unprocessed().map_err(|failure| failure.status())?;
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use pmix_types::{Cpuset, DeviceTypes, Info, Value};

    use super::*;

    fn asked(list: Option<&str>, info: Vec<Info>) -> DeviceDistances {
        let cpuset = Cpuset { source: "hwloc".into(), list: list.map(Into::into) };
        let mut asked = DeviceDistances::new(Value::Undef, cpuset);
        asked.info = info.into();
        asked
    }

    #[tokio::test]
    async fn loc_01_the_answer_is_what_the_topology_of_this_machine_says() {
        let (topology, distances) = (Topology::read(), Distances::default());
        let first = topology.processors().iter().next().unwrap().to_string();
        let of = |types| DeviceFilter::of_types(types);
        for (info, filter) in [
            (vec![], DeviceFilter::default()),
            (vec![Info::new(&keys::DEVICE_TYPE, DeviceTypes::GPU)], of(DeviceTypes::GPU)),
            (vec![Info::new(&keys::DEVICE_ID, "none")], DeviceFilter::default().id("none")),
        ] {
            let reply = distances.answer(asked(Some(&first), info)).await;
            let expected = topology.compute_distances(&first.parse().unwrap(), &filter);
            assert_eq!((reply.status, reply.body), (Status::SUCCESS, Body::Distances(expected)));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_understood_is_refused() {
        let distances = Distances::default();
        let mut required = Info::new(&keys::TIMEOUT, 1);
        required.flags |= pmix_types::InfoFlags::REQUIRED;
        for (list, info, status) in [
            (Some("x"), vec![], Status::ERR_BAD_PARAM),
            (Some("0"), vec![Info::dynamic(keys::DEVICE_ID.key_name(), 1u32)], Status::ERR_BAD_PARAM),
            (Some("0"), vec![required], Status::ERR_NOT_SUPPORTED),
        ] {
            let reply = distances.answer(asked(list, info)).await;
            assert_eq!((reply.status, reply.body), (status, Body::Empty));
        }
        let stranger = Cpuset { source: "acme".into(), list: Some("0".into()) };
        let reply = distances.answer(DeviceDistances::new(Value::Undef, stranger)).await;
        assert_eq!(reply.status, Status::ERR_BAD_PARAM);
    }
}
