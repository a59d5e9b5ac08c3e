//! The nodes that a resource manager has given this process, as its environment names them.

use super::hostlist::{HostList, MAX_LISTED};

/// Nodes that are reserved for this process and what it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Whose it is, for messages.
    name: String,
    hosts: HostList,
    is_of_slurm: bool,
    /// What Slurm calls this node.
    own: Option<String>,
}

impl Allocation {
    /// The allocation that an environment is in.
    ///
    /// # Errors
    /// What cannot be read, with the name of its variable.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (Some(job), Some(list)) = (given("SLURM_JOB_ID"), given("SLURM_JOB_NODELIST")) else {
            return Self::of_pbs(given);
        };
        let names = hostnames(&list).map_err(|why| format!("SLURM_JOB_NODELIST: {why}"))?;
        let mut slots = None;
        // within a step, the first ones are those of the step
        for name in ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"] {
            let Some(text) = given(name) else { continue };
            let counts = counts(&text).map_err(|why| format!("{name}: {why}"))?;
            if counts.len() == names.len() {
                slots = Some(counts);
                break;
            }
        }
        let slots = slots.unwrap_or_else(|| vec![1; names.len()]);
        let hosts = HostList::of(names.into_iter().zip(slots));
        let hosts = hosts.map_err(|why| format!("SLURM_JOB_NODELIST: {why}"))?;
        let name = format!("the allocation of Slurm job {}", pmix_types::escaped(&job));
        Ok(Some(Self { name, hosts, is_of_slurm: true, own: given("SLURMD_NODENAME") }))
    }

    /// That of PBS, whose file has a line for each slot.
    fn of_pbs(given: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let Some(file) = given("PBS_NODEFILE") else { return Ok(None) };
        let hosts = HostList::read(file.as_ref()).map_err(|why| format!("PBS_NODEFILE: {why}"))?;
        let job = given("PBS_JOBID").unwrap_or_default();
        let name = format!("the allocation of PBS job {}", pmix_types::escaped(&job));
        Ok(Some(Self { name, hosts, is_of_slurm: false, own: None }))
    }

    pub(crate) const fn hosts(&self) -> &HostList {
        &self.hosts
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The names of its nodes, in its order, if Slurm has given them.
    pub(crate) fn of_slurm(&self) -> Option<Vec<String>> {
        self.is_of_slurm.then(|| self.hosts.hosts().iter().map(|host| host.name.clone()).collect())
    }

    /// What this node is called in it, if it is one of its nodes.
    pub(crate) fn own(&self, hostname: &str) -> Option<String> {
        let short = hostname.split('.').next();
        let is_one = |name: &&str| self.hosts.has(name);
        self.own.as_deref().into_iter().chain([hostname]).chain(short).find(is_one).map(str::to_owned)
    }
}

/// Bytes of the names of nodes.
const MAX_NAME: usize = 256;

/// The names that a list of Slurm stands for, in its order: `n[0-3,07],rack[1-2]n[1-4]`.
///
/// Our own code, because the crate `nodeset` sorts the names, and the numbers of slots are in the order of the list.
pub(super) fn hostnames(list: &str) -> Result<Vec<String>, String> {
    let wrong = |item: &str| format!("`{}` is not a list of nodes", pmix_types::escaped(item));
    let mut names = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let mut is_inside = false;
        let end = rest.find(|c| {
            is_inside = (is_inside || c == '[') && c != ']';
            c == ',' && !is_inside
        });
        let (item, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.strip_prefix(',').unwrap_or_default();
        let item = item.trim();
        if !item.is_empty() {
            names.append(&mut expand(item).ok_or_else(|| wrong(item))?);
        }
        if names.len() > MAX_LISTED {
            return Err(format!("more than {MAX_LISTED} nodes"));
        }
    }
    Ok(names)
}

/// The names of one item of a list. The last number changes first.
fn expand(item: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((text, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']')?;
        let mut numbers = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (from, to): (u64, u64) = (number(first)?, number(last)?);
            let count = usize::try_from(to.checked_sub(from)?).ok()?.checked_add(1)?;
            if count.saturating_add(numbers.len()).saturating_mul(names.len()) > MAX_LISTED {
                return None;
            }
            let width = first.len();
            numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
        }
        let whole = |name: &String| numbers.iter().map(|number| format!("{name}{text}{number}")).collect();
        names = names.iter().flat_map::<Vec<_>, _>(whole).collect();
        rest = after;
        if names.first().is_none_or(|name| name.len() > MAX_NAME) {
            return None;
        }
    }
    let is_plain = !rest.contains(']') && rest.len() <= MAX_NAME;
    is_plain.then(|| names.into_iter().map(|name| name + rest).collect())
}

fn number(digits: &str) -> Option<u64> {
    let is_number =
        (1..=MAX_NAME).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// Numbers of consecutive nodes: `2(x3),1`.
fn counts(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("`{}` is not a list of numbers", pmix_types::escaped(text));
    let mut counts = Vec::new();
    for word in text.split(',') {
        let (count, times) = match word.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').ok_or_else(wrong)?),
            None => (word, "1"),
        };
        let count = count.trim().parse::<u32>().ok().filter(|&count| count > 0).ok_or_else(wrong)?;
        let times = times.parse::<usize>().ok().filter(|&times| times <= MAX_LISTED).ok_or_else(wrong)?;
        counts.extend(std::iter::repeat_n(count, times));
        if counts.len() > MAX_LISTED {
            return Err(wrong());
        }
    }
    Ok(counts)
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
