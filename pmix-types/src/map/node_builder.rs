//! Compresses names into runs while they come in.

use std::collections::HashMap;
use std::rc::Rc;

use super::name_index::NameIndex;
use super::node_map::{NodeMap, Run};
use super::template::{Template, max_number};
use super::{MAX_NODES, MapError};

#[derive(Debug, Default)]
pub(super) struct NodeMapBuilder {
    templates: Vec<Rc<Template>>,
    ids: HashMap<Rc<Template>, TemplateId>,
    runs: Vec<Run>,
    /// Names so far, those of the open run included.
    len: u32,
    open: Option<Open>,
}

/// Position among the templates.
pub(super) type TemplateId = u32;

/// The run that the next name may continue.
#[derive(Debug)]
enum Open {
    /// One name: which of its numbers will count is known only when the next name comes.
    One(String),
    Many {
        template: TemplateId,
        first: u64,
        count: u32,
    },
}

impl NodeMapBuilder {
    /// Adds a name that stands at byte `at` of the input.
    pub(super) fn push_name(&mut self, name: &str, at: usize) -> Result<(), MapError> {
        if name.is_empty() {
            return Err(MapError::EmptyName { at });
        }
        check_text(name, at)?;
        self.grow(1, at)?;
        match &mut self.open {
            Some(Open::One(previous)) => {
                if let Some((template, first)) = Template::between(previous, name) {
                    let template = self.template(template);
                    self.open = Some(Open::Many { template, first, count: 2 });
                    return Ok(());
                }
            }
            Some(Open::Many { template, first, count }) => {
                let next = *first + u64::from(*count);
                if self.templates[*template as usize].number_of(name) == Some(next) {
                    *count += 1;
                    return Ok(());
                }
            }
            None => {}
        }
        self.close(1);
        self.open = Some(Open::One(name.to_owned()));
        Ok(())
    }

    /// Adds the names at the start of `list`, separated by commas, that count on from the last name. Returns the number of
    /// bytes that they take, without the comma after them. `at` is the position of `list` in the input.
    ///
    /// Long lists are series, and to compare with the one name that can come next costs less than to read a name.
    pub(super) fn push_series(&mut self, list: &str, at: usize) -> Result<usize, MapError> {
        let Some(Open::Many { template, first, count }) = &self.open else { return Ok(0) };
        let template = &self.templates[*template as usize];
        let next = *first + u64::from(*count);
        if template.is_literal() || next > max_number(template.width.into()) {
            return Ok(0);
        }
        let mut name = String::with_capacity(template.name_len());
        template.write(next, &mut name);
        let digits = template.prefix.len()..template.prefix.len() + usize::from(template.width);
        let (mut name, list) = (name.into_bytes(), list.as_bytes());
        let (mut added, mut start, mut end) = (0, 0, 0);
        while let Some(b',') | None = list.get(start + name.len())
            && list[start.min(list.len())..].starts_with(&name)
        {
            added += 1;
            end = start + name.len();
            start = end + 1;
            if !count_up(&mut name[digits.clone()]) || start > list.len() {
                break;
            }
        }
        self.grow(added, at)?;
        if let Some(Open::Many { count, .. }) = &mut self.open {
            *count += added;
        }
        Ok(end)
    }

    /// The id for [`push_run`](Self::push_run) of a template with texts that have been checked.
    pub(super) fn template(&mut self, template: Template) -> TemplateId {
        if let Some(&id) = self.ids.get(&template) {
            return id;
        }
        let (id, template) = (self.templates.len() as TemplateId, Rc::new(template));
        self.templates.push(Rc::clone(&template));
        self.ids.insert(template, id);
        id
    }

    /// Adds `last - first + 1` names. The numbers must fit the template.
    ///
    /// The names are not looked at: a template may be long and its runs many, and the work for a run must not
    /// go by the length of its names.
    pub(super) fn push_run(
        &mut self,
        template: TemplateId,
        first: u64,
        last: u64,
        at: usize,
    ) -> Result<(), MapError> {
        let family = &self.templates[template as usize];
        if family.name_len() == 0 {
            return Err(MapError::EmptyName { at });
        }
        let added = u32::try_from(last - first + 1).map_err(|_| MapError::TooManyNodes { at })?;
        let continues = match &self.open {
            Some(Open::One(previous)) => {
                family.number_of(previous).filter(|number| number + 1 == first).map(|number| (number, 1))
            }
            Some(Open::Many { template: same, first: start, count }) => {
                (*same == template && *start + u64::from(*count) == first).then_some((*start, *count))
            }
            None => None,
        };
        self.grow(added, at)?;
        let (first, count) = continues.map_or_else(
            || {
                self.close(added);
                (first, added)
            },
            |(start, count)| (start, count + added),
        );
        self.open = Some(Open::Many { template, first, count });
        Ok(())
    }

    pub(super) fn finish(mut self) -> NodeMap {
        self.close(0);
        drop(self.ids);
        let templates: Box<[_]> = self.templates.into_iter().map(Rc::unwrap_or_clone).collect();
        let runs = self.runs.into_boxed_slice();
        let index = NameIndex::new(&templates, &runs, self.len);
        NodeMap { templates, runs, index, len: self.len }
    }

    fn grow(&mut self, added: u32, at: usize) -> Result<(), MapError> {
        let len = self.len.checked_add(added).filter(|&len| len <= MAX_NODES);
        self.len = len.ok_or(MapError::TooManyNodes { at })?;
        Ok(())
    }

    /// Stores the open run; `newer` names have been counted that are not part of it.
    fn close(&mut self, newer: u32) {
        let (template, first, count) = match self.open.take() {
            None => return,
            Some(Open::One(name)) => {
                let (template, number) = Template::guess(&name);
                (self.template(template), number, 1)
            }
            Some(Open::Many { template, first, count }) => (template, first, count),
        };
        self.runs.push(Run { template, first, offset: self.len - newer - count });
    }
}

/// Adds one to a decimal number; `false` if it needs another digit.
fn count_up(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return true;
        }
        *digit = b'0';
    }
    false
}

/// Refuses what cannot be part of a name in a list.
pub(super) fn check_text(text: &str, at: usize) -> Result<(), MapError> {
    match text.bytes().position(|found| matches!(found, b',' | 0)) {
        Some(offset) => {
            let found = char::from(text.as_bytes()[offset]);
            Err(MapError::NameCharacter { at: at + offset, found })
        }
        None => Ok(()),
    }
}
