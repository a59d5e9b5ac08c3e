//! Processes and process tables in columns.

use std::collections::HashMap;

use pmix_types::{Nspace, Pid, ProcId, ProcInfo, ProcState, Rank};

use super::array::Element;
use super::{At, ConvertError, Reason, Scope, Wire, present};
use crate::v1;

impl Element for ProcId {
    type Column = v1::ProcTable;

    fn to_column(procs: &[Self]) -> v1::ProcTable {
        to_proc_table(procs.iter())
    }

    fn from_column(table: v1::ProcTable, scope: &mut Scope) -> Result<Vec<Self>, ConvertError> {
        let nspaces: Vec<Nspace> = Wire::from_form(table.nspaces, scope).at("nspaces")?;
        even(table.nspace.len(), table.rank.len()).at("rank")?;
        let rows = table.nspace.iter().zip(&table.rank).enumerate();
        rows.map(|(row, (&index, &rank))| {
            let nspace = nspaces.get(index as usize).ok_or_else(uneven).at_index(row).at("nspace")?;
            Ok(Self::new(nspace.clone(), Rank::from_raw(rank)))
        })
        .collect()
    }
}

impl Element for ProcInfo {
    type Column = v1::ProcInfoTable;

    fn to_column(rows: &[Self]) -> v1::ProcInfoTable {
        let mut hostnames = Dictionary::default();
        let mut executables = Dictionary::default();
        v1::ProcInfoTable {
            procs: Some(to_proc_table(rows.iter().map(|row| &row.proc))),
            hostname: rows.iter().map(|row| hostnames.position(row.hostname.as_deref())).collect(),
            executable: rows.iter().map(|row| executables.position(row.executable.as_deref())).collect(),
            hostnames: hostnames.names,
            executables: executables.names,
            pid: rows.iter().map(|row| row.pid.to_form()).collect(),
            exit_code: rows.iter().map(|row| row.exit_code).collect(),
            state: rows.iter().map(|row| row.state.to_form()).collect(),
        }
    }

    fn from_column(table: v1::ProcInfoTable, scope: &mut Scope) -> Result<Vec<Self>, ConvertError> {
        let procs = ProcId::from_column(present(table.procs).at("procs")?, scope).at("procs")?;
        even(procs.len(), table.pid.len()).at("pid")?;
        even(procs.len(), table.exit_code.len()).at("exit_code")?;
        let states: Vec<ProcState> = Wire::from_form(table.state, scope).at("state")?;
        even(procs.len(), states.len()).at("state")?;
        let hostnames = names(&table.hostname, &table.hostnames, procs.len(), scope).at("hostname")?;
        let executables =
            names(&table.executable, &table.executables, procs.len(), scope).at("executable")?;

        let names = hostnames.into_iter().zip(executables);
        let numbers = table.pid.into_iter().zip(table.exit_code).zip(states);
        let rows = procs.into_iter().zip(names).zip(numbers);
        let row = |((proc, (hostname, executable)), ((pid, exit_code), state))| {
            let mut row = Self::new(proc);
            (row.hostname, row.executable) = (hostname, executable);
            (row.pid, row.exit_code, row.state) = (Pid(pid), exit_code, state);
            row
        };
        Ok(rows.map(row).collect())
    }
}

fn to_proc_table<'a>(procs: impl Iterator<Item = &'a ProcId>) -> v1::ProcTable {
    let mut nspaces = Dictionary::default();
    let (nspace, rank) = procs.map(|proc| (nspaces.index(&proc.nspace), proc.rank.to_raw())).unzip();
    v1::ProcTable { nspaces: nspaces.names, nspace, rank }
}

/// The names of a column by row; index 0 means none.
fn names(
    column: &[u32],
    dictionary: &[String],
    rows: usize,
    scope: &mut Scope,
) -> Result<Vec<Option<String>>, ConvertError> {
    even(rows, column.len())?;
    let name = |&position: &u32| {
        let Some(index) = position.checked_sub(1) else { return Ok(None) };
        let name = dictionary.get(index as usize).ok_or_else(uneven)?;
        scope.expand(name.len())?;
        Ok(Some(name.clone()))
    };
    column.iter().map(name).enumerate().map(|(row, name)| name.at_index(row)).collect()
}

fn even(rows: usize, column: usize) -> Result<(), ConvertError> {
    if rows == column { Ok(()) } else { Err(uneven()) }
}

fn uneven() -> ConvertError {
    ConvertError::new(Reason::UnevenColumns)
}

/// Distinct names in order of first use.
#[derive(Default)]
struct Dictionary<'a> {
    indices: HashMap<&'a str, u32>,
    names: Vec<String>,
    /// The last name, as rows often repeat it.
    last: Option<(&'a str, u32)>,
}

impl<'a> Dictionary<'a> {
    fn index(&mut self, name: &'a str) -> u32 {
        if let Some((last, index)) = self.last
            && last == name
        {
            return index;
        }
        let next = self.names.len() as u32;
        let index = *self.indices.entry(name).or_insert(next);
        if index == next {
            self.names.push(name.to_owned());
        }
        self.last = Some((name, index));
        index
    }

    /// Index from 1; 0 for no name.
    fn position(&mut self, name: Option<&'a str>) -> u32 {
        name.map_or(0, |name| self.index(name) + 1)
    }
}
