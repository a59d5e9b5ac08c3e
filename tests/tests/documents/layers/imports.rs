//! Which file of a crate imports which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::circles::Graph;
use super::uses::{Use, uses};
use crate::rust_files;

/// A module by its path in the crate; that of the crate itself is empty.
pub(super) type Module = Vec<String>;

/// The sources of one crate, by the modules that they are.
pub(super) struct Sources(BTreeMap<Module, Vec<Use>>);

impl Sources {
    /// The library or program below a folder `src`. Tests, generated files and further programs are left out.
    pub(super) fn read(src: &Path) -> Self {
        let files = rust_files(src).into_iter().map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            (file.strip_prefix(src).unwrap().to_str().unwrap().to_owned(), text)
        });
        Self::new(files.collect::<Vec<_>>().iter().map(|(file, text)| (file.as_str(), text.as_str())))
    }

    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files = files.into_iter().filter_map(|(file, text)| Some((module(file)?, uses(text))));
        Self(files.collect())
    }

    /// An edge goes from a file to the file of each module that it imports, through re-exports. The file of the crate itself
    /// only lists what there is, and so do all re-exports: neither depends on anything.
    pub(super) fn imports(&self) -> Graph<Module> {
        let reexports = self.reexports();
        let of_file = |(module, uses): (&Module, &Vec<Use>)| {
            let mut to = BTreeSet::new();
            if !module.is_empty() {
                let imports = uses.iter().filter(|found| !found.is_reexport).flat_map(|found| &found.paths);
                to.extend(imports.filter_map(|path| self.file_of(module, path, &reexports)));
                to.remove(module);
            }
            (module.clone(), to)
        };
        self.0.iter().map(of_file).collect()
    }

    /// Where a path leads that a module names.
    fn file_of(&self, from: &Module, path: &[String], reexports: &Reexports) -> Option<Module> {
        let path = self.absolute(from, path)?;
        let mut depth = 0;
        while depth < path.len() && self.0.contains_key(&path[..=depth]) {
            depth += 1;
        }
        let mut file = path[..depth].to_vec();
        if let Some(name) = path.get(depth) {
            while let Some(next) = reexports.get(&(file.clone(), name.clone())) {
                file.clone_from(next);
            }
        }
        (!file.is_empty() && self.0.contains_key(&file)).then_some(file)
    }

    /// A path from the crate's root; `None` if it leads to another crate.
    fn absolute(&self, from: &Module, path: &[String]) -> Option<Module> {
        let child = || [from.as_slice(), &path[..1]].concat();
        let (mut base, mut rest) = match path.first()?.as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" | "super" => (from.clone(), path),
            _ if self.0.contains_key(&child()) => (from.clone(), path),
            _ => return None,
        };
        while let Some((first, others)) =
            rest.split_first().filter(|(first, _)| ["self", "super"].contains(&first.as_str()))
        {
            if first == "super" {
                base.pop();
            }
            rest = others;
        }
        base.extend(rest.iter().filter(|part| *part != "self").cloned());
        Some(base)
    }

    /// The module behind each name that another one re-exports.
    fn reexports(&self) -> Reexports {
        let mut found = Reexports::new();
        for (module, uses) in &self.0 {
            for path in uses.iter().filter(|found| found.is_reexport).flat_map(|found| &found.paths) {
                let Some(mut home) = self.absolute(module, path) else { continue };
                let Some(name) = home.pop() else { continue };
                if home != *module && self.0.contains_key(&home) {
                    found.insert((module.clone(), name), home);
                }
            }
        }
        found
    }
}

type Reexports = BTreeMap<(Module, String), Module>;

/// The module that a file is; `None` for what is left out.
fn module(file: &str) -> Option<Module> {
    let mut parts: Module = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if parts.iter().any(|part| part == "gen" || part == "bin" || part.ends_with("tests")) {
        return None;
    }
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::super::circles::circles;
    use super::*;

    /// The circles of a made-up crate, their modules as paths.
    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let graph = Sources::new(files.iter().copied()).imports();
        circles(&graph)
            .into_iter()
            .map(|circle| circle.iter().map(|module| module.join("::")).collect())
            .collect()
    }

    #[test]
    fn a_circle_of_nine_files_is_found() {
        let files: Vec<(String, String)> = (0..9)
            .map(|n| (format!("part_{n}.rs"), format!("use crate::part_{}::Thing;\n", (n + 1) % 9)))
            .chain([("lib.rs".to_owned(), "mod part_0;\nuse part_0::Thing;\n".to_owned())])
            .collect();
        let files: Vec<_> = files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
        let found = circles_of(&files);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [9]);
        let without_one = circles_of(&files[1..]);
        assert!(without_one.is_empty(), "{without_one:?}");
    }

    #[test]
    fn braces_super_and_self_lead_to_files() {
        let found = circles_of(&[
            ("jobs/mod.rs", "use self::table::Table;"),
            ("jobs/table.rs", "use super::row::{self, Cell};"),
            ("jobs/row.rs", "use crate::{data, words::Word};"),
            ("data.rs", "use super::jobs;"),
            ("words.rs", ""),
        ]);
        assert_eq!(found, [["data", "jobs", "jobs::row", "jobs::table"]]);
    }

    #[test]
    fn a_name_leads_to_the_file_that_it_is_reexported_from() {
        let found = circles_of(&[
            ("lib.rs", "pub use store::Store;"),
            ("store/mod.rs", "mod entry; mod item; pub use item::Store; pub(crate) use self::entry::Entry;"),
            ("store/item.rs", "use super::Entry;"),
            ("store/entry.rs", "use crate::Store;"),
        ]);
        assert_eq!(
            found,
            [["store::entry", "store::item"]],
            "by way of the crate and of a folder, which depend on nothing"
        );
    }

    #[test]
    fn tests_generated_files_and_programs_are_left_out() {
        let circle = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")];
        assert_eq!(circles_of(&circle).len(), 1);
        for place in ["tests/b.rs", "b/tests.rs", "b_tests.rs", "gen/b.rs", "bin/b.rs"] {
            assert_eq!(module(place), None, "{place}");
        }
    }
}
