//! `pmix attrs`: supported functions and their attributes.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pmix_tool::types::{AttributeLevel, RegAttr, Value};
use pmix_tool::{Query, QueryResults};
use serde::Serialize;

use super::render::write_table;
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Lists the supported functions, or the attributes of functions
///
/// By default it queries the only live server of this user on this node. LEVEL says who supports an attribute: the client
/// library, the tool library, the server, or its host.
///
/// The JSON report is one object: {"schema", "server", "functions": {FUNCTION: {LEVEL: [{"name", "key", "data_type", "limits",
/// "description"}]}}}. If no function is given, the arrays are empty.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if something is supported; 1 if not, or if no server could be queried; \
                        2 for an invalid command line."
)]
pub(super) struct Args {
    /// Functions of the Standard, such as PMIx_Get
    #[arg(value_name = "FUNCTION")]
    functions: Vec<String>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Namespace of the server.
    server: String,
    functions: BTreeMap<String, BTreeMap<&'static str, Vec<RegAttr>>>,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let report = request(&args).await?;
    if args.json {
        console.json(&report)?;
    } else if args.functions.is_empty() {
        let row = |(function, levels): (&String, &BTreeMap<&str, _>)| {
            vec![function.clone(), levels.keys().copied().collect::<Vec<_>>().join(",")]
        };
        let rows = report.functions.iter().map(row).collect();
        write_table(console.out, &["FUNCTION", "LEVELS"], rows, &[], console.width)?;
    } else {
        write_table(
            console.out,
            &["FUNCTION", "LEVEL", "ATTRIBUTE", "KEY", "TYPE"],
            report.rows(),
            &[],
            console.width,
        )?;
    }
    let nothing = report.functions.values().all(BTreeMap::is_empty);
    if nothing {
        let functions = args.functions.join(", ");
        console.complain(&format!("{functions}: not supported; `pmix attrs` lists the supported functions"));
    }
    Ok(if nothing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn request(args: &Args) -> Result<Report, Trouble> {
    let tool = args.selection.connect().await?;
    let functions = args.functions.iter().map(String::as_str);
    let answer = tool.query([Query::attributes(functions)]).await?;
    let report = Report::new(tool.server()?.proc_id().nspace.to_string(), &answer, &args.functions);
    finalize(tool).await;
    Ok(report)
}

impl Report {
    fn new(server: String, answer: &QueryResults, wanted: &[String]) -> Self {
        let mut functions = BTreeMap::<_, BTreeMap<_, _>>::new();
        for level in AttributeLevel::ALL {
            for function in wanted {
                let attributes = answer.attributes(function, level);
                let levels = functions.entry(function.clone()).or_default();
                levels.extend(attributes.map(|attributes| (name(level), attributes.to_vec())));
            }
            if wanted.is_empty() {
                for function in listed(answer, level) {
                    functions.entry(function).or_default().insert(name(level), Vec::new());
                }
            }
        }
        Self { server, functions }
    }

    /// A row for each attribute, and one for each level that supports a function without attributes.
    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for (function, levels) in &self.functions {
            for (level, attributes) in levels {
                let about = |attribute: &RegAttr| {
                    [attribute.name.clone(), attribute.key.to_string(), attribute.data_type.to_string()]
                };
                let none = attributes.is_empty().then(|| ["-".to_owned(), "-".to_owned(), "-".to_owned()]);
                rows.extend(
                    attributes.iter().map(about).chain(none).map(|cells| {
                        [function.clone(), (*level).to_owned()].into_iter().chain(cells).collect()
                    }),
                );
            }
        }
        rows
    }
}

/// The functions in the answer to a query for all of them, with the levels that support each beside the tool's own library.
pub(super) fn functions_of(answer: &QueryResults) -> BTreeMap<String, Vec<&'static str>> {
    let mut functions = BTreeMap::<_, Vec<_>>::new();
    for level in [AttributeLevel::Server, AttributeLevel::Host] {
        for function in listed(answer, level) {
            functions.entry(function).or_default().push(name(level));
        }
    }
    functions
}

/// Functions of a level, from the reply to a query for all of them.
fn listed(answer: &QueryResults, level: AttributeLevel) -> Vec<String> {
    let infos = answer.results().iter().flat_map(|result| &result.infos);
    let mut levels = infos.filter_map(|info| info.value.as_infos()).flatten();
    let names = levels.find(|info| info.is(level.functions_key())).and_then(|info| match &info.value {
        Value::String(names) => Some(names),
        _ => None,
    });
    names.map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default()
}

const fn name(level: AttributeLevel) -> &'static str {
    match level {
        AttributeLevel::Client => "client",
        AttributeLevel::Server => "server",
        AttributeLevel::Host => "host",
        AttributeLevel::Tool => "tool",
        _ => "other",
    }
}
