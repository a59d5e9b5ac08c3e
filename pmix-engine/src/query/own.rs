//! Answers of the library and of the server.

use pmix_types::job::{Requester, Target, target_of};
use pmix_types::message::Failure;
use pmix_types::why::Wait;
use pmix_types::{
    DataArray, Directives, Info, KeyName, ProcId, Query, Rank, Status, Value, keys, usage, why,
};

use super::catalogue;
use super::known::Known;
use super::measured::Measured;
use super::qualifiers::{all, joined, readings};
use super::question::{KeyOutcome, says};
use crate::Caller;
use crate::connections::is_of_model;
use crate::jobs::{Job, unknown_nspace};

impl Known<'_> {
    /// Answers about the library and this server itself, which the host is not asked for.
    pub(super) fn library_answer(&self, key: &KeyName, query: &Query, asker: &Caller) -> KeyOutcome {
        if says(&query.qualifiers, keys::QUERY_SUPPORTED_QUALIFIERS.name()) {
            return match catalogue::qualifiers_of(key) {
                Some(qualifiers) => KeyOutcome::Found(qualifiers.join(",").into()),
                None => KeyOutcome::Open,
            };
        }
        if let Some(answer) = self.sources.attributes.answer(key, query) {
            return KeyOutcome::Found(answer);
        }
        if query.is_for_attributes() {
            return KeyOutcome::Heading;
        }
        let name = key.as_str();
        if name == keys::QUERY_SUPPORTED_KEYS.name() {
            KeyOutcome::Found(catalogue::own_keys().collect::<Vec<_>>().join(",").into())
        } else if name == why::RECORD.name() {
            self.record(asker)
        } else if name == keys::SERVER_URI.name() {
            self.cx.config.uri.clone().map_or(KeyOutcome::Open, |uri| KeyOutcome::Found(uri.into()))
        } else {
            Query::answer_of_library(name).map_or(KeyOutcome::Open, |answer| KeyOutcome::Found(answer.into()))
        }
    }

    /// The flight recorder, which tells of the jobs of all users.
    fn record(&self, asker: &Caller) -> KeyOutcome {
        if !self.cx.config.trusts(asker.uid) {
            let message =
                format!("the record is for the user of the server and root, not for uid {}", asker.uid);
            return KeyOutcome::Failed(Failure::new(Status::ERR_NO_PERMISSIONS, message));
        }
        let waits = self.sources.waits.all(self.cx);
        KeyOutcome::Found(self.sources.recorder.text(self.cx.now, &self.cx.config, &waits).into())
    }

    /// What the server knows of a key; `None` for nothing.
    pub(super) fn own_answer(
        &self,
        key: &KeyName,
        qualifiers: &Directives,
        asker: &Caller,
        measured: &Measured,
    ) -> Result<Option<Value>, Failure> {
        catalogue::check(key, qualifiers)?;
        if let Some(value) = self.sources.psets.answer(asker, key, qualifiers, self.cx)? {
            return Ok(Some(value));
        }
        if let Some(value) = self.group_answer(asker, key, qualifiers)? {
            return Ok(Some(value));
        }
        let name = key.as_str();
        if name == keys::QUERY_NAMESPACES.name() {
            let registered = self.cx.visible_jobs(asker).filter(|job| job.registered);
            let names: Vec<&str> = registered.map(|job| job.data.nspace().as_str()).collect();
            Ok(Some(names.join(",").into()))
        } else if name == keys::QUERY_NAMESPACE_INFO.name() {
            self.namespace_info(asker, qualifiers)
        } else if name == keys::QUERY_PROC_TABLE.name() {
            self.proc_table(asker, qualifiers)
        } else if name == keys::QUERY_LOCAL_PROC_TABLE.name() {
            self.local_proc_table(asker, qualifiers)
        } else if name == why::WAITS.name() {
            self.waits(asker, qualifiers)
        } else if name == why::LOOKS.name() {
            self.looks(asker, qualifiers, measured)
        } else if name == usage::USAGE.name() {
            self.usage(asker, qualifiers, measured)
        } else if name == keys::QUERY_MEMORY_USAGE.name() {
            self.memory_usage(asker, qualifiers, measured)
        } else if is_of_model(name)
            && let Some(value) = self.model_value(key, qualifiers, asker)?
        {
            Ok(Some(value))
        } else if catalogue::is_of_jobs(name) {
            self.job_value(key, qualifiers, asker)
        } else {
            Ok(None)
        }
    }

    /// For each namespace, or for those that are named, an array with its name, its command line and size, if known, and an array for
    /// each of its processes on this node.
    fn namespace_info(&self, asker: &Caller, qualifiers: &Directives) -> Result<Option<Value>, Failure> {
        let named: Vec<String> = all(qualifiers, &keys::NSPACE.text())?;
        let mut infos = Vec::new();
        let mut push = |job: &Job| {
            let mut about = vec![Info::new(&keys::NSPACE.text(), job.data.nspace().as_str())];
            let command = job.data.lookup(keys::CMD_LINE.name(), &Target::Job);
            about.extend(command.map(|line| Info::dynamic(keys::CMD_LINE.key_name(), line)));
            about.extend(job.data.size().map(|size| Info::new(&keys::JOB_SIZE, size)));
            let about_proc = |rank: Rank| {
                let mut about = vec![Info::new(&keys::RANK, rank)];
                for key in [keys::HOSTNAME.key_name(), keys::LOCAL_RANK.key_name()] {
                    let value = job.data.lookup(&key, &Target::Proc(rank));
                    about.extend(value.map(|value| Info::dynamic(key, value)));
                }
                Info::new(&keys::PROC_INFO_ARRAY, DataArray::Info(about))
            };
            about.extend(job.clients.keys().map(|rank| about_proc(*rank)));
            infos.push(Info::new(&keys::JOB_INFO_ARRAY, DataArray::Info(about)));
        };
        if named.is_empty() {
            self.cx.visible_jobs(asker).filter(|job| job.registered).for_each(push);
        } else {
            let known = named.iter().filter_map(|nspace| self.cx.visible_job(asker, nspace).ok());
            known.for_each(&mut push);
            if let (true, Some(nspace)) = (infos.is_empty(), named.first()) {
                return Err(unknown_nspace(nspace));
            }
        }
        Ok(Some(DataArray::Info(infos).into()))
    }

    /// What waits here, of those namespaces that are named, if any are. Who may not see one that takes part hears
    /// nothing of it.
    fn waits(&self, asker: &Caller, qualifiers: &Directives) -> Result<Option<Value>, Failure> {
        let named: Vec<String> = all(qualifiers, &keys::NSPACE.text())?;
        if let Some(strange) = named.iter().find(|nspace| self.cx.visible_job(asker, nspace).is_err()) {
            return Err(unknown_nspace(strange));
        }
        let mut waits = self.sources.waits.all(self.cx);
        waits.retain(|wait| {
            let mut nspaces = wait.nspaces();
            nspaces.all(|nspace| self.cx.may_see(&asker.proc, asker.uid, nspace)) && wait.is_of(&named)
        });
        Ok(Some(Wait::write_all(&waits)))
    }

    /// What a process of this node has said of its programming model; the asker itself if none is named.
    fn model_value(
        &self,
        key: &KeyName,
        qualifiers: &Directives,
        asker: &Caller,
    ) -> Result<Option<Value>, Failure> {
        let named: Option<ProcId> = qualifiers.get(&keys::PROCID)?;
        let rank: Option<Rank> = qualifiers.get(&keys::RANK)?;
        let nspace: Option<String> = qualifiers.get(&keys::NSPACE.text())?;
        let proc = match (named, nspace, rank) {
            (Some(proc), ..) => proc,
            (None, Some(nspace), Some(rank)) => {
                let job = self.cx.visible_job(asker, &nspace)?;
                ProcId::new(job.data.nspace().clone(), rank)
            }
            // of a job nothing is known here but what its host has said
            (None, Some(_), None) => return Ok(None),
            (None, None, _) => asker.proc.clone(),
        };
        if self.cx.visible_job(asker, &proc.nspace).is_err() {
            return Ok(None);
        }
        let model = self.cx.client(&proc).map_or(&[][..], |client| &client.model);
        Ok(model.iter().find(|info| info.key == *key).map(|info| info.value.clone()))
    }

    /// A value of a session, job, application, node or process; of the asker's own job if none is named.
    fn job_value(
        &self,
        key: &KeyName,
        qualifiers: &Directives,
        asker: &Caller,
    ) -> Result<Option<Value>, Failure> {
        let (mut values, mut failed) = (Vec::new(), None);
        for reading in readings(qualifiers)? {
            match self.job_value_of(key, &reading, asker) {
                Ok(found) => values.extend(found),
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) if values.is_empty() => Err(failure),
            _ => Ok(joined(values)),
        }
    }

    fn job_value_of(
        &self,
        key: &KeyName,
        reading: &Directives,
        asker: &Caller,
    ) -> Result<Option<Value>, Failure> {
        let named: Option<ProcId> = reading.get(&keys::PROCID)?;
        let nspace: Option<String> = reading.get(&keys::NSPACE.text())?;
        let rank = reading.get(&keys::RANK)?.or_else(|| named.as_ref().map(|proc| proc.rank));
        let rank = rank.unwrap_or(Rank::WILDCARD);
        let nspace = nspace.or_else(|| named.map(|proc| proc.nspace.to_string()));
        // a tool has no job of its own
        let job = match &nspace {
            Some(nspace) => Some(self.cx.visible_job(asker, nspace)?),
            None => self.cx.jobs.get(&asker.proc.nspace),
        };
        let is_own = job.is_some_and(|job| *job.data.nspace() == asker.proc.nspace);
        let requester = Requester::new(is_own.then_some(asker.proc.rank), &self.cx.config.hostname);
        let target = target_of(key, rank, reading, &requester)?;
        let held = job.and_then(|job| job.data.lookup(key, &target));
        Ok(match (held, target) {
            (None, Target::Session(Some(id))) => self.cx.of_session(&asker.proc, asker.uid, id, key),
            (held, _) => held,
        })
    }
}
