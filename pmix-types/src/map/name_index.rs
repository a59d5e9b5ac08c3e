//! Finds a name among the runs of a node map without unfolding them.

use std::collections::BTreeSet;

use super::node_map::Run;
use super::template::{self, Template};

#[derive(Clone, Debug)]
pub(super) struct NameIndex {
    /// Template numbers, sorted by what the templates say.
    sorted_templates: Box<[u32]>,
    /// Lengths of prefix and suffix that occur: the ways to cut a name apart. Usually very few.
    shapes: Box<[(u32, u32)]>,
    /// All runs, those of one template together, ascending by first number.
    entries: Box<[IndexedRun]>,
    /// Where the entries of each template start; those of the last one end with the last item.
    starts: Box<[u32]>,
}

/// A run of a node map, among those of its template.
#[derive(Clone, Debug)]
struct IndexedRun {
    run: u32,
    count: u32,
    /// The greatest number in this run and those before it, of the same template.
    reach: u64,
}

impl NameIndex {
    pub(super) fn new(templates: &[Template], runs: &[Run], len: u32) -> Self {
        let mut sorted_templates: Box<[u32]> = (0..templates.len() as u32).collect();
        sorted_templates.sort_unstable_by_key(|&id| &templates[id as usize]);

        let shape = |template: &Template| (template.prefix.len() as u32, template.suffix.len() as u32);
        let shapes: BTreeSet<_> = templates.iter().filter(|one| !one.is_literal()).map(shape).collect();

        let mut order: Box<[u32]> = (0..runs.len() as u32).collect();
        order.sort_unstable_by_key(|&id| {
            let run = &runs[id as usize];
            (run.template, run.first, id)
        });
        let mut entries: Vec<IndexedRun> = Vec::with_capacity(runs.len());
        let mut starts = vec![0; templates.len() + 1];
        for &id in &order {
            let run = &runs[id as usize];
            let count = Run::count(runs, id as usize, len);
            let last = run.first + u64::from(count) - 1;
            let start = starts[run.template as usize + 1];
            // zero only while this template has had no run: the end of its entries is never at the start
            let before = if start == 0 { None } else { entries.last() };
            let reach = before.map_or(last, |before| before.reach.max(last));
            entries.push(IndexedRun { run: id, count, reach });
            starts[run.template as usize + 1] = entries.len() as u32;
        }
        // a template without runs ends where the one before it ends
        let mut end = 0;
        for start in &mut starts {
            end = end.max(*start);
            *start = end;
        }
        Self {
            sorted_templates,
            shapes: shapes.into_iter().collect(),
            entries: entries.into(),
            starts: starts.into(),
        }
    }

    /// Index of the first node with this name.
    pub(super) fn position(&self, templates: &[Template], runs: &[Run], name: &str) -> Option<usize> {
        let literal = self.find_template(templates, (name, "", 0)).map(|template| (template, 0));
        let numbered = self.shapes.iter().filter_map(|&(prefix, suffix)| {
            let digits_end = name.len().checked_sub(suffix as usize)?;
            let digits = name.get(prefix as usize..digits_end).filter(|digits| !digits.is_empty())?;
            let number = template::number(digits)?;
            let parts = (&name[..prefix as usize], &name[digits_end..], digits.len() as u8);
            Some((self.find_template(templates, parts)?, number))
        });
        let found = literal.into_iter().chain(numbered);
        found.filter_map(|(template, number)| self.first_with(runs, template, number)).min()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.sorted_templates)
            + size_of_val(&*self.shapes)
            + size_of_val(&*self.entries)
            + size_of_val(&*self.starts)
    }

    fn find_template(&self, templates: &[Template], parts: (&str, &str, u8)) -> Option<u32> {
        let key = |id: &u32| {
            let template = &templates[*id as usize];
            (&*template.prefix, &*template.suffix, template.width)
        };
        let at = self.sorted_templates.binary_search_by(|id| key(id).cmp(&parts)).ok()?;
        self.sorted_templates.get(at).copied()
    }

    fn first_with(&self, runs: &[Run], template: u32, number: u64) -> Option<usize> {
        let template = template as usize;
        let entries = &self.entries[self.starts[template] as usize..self.starts[template + 1] as usize];
        let end = entries.partition_point(|entry| runs[entry.run as usize].first <= number);
        // overlapping runs, from repeated names, are all in reach and next to each other
        let overlapping = entries[..end].iter().rev().take_while(|entry| entry.reach >= number);
        overlapping
            .filter_map(|entry| {
                let run = &runs[entry.run as usize];
                let within = number - run.first;
                (within < entry.count.into()).then_some(run.offset as usize + within as usize)
            })
            .min()
    }
}
