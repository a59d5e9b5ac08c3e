//! Takes registrations over into a job's data.

use std::collections::{BTreeMap, HashMap};
use std::mem;

use crate::map::Placement;
use crate::{Info, KeyVal, ParseRankSetError, Rank, RankSet, Value, keys};

use super::nodes::{DescribedNode, Nodes};
use super::read::{self, Draft};
use super::table::{Column, Table};
use super::{JobData, JobError, JobErrorKind, names};

impl JobData {
    /// Applies a host's registration of the job.
    ///
    /// Values may be given directly or in arrays of their level, arrays may be nested, and the order does not matter.
    /// Earlier values stay, but a key that is given again has the new value. A value that is not in an array belongs to
    /// the level of its key: node values belong to the node `local_hostname`, app values to the job's only app, and
    /// values of processes to the job, where every process finds them.
    ///
    /// The ranks of an app come from the `APPNUM` of its processes, or from a `PROC_MAP` in its `APP_INFO_ARRAY`. A
    /// node array inside an app array describes the node itself; the number of the app's processes on the node is not
    /// kept.
    ///
    /// # Errors
    /// [`JobError`] for invalid or contradictory values: maps of different lengths, a rank on two nodes, arrays that do
    /// not say what they describe, app values outside of an array in a job of several apps, data of another namespace.
    /// Nothing is applied then.
    ///
    /// # Standard
    /// `PMIx_server_register_nspace`; rules REG-04..06, REG-09, RGX-04, RGX-05.
    #[doc(alias = "PMIx_server_register_nspace")]
    pub fn register(&mut self, infos: &[Info], local_hostname: &str) -> Result<(), JobError> {
        let mut draft = read::read(&self.nspace, infos).map_err(|kind| self.error(kind))?;
        draft.local_node.be_named(local_hostname);
        let mut next = self.clone();
        next.apply(draft).map_err(|kind| self.error(kind))?;
        *self = next;
        Ok(())
    }

    /// Replaces the values of the host's resources. Each is a job-level value of every job that has no other value for
    /// its key.
    ///
    /// # Standard
    /// `PMIx_server_register_resources`; rule REG-10.
    #[doc(alias = "PMIx_server_register_resources")]
    pub fn set_resources(&mut self, resources: impl IntoIterator<Item = KeyVal>) {
        self.resources = resources.into_iter().collect();
    }

    pub(super) fn apply(&mut self, draft: Draft) -> Result<(), JobErrorKind> {
        self.node_map = draft.node_map.or_else(|| self.node_map.take());
        self.proc_map = draft.proc_map.or_else(|| self.proc_map.take());
        self.place()?;
        set_all(&mut self.session, draft.session);
        if let Some(id) = draft.session_id {
            self.session.set(keys::SESSION_ID.key_name(), id.into());
        }
        set_all(&mut self.job, draft.job);
        for (number, newer) in draft.apps {
            let values = &mut self.apps.entry(number).or_default().values;
            // a map replaces the former one, whichever of its keys either came under
            for pair in [[names::NODE_MAP, names::NODE_MAP_RAW], [names::PROC_MAP, names::PROC_MAP_RAW]] {
                if newer.iter().any(|KeyVal { key, .. }| pair.contains(&key.as_str())) {
                    pair.into_iter().for_each(|key| values.remove(key));
                }
            }
            set_all(values, newer);
        }
        self.assign_to_apps(draft.app_of_rank);
        self.file_loose_app_values(draft.some_app)?;
        for (key, values) in draft.columns {
            self.columns.entry(key).or_default().extend(values);
        }
        let older = mem::take(&mut self.nodes);
        let newer = draft.session_nodes.into_iter().chain([draft.local_node]).chain(draft.nodes);
        self.nodes = Nodes::join(
            older.into_entries().into_iter().chain(newer),
            self.node_map.as_ref(),
            self.node_count(),
        )?;
        self.settle()
    }

    /// Draws the conclusions from what has been taken over.
    pub(super) fn settle(&mut self) -> Result<(), JobErrorKind> {
        self.place_apps()?;
        self.compact_nodes()?;
        self.compact();
        Ok(())
    }

    /// Checks the maps against each other and places the ranks.
    pub(super) fn place(&mut self) -> Result<(), JobErrorKind> {
        let wrong = |source| JobErrorKind::Map { key: keys::PROC_MAP.key_name(), source };
        let Some(proc_map) = &self.proc_map else { return Ok(()) };
        if let Some(node_map) = &self.node_map {
            proc_map.check_nodes(node_map).map_err(wrong)?;
        }
        self.placement = Some(Placement::new(proc_map).map_err(wrong)?);
        Ok(())
    }

    /// Gives ranks the app numbers they were told, the last one if there are several.
    fn assign_to_apps(&mut self, app_of_rank: Vec<(Rank, u32)>) {
        let latest: HashMap<Rank, u32> = app_of_rank.into_iter().collect();
        let told: RankSet = latest.keys().copied().collect();
        let mut by_app: BTreeMap<u32, Vec<Rank>> = BTreeMap::new();
        for (rank, number) in latest {
            by_app.entry(number).or_default().push(rank);
        }
        for app in self.apps.values_mut().filter(|app| !app.given.is_disjoint(&told)) {
            app.given = app.given.difference(&told);
        }
        for (number, ranks) in by_app {
            self.apps.entry(number).or_default().given.extend(ranks);
        }
    }

    /// Reads the process maps of apps.
    fn place_apps(&mut self) -> Result<(), JobErrorKind> {
        for app in self.apps.values_mut() {
            let first_of = |pair: [&str; 2]| app.values.iter().find(|(key, _)| pair.contains(&key.as_str()));
            let node_map = first_of([names::NODE_MAP, names::NODE_MAP_RAW]);
            let node_map = node_map.map(|(key, value)| read::parse_node_map(key, value)).transpose()?;
            let proc_map = first_of([names::PROC_MAP, names::PROC_MAP_RAW]);
            let Some((key, value)) = proc_map else { continue };
            let wrong = |source| JobErrorKind::Map { key: key.clone(), source };
            let proc_map = read::parse_proc_map(key, value)?;
            if let Some(node_map) = node_map.as_ref().or(self.node_map.as_ref()) {
                proc_map.check_nodes(node_map).map_err(wrong)?;
            }
            app.mapped = Some(Placement::new(&proc_map).map_err(wrong)?.all_ranks());
        }
        Ok(())
    }

    fn file_loose_app_values(&mut self, values: Vec<KeyVal>) -> Result<(), JobErrorKind> {
        let Some(KeyVal { key, .. }) = values.first() else { return Ok(()) };
        let number = self.only_app().ok_or_else(|| JobErrorKind::WhichApp { key: key.clone() })?;
        set_all(&mut self.apps.entry(number).or_default().values, values);
        Ok(())
    }

    /// Drops given values that would be found without them.
    fn compact(&mut self) {
        self.drop_from_job();
        self.drop_from_apps();
        // without a process map only the values of a rank tell that there is such a rank
        if self.placement.is_some() {
            let mut columns = mem::take(&mut self.columns);
            for (key, column) in &mut columns {
                self.drop_from_column(key, column);
            }
            columns.retain(|_, column| !column.is_empty());
            self.columns = columns;
        }
    }

    fn drop_from_column(&self, key: &str, column: &mut Column) {
        if key == names::APP_RANK && self.only_app().is_none() {
            // one by one, each would walk through all ranks of its app
            let app_ranks = self.app_ranks();
            column.retain(|rank, value| {
                app_ranks.get(&rank).map(|rank| Value::from(*rank)).as_ref() != Some(value)
            });
        } else {
            column.retain(|rank, value| self.derive_for_proc(key, rank).as_ref() != Some(value));
        }
    }

    fn compact_nodes(&mut self) -> Result<(), JobErrorKind> {
        let mut nodes = mem::take(&mut self.nodes);
        nodes.finish(|entry| {
            let mapped = self.placement.as_ref().zip(entry.position).map(|(map, at)| map.ranks_on(at));
            read_peers(entry, mapped.as_ref())?;
            if let Some(ranks) = entry.peers.clone().or(mapped) {
                drop_equal(entry, names::LOCAL_SIZE, u32::try_from(ranks.len()).ok().map(Value::from));
                drop_equal(entry, names::LOCALLDR, ranks.first().map(Value::from));
            }
            Ok(())
        })?;
        self.nodes = nodes;
        Ok(())
    }

    fn drop_from_job(&mut self) {
        for key in [names::JOB_SIZE, names::NUM_NODES, names::NODE_LIST] {
            if let Some(given) = self.job.get(key)
                && self.derive_for_job(key).as_ref() == Some(given)
            {
                self.job.remove(key);
            }
        }
    }

    fn drop_from_apps(&mut self) {
        let redundant: Vec<(u32, &str)> = self
            .apps
            .iter()
            .flat_map(|(number, app)| [names::APPLDR, names::APP_SIZE].map(|key| (*number, app, key)))
            .filter(|(number, app, key)| {
                app.values
                    .get(key)
                    .is_some_and(|given| self.derive_for_app(key, *number).as_ref() == Some(given))
            })
            .map(|(number, _, key)| (number, key))
            .collect();
        for (number, key) in redundant {
            if let Some(app) = self.apps.get_mut(&number) {
                app.values.remove(key);
            }
        }
    }
}

/// Reads `LOCAL_PEERS`, unless the process map says the same.
fn read_peers(entry: &mut DescribedNode, mapped: Option<&RankSet>) -> Result<(), JobErrorKind> {
    let Some(list) = entry.values.get(names::LOCAL_PEERS) else { return Ok(()) };
    let key = || keys::LOCAL_PEERS.key_name();
    // a list that is there without a value has nobody in it (RES-09)
    let list = match list {
        Value::Undef | Value::NullString => "",
        list => {
            list.as_str().ok_or_else(|| JobErrorKind::Type { key: key(), needs: "a comma list of ranks" })?
        }
    };
    let wrong = |source: ParseRankSetError| JobErrorKind::Ranks { key: key(), source };
    let ranks: RankSet = list.parse().map_err(wrong)?;
    if mapped.is_some_and(|mapped| *mapped == ranks && mapped.to_list_string() == list) {
        entry.values.remove(names::LOCAL_PEERS);
    } else {
        entry.peers = Some(ranks);
    }
    Ok(())
}

fn drop_equal(entry: &mut DescribedNode, key: &str, derived: Option<Value>) {
    if derived.is_some() && entry.values.get(key) == derived.as_ref() {
        entry.values.remove(key);
    }
}

fn set_all(table: &mut Table, values: Vec<KeyVal>) {
    for KeyVal { key, value } in values {
        table.set(key, value);
    }
}
