//! What implements the functions of the Standard: each public item that has a C name says it as a search alias of its
//! documentation, `#[doc(alias = "PMIx_..")]`, and that is what counts here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use pmix_engine::Upcall;

use super::{cell, read_table, sources};

/// Prefix of the rules that a function is under, by the beginning of a word in its name; the first row that fits
/// counts.
const RULES: [(&str, &str); 44] = [
    ("dmodex", "DMX"),
    ("event", "EVT"),
    ("publish", "PUB"),
    ("unpublish", "PUB"),
    ("lookup", "PUB"),
    ("spawn", "SPN"),
    ("abort", "ABT"),
    ("tool", "TOL"),
    ("client", "CLI"),
    ("fork", "CLI"),
    ("init", "INI"),
    ("finalize", "INI"),
    ("progress", "INI"),
    ("version", "INI"),
    ("connect", "CON"),
    ("disconnect", "CON"),
    ("resolve", "RES"),
    ("query", "QRY"),
    ("attributes", "ATT"),
    ("regex", "RGX"),
    ("ppn", "RGX"),
    ("nspace", "REG"),
    ("resources", "REG"),
    ("setup", "SET"),
    ("inventory", "SET"),
    ("collect", "REG"),
    ("set", "PST"),
    ("iof", "IOF"),
    ("stdin", "IOF"),
    ("group", "GRP"),
    ("grp", "GRP"),
    ("log", "LOG"),
    ("alloc", "ALC"),
    ("session", "ALC"),
    ("block", "ALC"),
    ("control", "JCT"),
    ("monitor", "MON"),
    ("heartbeat", "MON"),
    ("cred", "CRD"),
    ("validate", "CRD"),
    ("fence", "FEN"),
    ("put", "PUT"),
    ("store", "PUT"),
    ("commit", "PUT"),
];

/// The functions of the Standard and the items that implement them.
#[derive(Debug)]
pub(super) struct Functions {
    apis: Vec<Api>,
    items: BTreeMap<String, Vec<Item>>,
    reasons: BTreeMap<String, (String, String)>,
}

#[derive(Debug)]
struct Api {
    name: String,
    role: String,
}

/// A public item with a C name.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    path: String,
    file: String,
}

impl Api {
    /// Constructors, copies, printing, packing: what only C needs a function for.
    fn is_plumbing(&self) -> bool {
        self.role == "util"
    }

    fn rules(&self) -> Option<&'static str> {
        if ["PMIx_Get", "PMIx_Get_nb"].contains(&self.name.as_str()) {
            return Some("GET");
        }
        let name = self.name.to_lowercase();
        let fits = |beginning: &str| name.split('_').any(|word| word.starts_with(beginning));
        RULES.iter().find(|(beginning, _)| fits(beginning)).map(|(_, prefix)| *prefix)
    }
}

impl Functions {
    pub(super) fn read(root: &Path, problems: &mut Vec<String>) -> io::Result<Self> {
        let tables = root.join("spec");
        let apis = read_table(&tables.join("apis.tsv"))?;
        let apis: Vec<_> = apis.into_iter().map(|[name, role]: [String; 2]| Api { name, role }).collect();
        let reasons = read_table(&tables.join("open_functions.tsv"))?;
        let reasons = reasons.into_iter().map(|[name, status, why]: [String; 3]| (name, (status, why)));
        let mut functions = Self { apis, items: BTreeMap::new(), reasons: reasons.collect() };
        for package in packages(root)? {
            for file in sources(&root.join(&package).join("src"))? {
                let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
                for (alias, path) in aliases_in(&fs::read_to_string(&file)?) {
                    let path = format!("{}::{path}", package.replace('-', "_"));
                    functions.items.entry(alias).or_default().push(Item { path, file: place.clone() });
                }
            }
        }
        functions.add_entries_of_hosts(root)?;
        functions.check(problems);
        Ok(functions)
    }

    /// The functions of the Standard.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.apis.iter().map(|api| api.name.as_str()).filter(|name| name.starts_with("PMIx_"))
    }

    /// The entries of the host's module, whose methods derive from the table of operations. One that the engine does not call is a
    /// promise.
    fn add_entries_of_hosts(&mut self, root: &Path) -> io::Result<()> {
        let engine = root.join("pmix-engine/src");
        let mut calls = String::new();
        for file in sources(&engine)? {
            if !file.starts_with(engine.join("tests")) {
                calls.push_str(&fs::read_to_string(&file)?);
            }
        }
        let mut rows = Vec::new();
        for file in sources(&root.join("pmix-types/src/message"))? {
            let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            rows.push((place, fs::read_to_string(&file)?));
        }
        for upcall in Upcall::ALL {
            if !upcall.is_passed_up() && !calls.contains(&format!("UpcallRequest::{upcall:?}(")) {
                continue;
            }
            for alias in upcall.c_types() {
                let row = rows.iter().find(|(_, text)| text.contains(&format!("\"{alias}\"")));
                let file = row.map_or_else(String::new, |(file, _)| file.clone());
                let path = format!("pmix_server::HostModule::{}", upcall.name());
                self.items.entry((*alias).to_owned()).or_default().push(Item { path, file });
            }
        }
        Ok(())
    }

    fn check(&self, problems: &mut Vec<String>) {
        let known: BTreeSet<&str> = self.apis.iter().map(|api| api.name.as_str()).collect();
        for (alias, items) in &self.items {
            // types have C names, too
            let is_function = alias.starts_with("PMIx_") || alias.ends_with("_fn_t");
            if is_function && !known.contains(alias.as_str()) {
                problems.push(format!("{}: there is no function {alias}", items[0].file));
            }
        }
        for (name, (status, _)) in &self.reasons {
            if !known.contains(name.as_str()) {
                problems.push(format!("open_functions.tsv: there is no function {name}"));
            }
            if self.items.contains_key(name) {
                problems.push(format!("open_functions.tsv: {name} is implemented, so it needs no reason"));
            }
            if !["open", "n/a"].contains(&status.as_str()) {
                problems.push(format!("open_functions.tsv: {name} is {status}, neither open nor n/a"));
            }
        }
        for api in self.apis.iter().filter(|api| !api.is_plumbing()) {
            if !self.items.contains_key(&api.name) && !self.reasons.contains_key(&api.name) {
                let name = &api.name;
                problems.push(format!(
                    "{name} is no doc(alias) of anything, and has no reason in open_functions.tsv"
                ));
            }
        }
    }

    /// How many functions have an item, of how many that are not only for C, and how many others there are.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let is_done = |api: &&Api| self.items.contains_key(&api.name);
        let counted = self.apis.iter().filter(|api| !api.is_plumbing() || is_done(api)).count();
        (self.apis.iter().filter(is_done).count(), counted, self.apis.len() - counted)
    }

    /// The table, and how many rules of a prefix are tested of how many.
    pub(super) fn to_markdown(&self, tested: impl Fn(&str) -> (usize, usize)) -> String {
        let mut text = String::from(
            "\n## Functions\n\n| Function | Role | Implemented by | Rules tested |\n| --- | --- | --- | --- |\n",
        );
        let mut plumbing = 0;
        for api in &self.apis {
            if api.is_plumbing() && !self.items.contains_key(&api.name) {
                plumbing += 1;
                continue;
            }
            let rules = api.rules().map_or_else(
                || "-".to_owned(),
                |prefix| {
                    let (done, all) = tested(prefix);
                    format!("{prefix} {done}/{all}")
                },
            );
            let _ = writeln!(text, "| `{}` | {} | {} | {rules} |", api.name, api.role, self.implemented(api));
        }
        let _ = write!(
            text,
            "\n{plumbing} more functions only serve C (constructors, copies, printing, packing): "
        );
        text.push_str("they are plain Rust here.\n");
        text
    }

    fn implemented(&self, api: &Api) -> String {
        if let Some(items) = self.items.get(&api.name) {
            let link = |item: &Item| format!("[`{}`](../{})", item.path, item.file);
            return items.iter().map(link).collect::<Vec<_>>().join("<br>");
        }
        match self.reasons.get(&api.name) {
            Some((status, why)) if status == "n/a" => format!("- does not apply: {}", cell(why)),
            Some((_, why)) => format!("- open: {}", cell(why)),
            None => "-".into(),
        }
    }
}

/// The packages that users see, in order.
fn packages(root: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(root)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("pmix-"))
        .collect();
    names.sort();
    Ok(names)
}

/// Search aliases of a formatted source text, each with its item: `Type::function`, or a name at the top level.
fn aliases_in(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut outer = None;
    let mut pending: Vec<String> = Vec::new();
    for line in text.lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        if let Some(aliases) = line.strip_prefix("#[doc(alias") {
            pending.extend(aliases.split('"').skip(1).step_by(2).map(str::to_owned));
        } else if indent == 0 {
            if let Some(name) = item_name(line) {
                found.extend(pending.drain(..).map(|alias| (alias, name.to_owned())));
                outer = Some(name);
            }
        } else if !pending.is_empty()
            && let Some(name) = item_name(line)
        {
            let path = outer.map_or_else(|| name.to_owned(), |outer| format!("{outer}::{name}"));
            found.extend(pending.drain(..).map(|alias| (alias, path.clone())));
        }
        if line.starts_with("#[cfg(test)]") {
            break;
        }
    }
    found
}

/// The name of the item that a line begins: for `impl Trait for Type` that of the type.
fn item_name(line: &str) -> Option<&str> {
    let is_name = |byte: &char| byte.is_ascii_alphanumeric() || *byte == '_';
    if let Some(header) = line.strip_prefix("impl") {
        let header = header.split_once(" for ").map_or(header, |(_, of)| of);
        // generic parameters come first
        let header = if header.starts_with('<') { header.split_once("> ")?.1 } else { header };
        let header = header.trim_start();
        return Some(&header[..header.chars().take_while(is_name).count()]).filter(|name| !name.is_empty());
    }
    let mut words = line.split_whitespace();
    let is_const_fn = line.contains(" fn ");
    let qualifies = |word: &str| match word {
        "pub" | "async" | "unsafe" | "extern" => true,
        "const" => is_const_fn,
        _ => word.starts_with("pub("),
    };
    let kind = words.find(|word| !qualifies(word))?;
    if !["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!"].contains(&kind) {
        return None;
    }
    let name = words.next()?;
    Some(&name[..name.chars().take_while(is_name).count()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_belongs_to_the_item_after_it() {
        let text = "
/// Text.
#[doc(alias = \"PMIx_Free\")]
pub fn free() {}

impl<L: Launcher, X> Host<L, X> {
    fn private(&self) {}

    #[doc(alias = \"PMIx_One\", alias = \"PMIx_Two\")]
    #[must_use]
    pub const fn one(&self) {
        let x = 1;
    }
}

#[async_trait]
pub trait Module: Send {
    #[doc(alias = \"x_fn_t\")]
    async fn x(&self) {}
}

impl Display for Type {
    #[doc(alias = \"PMIx_Print\")]
    fn fmt() {}
}
#[cfg(test)]
mod tests {
    #[doc(alias = \"PMIx_Not\")]
    fn not() {}
}";
        let found = aliases_in(text);
        let found: Vec<_> = found.iter().map(|(alias, path)| (alias.as_str(), path.as_str())).collect();
        let expected = [
            ("PMIx_Free", "free"),
            ("PMIx_One", "Host::one"),
            ("PMIx_Two", "Host::one"),
            ("x_fn_t", "Module::x"),
            ("PMIx_Print", "Type::fmt"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_function_is_implemented_or_explained_and_never_both() {
        let api = |name: &str| Api { name: name.into(), role: "client".into() };
        let item = || vec![Item { path: "pmix_client::Client::put".into(), file: "client.rs".into() }];
        let mut functions = Functions {
            apis: vec![api("PMIx_Put"), api("PMIx_Get")],
            items: BTreeMap::from([("PMIx_Put".into(), item()), ("PMIX_KEY".into(), item())]),
            reasons: BTreeMap::new(),
        };
        let problems = |functions: &Functions| {
            let mut problems = Vec::new();
            functions.check(&mut problems);
            problems
        };
        assert!(matches!(&problems(&functions)[..], [one] if one.starts_with("PMIx_Get ")));

        functions.reasons.insert("PMIx_Get".into(), ("open".into(), "hard".into()));
        assert_eq!(problems(&functions), Vec::<String>::new());

        functions.reasons.insert("PMIx_Put".into(), ("n/a".into(), "easy".into()));
        functions.reasons.insert("PMIx_Got".into(), ("later".into(), String::new()));
        functions.items.insert("PMIx_Pat".into(), item());
        assert_eq!(problems(&functions).len(), 4);
    }

    #[test]
    fn functions_are_under_the_rules_that_their_names_tell() {
        let rules = |name: &str| Api { name: name.into(), role: String::new() }.rules();
        assert_eq!(rules("PMIx_Unpublish_nb"), Some("PUB"));
        assert_eq!(rules("PMIx_tool_connect_to_server"), Some("TOL"));
        assert_eq!(rules("pmix_server_disconnect_fn_t"), Some("CON"));
        assert_eq!(rules("PMIx_Get_cpuset"), None);
        assert_eq!(rules("PMIx_Get_nb"), Some("GET"));
        assert_eq!(rules("PMIx_server_setup_fork"), Some("CLI"));
        assert_eq!(rules("PMIx_Compute_distances"), None);
        assert_eq!(rules("PMIx_Heartbeat"), Some("MON"));
    }
}
