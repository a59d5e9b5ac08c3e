//! Writes the constants of `pmix-types` from the Standard's tables: `cargo run -p pmix-types --example gen`.
//!
//! A test generates the same text again and compares it with the files, so the two cannot drift apart.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

const HEADER: &str = "// Generated from the Standard's tables by examples/gen.rs. Do not edit.\n\n";
const LINE_WIDTH: usize = 110;

#[allow(dead_code, reason = "the drift test includes this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    for (path, text) in generate()? {
        fs::write(path, text)?;
    }
    Ok(())
}

/// All generated files with their content.
pub(crate) fn generate() -> Result<Vec<(PathBuf, String)>, Box<dyn Error>> {
    let mut files = vec![(source_dir().join("status/table.rs"), status_table()?)];
    let attributes = attributes()?;
    for (family, realms) in FAMILIES {
        let path = source_dir().join(format!("keys/{family}.rs"));
        files.push((path, key_family(&attributes, realms)?));
    }
    files.push((source_dir().join("keys/env.rs"), environment(&attributes)));
    files.push((source_dir().join("rules.rs"), rules()?));
    Ok(files)
}

/// The rows of a table of the Standard as lists of cells, without the line of titles.
pub(crate) fn read_table(name: &str) -> io::Result<Vec<Vec<String>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec").join(name);
    let text = fs::read_to_string(path)?;
    Ok(text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

// ---- statuses ----

struct StatusRow {
    c_name: String,
    number: i32,
    kind: &'static str,
    meaning: String,
    obsolete: bool,
}

fn status_table() -> Result<String, Box<dyn Error>> {
    let mut rows =
        read_table("statuses.tsv")?.iter().map(|cells| status_row(cells)).collect::<Result<Vec<_>, _>>()?;
    rows.sort_by_key(|row| (-i64::from(row.number), row.obsolete));

    let mut text = format!("{HEADER}super::statuses! {{\n");
    for StatusRow { c_name, number, kind, meaning, .. } in &rows {
        let name = short(c_name);
        text += &doc_comment(meaning);
        text += &format!("    #[doc(alias = \"{c_name}\")]\n    {name} = {number}, {kind};\n");
    }
    Ok(text + "}\n")
}

fn status_row(cells: &[String]) -> Result<StatusRow, Box<dyn Error>> {
    let [c_name, number, kind, _, meaning, mark, ..] = cells else {
        return Err(format!("short row {cells:?}").into());
    };
    Ok(StatusRow {
        c_name: c_name.clone(),
        number: status_number(c_name, number)?,
        kind: match kind.as_str() {
            "success" => "Success",
            "error" => "Error",
            "event" => "Event",
            "handler-result" => "HandlerResult",
            "boundary" => "Boundary",
            other => return Err(format!("unknown kind {other}").into()),
        },
        meaning: sentence(meaning),
        obsolete: mark.starts_with("deprecated") || mark.starts_with("removed"),
    })
}

/// The number of a status; ours, in the range free for users, where no source of the Standard gives one.
pub(crate) fn status_number(c_name: &str, cell: &str) -> Result<i32, Box<dyn Error>> {
    match c_name {
        // 3000 below PROC_HAS_CONNECTED
        "PMIX_PROC_HAS_DISCONNECTED" => Ok(-3149),
        _ => cell.parse().map_err(|_| format!("{c_name} has no number").into()),
    }
}

// ---- keys ----

/// File of `src/keys/` and the realms of the table that go into it.
const FAMILIES: &[(&str, &[&str])] = &[
    ("alloc", &["alloc", "session-ctrl"]),
    ("connection", &["rndz", "identity", "cred"]),
    ("control", &["jobctrl", "monitor"]),
    ("data", &["get", "publish", "fence", "op", "collective", "connect", "container"]),
    ("debug", &["debug"]),
    ("event", &["event-reg", "event-info"]),
    ("fabric", &["fabric", "device"]),
    ("group", &["group"]),
    ("iof", &["iof"]),
    ("job", &["session", "job", "app"]),
    ("library", &["init", "model", "internal", "setup", "reg", "regattr", "upcall"]),
    ("log", &["log"]),
    ("proc", &["node", "proc"]),
    ("query", &["query", "qualifier", "result"]),
    ("spawn", &["spawn", "envar"]),
    ("storage", &["storage"]),
    ("usage", &["usage"]),
];

/// A row of the table of attributes that the Standard has not removed.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) c_name: String,
    pub(crate) name: String,
    pub(crate) c_type: String,
    pub(crate) realm: String,
    pub(crate) since: String,
    pub(crate) mark: String,
    pub(crate) meaning: String,
}

/// The attributes that have a constant, environment variables included.
pub(crate) fn attributes() -> Result<Vec<Attribute>, Box<dyn Error>> {
    let mut attributes = Vec::new();
    for cells in read_table("attributes.tsv")? {
        let [c_name, name, c_type, realm, since, mark, _, meaning, ..] =
            <[String; 10]>::try_from(cells).map_err(|cells| format!("row of {} cells", cells.len()))?;
        if mark.starts_with("removed") {
            continue;
        }
        if realm != "env" && !FAMILIES.iter().any(|(_, realms)| realms.contains(&realm.as_str())) {
            return Err(format!("{c_name} has the realm {realm}, which FAMILIES gives no file").into());
        }
        let name = match c_name.as_str() {
            // named in RFC 0003, but no source gives its text
            "PMIX_CONNECT_EARLY_TERM_ALLOWED" => "pmix.cnct.eterm".to_owned(),
            _ => name,
        };
        let since = if since == "source" { "RFC0003".to_owned() } else { since };
        attributes.push(Attribute { c_name, name, c_type, realm, since, mark, meaning: sentence(&meaning) });
    }
    Ok(attributes)
}

fn key_family(attributes: &[Attribute], realms: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut rows: Vec<_> = attributes.iter().filter(|row| realms.contains(&row.realm.as_str())).collect();
    // Of two constants with the same text the better one comes first.
    rows.sort_by_key(|row| (row.mark.starts_with("deprecated"), row.mark == "impl-only"));

    let mut imports = BTreeSet::new();
    let mut body = String::from("super::keys! {\n");
    for row in rows {
        let (value_type, data_type) = rust_type(&row.c_type)?;
        let value_type = match row.c_name.as_str() {
            // a text in C, and on both wires
            "PMIX_NSPACE" => "Nspace",
            // numbers in C, and on both wires
            "PMIX_USERID" | "PMIX_REALUID" => "Uid",
            "PMIX_GRPID" | "PMIX_REALGID" => "Gid",
            _ => value_type,
        };
        if value_type.starts_with(char::is_uppercase) && value_type != "String" {
            imports.insert(value_type);
        }
        body += &doc_comment(&row.meaning);
        body += &format!("    #[doc(alias = \"{}\")]\n", row.c_name);
        let (constant, realm) = (short(&row.c_name), realm(&row.realm));
        let Attribute { name, since, mark, .. } = row;
        body += &format!("    {constant}: {value_type} = \"{name}\", {data_type}, {realm}, \"{since}\"");
        if mark.starts_with("deprecated") {
            body += &format!(", deprecated \"{mark}\"");
        }
        body += ";\n";
    }
    Ok(format!("{HEADER}{}{body}}}\n", import_lines(imports)))
}

fn environment(attributes: &[Attribute]) -> String {
    let mut text = format!("//! Names of environment variables.\n\n{HEADER}");
    for row in attributes.iter().filter(|row| row.realm == "env") {
        text +=
            &doc_comment(&sentence(row.meaning.trim_start_matches("Env var: "))).replace("    ///", "///");
        text += &format!("#[doc(alias = \"{}\")]\n", row.c_name);
        text += &format!("pub const {}: &str = \"{}\";\n", short(&row.c_name), row.name);
    }
    text
}

fn import_lines(mut imports: BTreeSet<&str>) -> String {
    let bytes = if imports.remove("Bytes") { "use bytes::Bytes;\n\n" } else { "" };
    let ours: Vec<_> = imports.into_iter().collect();
    let ours = match ours.as_slice() {
        [] => String::new(),
        [one] => format!("use crate::{one};\n\n"),
        several => format!("use crate::{{{}}};\n\n", several.join(", ")),
    };
    format!("{bytes}{ours}")
}

/// Rust type and data type of the values of a C type. Types that mean nothing in another process, and those that
/// vary, are carried as `Value`.
pub(crate) fn rust_type(c_type: &str) -> Result<(&'static str, &'static str), Box<dyn Error>> {
    Ok(match c_type {
        "bool" => ("bool", "BOOL"),
        "char*" => ("String", "STRING"),
        "int" => ("i32", "INT"),
        "int32_t" => ("i32", "INT32"),
        "uint16_t" => ("u16", "UINT16"),
        "uint32_t" => ("u32", "UINT32"),
        "uint64_t" => ("u64", "UINT64"),
        "size_t" => ("u64", "SIZE"),
        "float" => ("f32", "FLOAT"),
        "double" => ("f64", "DOUBLE"),
        "time_t" => ("Time", "TIME"),
        "struct timeval" => ("Timeval", "TIMEVAL"),
        "pid_t" => ("Pid", "PID"),
        "pmix_alloc_inheritance_t" => ("AllocInheritance", "ALLOC_INHERIT"),
        "pmix_byte_object_t" => ("Bytes", "BYTE_OBJECT"),
        "pmix_cpuset_t*" => ("Cpuset", "PROC_CPUSET"),
        "pmix_data_array_t*" => ("DataArray", "DATA_ARRAY"),
        "pmix_data_range_t" => ("DataRange", "DATA_RANGE"),
        "pmix_device_type_t" => ("DeviceTypes", "DEVTYPE"),
        "pmix_envar_t*" => ("Envar", "ENVAR"),
        "pmix_geometry_t" => ("Geometry", "GEOMETRY"),
        "pmix_link_state_t" => ("LinkState", "LINK_STATE"),
        "pmix_persistence_t" => ("Persistence", "PERSIST"),
        "pmix_proc_state_t" => ("ProcState", "PROC_STATE"),
        "pmix_proc_t*" => ("ProcId", "PROC"),
        "pmix_rank_t" => ("Rank", "PROC_RANK"),
        "pmix_scope_t" => ("Scope", "SCOPE"),
        "pmix_status_t" => ("Status", "STATUS"),
        "pmix_storage_access_type_t" => ("StorageAccessType", "STOR_ACCESS_TYPE"),
        "pmix_storage_accessibility_t" => ("StorageAccessibility", "STOR_ACCESS"),
        "pmix_storage_medium_t" => ("StorageMedium", "STOR_MEDIUM"),
        "pmix_storage_persistence_t" => ("StoragePersistence", "STOR_PERSIST"),
        "pmix_topology_t*" => ("Value", "TOPO"),
        "void*" | "pointer" | "struct event_base *" => ("Value", "POINTER"),
        "varies" | "NULL" => ("Value", "UNDEF"),
        other => return Err(format!("no Rust type for {other}").into()),
    })
}

fn realm(cell: &str) -> &'static str {
    match cell {
        "session" => "Session",
        "job" => "Job",
        "app" => "App",
        "node" => "Node",
        "proc" => "Proc",
        _ => "None",
    }
}

// ---- rules ----

const ABOUT_RULES: &str = "\
//! The rules of the PMIx Standard that these crates follow, for documentation only.
//!
//! Documentation names a rule by its id, as in (FEN-01); where a rule has parts, as GET-41a to GET-41c, its number means
//! all of them. Brackets at the end of a rule name its sources: chapters, headers and
//! RFCs of the Standard, and 000 to 004 for five older texts on which this implementation is based.
";

/// A module without items: a heading for each section, and an anchor for each rule.
fn rules() -> Result<String, Box<dyn Error>> {
    let mut text = format!("{HEADER}{ABOUT_RULES}");
    let (mut last_section, mut last_number) = (String::new(), String::new());
    for cells in read_table("rules.tsv")? {
        let [id, section, rule] =
            <[String; 3]>::try_from(cells).map_err(|cells| format!("{} cells in {cells:?}", cells.len()))?;
        if section != last_section {
            text += &format!("//!\n//! # {section}\n//!\n");
            last_section = section;
        }
        // the number of a rule with parts leads to the first of them
        let number = id.trim_end_matches(|part: char| part.is_ascii_lowercase());
        let is_first = number != id && number != last_number;
        let anchor = if is_first { format!("<a id=\"{number}\"></a>") } else { String::new() };
        last_number = number.to_owned();
        let item = format!("- {anchor}<a id=\"{id}\"></a>**{id}**: {}", without_markup(&rule));
        text += &wrapped(&item, "//!", "//!  ");
    }
    Ok(text)
}

/// Text that markdown shows as it is, but for what stands in backticks.
fn without_markup(text: &str) -> String {
    let mut is_code = false;
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        is_code ^= letter == '`';
        if !is_code && matches!(letter, '[' | ']' | '<' | '>' | '*' | '_') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

// ---- text ----

fn short(c_name: &str) -> &str {
    c_name.strip_prefix("PMIX_").unwrap_or(c_name)
}

/// The meaning as a sentence, without notes on where the table has it from.
fn sentence(meaning: &str) -> String {
    let meaning = match meaning.find(" (source ") {
        Some(note) => &meaning[..note],
        None => meaning,
    };
    let meaning = meaning.replace(" and source", "").replace("RFC0003: ", "");
    let words: Vec<_> = meaning.split(' ').map(quote_markup).collect();
    let text = words.join(" ");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let stop = if text.ends_with('.') { "" } else { "." };
    first.into_iter().chain(letters).collect::<String>() + stop
}

/// Puts backticks around a word that rustdoc would take for a tag or a link.
fn quote_markup(word: &str) -> String {
    if !word.contains(['<', '[']) {
        return word.to_owned();
    }
    let code = word.trim_end_matches([',', ';', '.', ')']);
    format!("`{code}`{}", &word[code.len()..])
}

fn doc_comment(text: &str) -> String {
    wrapped(text, "    ///", "    ///")
}

/// A comment in lines that begin with `first`, then with `next`.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut comment = first.to_owned();
    let mut width = comment.len();
    for word in text.split(' ') {
        if width + 1 + word.len() > LINE_WIDTH {
            comment += "\n";
            comment += next;
            width = next.len();
        }
        comment += " ";
        comment += word;
        width += 1 + word.len();
    }
    comment + "\n"
}
