use bytes::Bytes;
use pmix_types::job::{AppParts, JobData, NodeParts, Parts};
use pmix_types::map::{MapForm, NodeMap, ProcMap};
use pmix_types::{DataArray, KeyName, Rank, Value};
use prost::Message;

use super::scalar::named_nspace;
use super::{At, ConvertError, Reason, Scope, Wire, required};
use crate::v1;

/// Encodes job data, once for all processes of the namespace.
pub fn encode_job(job: &JobData) -> Bytes {
    job.parts().to_form().encode_to_vec().into()
}

/// The reverse of [`encode_job`].
///
/// # Errors
/// [`ConvertError`] for malformed or inconsistent bytes.
pub fn decode_job(bytes: Bytes) -> Result<JobData, ConvertError> {
    let parts = Parts::from_form(v1::Job::decode(bytes)?, &mut Scope::default())?;
    JobData::from_parts(parts).map_err(invalid)
}

/// Maps are sent as expressions, which every PMIx library can read.
impl Wire for Parts {
    type Form = v1::Job;

    fn to_form(&self) -> v1::Job {
        v1::Job {
            nspace: self.nspace.to_form(),
            node_map: self.node_map.as_ref().map(|map| map.encode(MapForm::Pmix).into()),
            proc_map: self.proc_map.as_ref().map(|map| map.encode(MapForm::Pmix).into()),
            resources: self.resources.to_form(),
            session: self.session.to_form(),
            job: self.job.to_form(),
            apps: self.apps.to_form(),
            nodes: self.nodes.to_form(),
            procs: self.procs.to_form(),
        }
    }

    fn from_form(form: v1::Job, scope: &mut Scope) -> Result<Self, ConvertError> {
        let node_map = form.node_map.map(|bytes| NodeMap::parse(&bytes).map_err(invalid));
        let proc_map = form.proc_map.map(|bytes| ProcMap::parse(&bytes).map_err(invalid));
        Ok(Self {
            nspace: named_nspace(&form.nspace).at("nspace")?,
            node_map: node_map.transpose().at("node_map")?,
            proc_map: proc_map.transpose().at("proc_map")?,
            resources: Wire::from_form(form.resources, scope).at("resources")?,
            session: Wire::from_form(form.session, scope).at("session")?,
            job: Wire::from_form(form.job, scope).at("job")?,
            apps: Wire::from_form(form.apps, scope).at("apps")?,
            nodes: Wire::from_form(form.nodes, scope).at("nodes")?,
            procs: Wire::from_form(form.procs, scope).at("procs")?,
        })
    }
}

impl Wire for AppParts {
    type Form = v1::JobApp;

    fn to_form(&self) -> v1::JobApp {
        v1::JobApp { number: self.number, ranks: self.ranks.to_string(), values: self.values.to_form() }
    }

    fn from_form(form: v1::JobApp, scope: &mut Scope) -> Result<Self, ConvertError> {
        Ok(Self {
            number: form.number,
            ranks: form.ranks.parse().map_err(invalid).at("ranks")?,
            values: Wire::from_form(form.values, scope).at("values")?,
        })
    }
}

impl Wire for NodeParts {
    type Form = v1::JobNode;

    fn to_form(&self) -> v1::JobNode {
        v1::JobNode { name: self.name.clone(), id: self.id, values: self.values.to_form() }
    }

    fn from_form(form: v1::JobNode, scope: &mut Scope) -> Result<Self, ConvertError> {
        let values = Wire::from_form(form.values, scope).at("values")?;
        Ok(Self { name: form.name, id: form.id, values })
    }
}

/// The values of a key, by rank.
impl Wire for (KeyName, Vec<(Rank, Value)>) {
    type Form = v1::ProcColumn;

    fn to_form(&self) -> v1::ProcColumn {
        let (key, column) = self;
        let (first, count) = runs(column.iter().map(|(rank, _)| rank.to_raw()));
        let values = one_type(column).unwrap_or_else(|| mixed(column));
        v1::ProcColumn { key: key.to_form(), first, count, values: Some(values.to_form()) }
    }

    fn from_form(form: v1::ProcColumn, scope: &mut Scope) -> Result<Self, ConvertError> {
        let key = Wire::from_form(form.key, scope).at("key")?;
        let values = match required(form.values, scope).at("values")? {
            DataArray::Value(mixed) => mixed,
            one_type => one_type.iter().collect(),
        };
        let ranks = ranks(&form.first, &form.count, values.len())?;
        Ok((key, ranks.zip(values).collect()))
    }
}

/// All values in an array of their type, or of VALUE if their types differ or they have none.
fn one_type(column: &[(Rank, Value)]) -> Option<DataArray> {
    let (_, first) = column.first()?;
    // an array of VALUE represents mixed types
    if matches!(first, Value::Value(_)) {
        return None;
    }
    let mut array = DataArray::empty(first.data_type())?;
    column.iter().try_for_each(|(_, value)| array.push(value.clone())).ok()?;
    Some(array)
}

fn mixed(column: &[(Rank, Value)]) -> DataArray {
    DataArray::Value(column.iter().map(|(_, value)| value.clone()).collect())
}

/// Runs of consecutive numbers: the first number and the length of each.
fn runs(ranks: impl Iterator<Item = u32>) -> (Vec<u32>, Vec<u32>) {
    let (mut firsts, mut counts) = (Vec::<u32>::new(), Vec::<u32>::new());
    for rank in ranks {
        match (firsts.last(), counts.last_mut()) {
            (Some(first), Some(count)) if first.checked_add(*count) == Some(rank) => *count += 1,
            _ => {
                firsts.push(rank);
                counts.push(1);
            }
        }
    }
    (firsts, counts)
}

/// The reverse of [`runs`], which must result in this many numbers.
fn ranks(firsts: &[u32], counts: &[u32], len: usize) -> Result<impl Iterator<Item = Rank>, ConvertError> {
    let total = counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    let fits = |(first, count): (&u32, &u32)| first.checked_add(*count).is_some();
    if firsts.len() != counts.len() || total != len as u64 || !firsts.iter().zip(counts).all(fits) {
        return Err(ConvertError::new(Reason::UnevenColumns)).at("count");
    }
    Ok(firsts.iter().zip(counts).flat_map(|(first, count)| *first..*first + *count).map(Rank::from_raw))
}

fn invalid(error: impl std::error::Error) -> ConvertError {
    ConvertError::new(Reason::Invalid(error.to_string()))
}
