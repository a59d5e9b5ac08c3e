use super::spelling::{longs, shorts};
use std::path::Path;
use std::time::Duration;

use pmix_server::{NativeWire, Pmi1Wire};

use super::*;
use crate::nodes::By;

/// The plan for a command line outside of any allocation.
fn plan(line: &str) -> Result<Plan, String> {
    let args = std::iter::once("pmixrun").chain(line.split_whitespace()).map(OsString::from);
    parse_in(args, |_| None).map_err(|error| error.to_string())
}

#[test]
fn the_command_is_well_formed() {
    use clap::CommandFactory;
    FirstApp::command().debug_assert();
    FurtherApp::command().debug_assert();
}

#[test]
fn what_follows_the_program_is_its_own() {
    let plan = plan("-n 4 --tag-output ./app -n 2 --json -x -- y").unwrap();
    assert!(plan.format.tag && !plan.json);
    let [app] = plan.apps.as_slice() else { panic!("{:?}", plan.apps) };
    assert_eq!((app.command.to_str().unwrap(), app.max_procs), ("./app", 4));
    assert_eq!(app.argv, ["./app", "-n", "2", "--json", "-x", "--", "y"]);
}

#[test]
fn colons_separate_applications() {
    let plan = plan("-n 2 --env A=1 --json ./a one : -n 3 --wdir /tmp -x B=x=y ./b : ./c").unwrap();
    assert!(plan.json);
    let apps: Vec<_> = plan.apps.iter().map(|app| (app.command.to_str().unwrap(), app.max_procs)).collect();
    assert_eq!(apps, [("./a", 2), ("./b", 3), ("./c", 1)]);
    assert_eq!(plan.apps[0].env, ["A=1"]);
    assert_eq!(plan.apps[1].env, ["B=x=y"]);
    assert_eq!(plan.apps[1].cwd, Some("/tmp".into()));
    assert!(plan.apps[2].env.is_empty() && plan.apps[2].cwd.is_none());
}

#[test]
fn a_variable_without_value_is_passed_on() {
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    assert_eq!(plan("--env PATH ./a").unwrap().apps[0].env, [OsString::from(path)]);
    assert!(plan("--env =x ./a").unwrap_err().contains("needs a name"));
}

#[test]
fn times_are_seconds() {
    let plan = plan("--timeout 1.5 --grace 0 --reaction 2 ./a").unwrap();
    assert_eq!((plan.timeout, plan.setup.grace), (Some(Duration::from_millis(1500)), Duration::ZERO));
    assert_eq!(plan.reaction, Duration::from_secs(2));
}

#[test]
fn ranks_wait_for_a_debugger_if_they_are_to() {
    assert!(plan("--stop-in-init ./a").unwrap().stop_in_init);
    assert!(!plan("./a --stop-in-init").unwrap().stop_in_init);
}

#[test]
fn debuggers_are_command_lines_in_one_word_and_have_the_input() {
    let words = |words: &[&str]| words.iter().map(|word| OsString::from(*word)).collect::<Vec<_>>();
    let given = parse_in(words(&["pmixrun", "-debug", "gdb -x 'a b'", "--debug-daemons=d", "./a"]), |_| None);
    let given = given.unwrap();
    let line = |program: &str, args: &[&str]| {
        Some(CommandLine { program: program.into(), args: args.iter().map(|arg| (*arg).into()).collect() })
    };
    assert_eq!((given.debug.debug, given.debug.debug_daemons), (line("gdb", &["-x", "a b"]), line("d", &[])));
    assert_eq!((given.stdin, given.stop_in_init), (Stdin::None, true));
    // daemons read nothing
    let daemons = plan("--debug-daemons d --stdin 0 ./a").unwrap();
    assert_eq!((daemons.stdin, daemons.stop_in_init), (Stdin::Rank(pmix_types::Rank::from_raw(0)), true));
    assert_eq!(plan("--debug d --stdin none ./a").unwrap().stdin, Stdin::None);
}

#[test]
fn all_programs_run_on_the_node_itself_if_nothing_is_said() {
    let given = plan("--vnodes 3 --native off --pmi1 off ./a").unwrap();
    assert_eq!(
        (given.setup.vnodes, given.setup.native, given.setup.pmi1),
        (Some(3), NativeWire::Off, Pmi1Wire::Off)
    );
    let default = plan("./a").unwrap();
    assert_eq!(
        (default.setup.vnodes, default.setup.native, default.setup.pmi1),
        (None, NativeWire::On, Pmi1Wire::Inherited)
    );
}

#[test]
fn errors_say_what_to_do() {
    for (line, hint) in [
        ("", "PROGRAM"),
        ("-n 2", "PROGRAM"),
        ("-n 2 ./a :", "PROGRAM"),
        ("-n 0 ./a", "at least one"),
        ("-n 65536 ./a", "at most 65535"),
        ("-np x ./a", "not a number of processes"),
        ("-n -1 ./a", "not a number of processes"),
        ("-n many ./a", "not a number"),
        ("--timeout 0 ./a", "greater than 0"),
        ("--timeout 1e19 ./a", "longer than a century"),
        ("--grace 1e300 ./a", "--grace"),
        ("--timeout -1 ./a", "timeout"),
        ("--vnodes 0 ./a", "between 1 and 256"),
        ("--vnodes 257 ./a", "between 1 and 256"),
        ("--native yes ./a", "without-open-mpi-4"),
        ("--no-such-option ./a", "'--no-such-option'"),
        ("--debug 'd ./a", "a quote is not closed"),
        ("--debug-daemons # ./a", "no program is given"),
        ("-debug d --stdin 0 ./a", "'--stdin': the debugger of '--debug' has the standard input"),
        ("---np 2 ./a", "'---np'"),
        ("--env --bogus ./a", "--bogus"),
        ("./a : --json ./b", "before the first program"),
    ] {
        let error = plan(line).unwrap_err();
        assert!(error.contains(hint), "{line}: {error}");
        assert!(!error.contains("tip:"), "{line}: {error}");
    }
}

#[test]
fn help_names_exit_codes_and_separator() {
    let help = plan("--help").unwrap_err();
    assert!(help.contains("124") && help.contains(" : ") && help.contains("--grace"), "{help}");
    assert!(help.contains("--vnodes") && help.contains("JSM_JSRUN_PORT"), "{help}");
}

#[test]
fn options_may_have_one_dash_and_each_of_their_names() {
    for count in ["-np 4", "--np 4", "-n 4", "-c 4", "-n4", "--n 4", "-np=4", "--np=4"] {
        let plan = plan(&format!("{count} -tag-output -wd /tmp ./a -np 2 -mca")).unwrap();
        assert_eq!((plan.ranks(), plan.format.tag), (4, true), "{count}");
        assert_eq!(plan.apps[0].cwd, Some("/tmp".into()));
        assert_eq!(plan.apps[0].argv, ["./a", "-np", "2", "-mca"]);
    }
    // what follows an option that takes values is one, whatever it looks like
    let plan = plan("-mca -np --np -xA=1 -- -np").unwrap();
    assert_eq!(plan.apps[0].env, ["OMPI_MCA_-np=--np", "A=1"]);
    assert_eq!((plan.apps[0].command.to_str().unwrap(), plan.ranks()), ("-np", 1));
}

#[test]
fn parameters_become_variables_of_their_application() {
    let plan =
        plan("--mca btl tcp,self -mca a -1 --pmixmca ptl tcp -x OMPI_MCA_a=2 ./a : -mca b 1 ./b").unwrap();
    assert_eq!(
        plan.apps[0].env,
        ["OMPI_MCA_btl=tcp,self", "OMPI_MCA_a=-1", "PMIX_MCA_ptl=tcp", "OMPI_MCA_a=2"]
    );
    assert_eq!(plan.apps[1].env, ["OMPI_MCA_b=1"]);
}

#[test]
fn what_has_no_effect_is_said() {
    let given = plan("-allow-run-as-root ./a").unwrap();
    assert_eq!(given.warnings, Vec::<String>::new());
    let given = plan("--prtemca rmaps seq ./a").unwrap();
    assert_eq!(given.warnings, ["--prtemca rmaps seq has no effect: pmixrun does not use PRRTE"]);
    let given = plan("-mca btl tcp ./a : --mca rmaps_base_verbose 5 --mca routing x ./b").unwrap();
    let said = "--mca rmaps_base_verbose 5 has no effect: it is meant for Open MPI's launcher, not for ranks";
    assert_eq!(given.warnings, [said]);
    let given = plan("-x NO_SUCH_VARIABLE -x A=1 ./a : -x NOR_THIS ./b").unwrap();
    let said = ["NO_SUCH_VARIABLE", "NOR_THIS"]
        .map(|name| format!("-x {name} has no effect: {name} is not set here"));
    assert_eq!((given.warnings, given.apps[0].env.clone()), (said.to_vec(), vec!["A=1".into()]));
    for line in ["--mca a=b c ./a", "./a : --pmixmca =b c ./a"] {
        assert!(plan(line).unwrap_err().contains("is not a valid parameter name"), "{line}");
    }
}

#[test]
fn an_unknown_option_names_what_may_be_meant_and_nothing_that_would_start_a_program() {
    for (line, words) in [
        ("--bogus ./a", &["unknown option '--bogus'\n"][..]),
        ("--tag-ouput ./a", &["'--tag-ouput'; did you mean '--tag-output'?"]),
        ("-npx 4 ./a", &["'-npx'; did you mean '-np'?"]),
        ("--timeot=3 ./a", &["'--timeot'; did you mean '--timeout'?"]),
        ("--cpu-bind=cores ./a", &["unknown option '--cpu-bind'", "--bind-to POLICY"]),
        ("--bind-to moon ./a", &["'--bind-to <POLICY>'", "cannot bind to \"moon\"", "hwthread, core"]),
        ("-map-by seq ./a", &["'-map-by <POLICY>'", "cannot map by \"seq\""]),
        ("-w a,b ./a", &["unknown option '-w'", "--host"]),
        ("--ntasks=4 ./a", &["unknown option '--ntasks'", "-n N"]),
        ("-qz ./a", &["unknown option '-qz'"]),
        ("-s ./a", &["unknown option '-s'\n"]),
        ("./a : -tag-output ./b", &["'-tag-output' applies to the whole job"]),
        ("./a : --tag-ouput ./b", &["unknown option '--tag-ouput'\n"]),
    ] {
        let error = plan(line).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{line}: {error}");
        }
        assert!(!error.contains("-- --") && !error.contains("as a value"), "{line}: {error}");
    }
}

#[test]
fn errors_name_an_option_as_it_was_typed() {
    for (line, words) in [
        ("-np 0 ./a", "'-np <N>'"),
        ("-n 0 ./a", "'-n <N>'"),
        ("-c x ./a", "'-c <N>'"),
        ("--np x ./a", "'--np <N>'"),
        ("-n 1 -np 2 ./a", "'-np <N>'"),
        ("-x =io ./a", "'-x =io'"),
        ("-stdin 4 ./a", "'-stdin 4'"),
        ("-stdin some ./a", "'-stdin <RANK>'"),
        ("-mca a", "'-mca <KEY> <VALUE>'"),
        ("-timeout x ./a", "'-timeout <SECONDS>'"),
        ("-output-filename= ./a", "'-output-filename <NAME>'"),
        ("-q --verbose ./a", "'-q'"),
    ] {
        let error = plan(line).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn standard_input_goes_to_a_rank_of_the_job() {
    let stdin = |line: &str| plan(line).map(|plan| plan.stdin);
    let rank = |rank| Ok(Stdin::Rank(pmix_types::Rank::from_raw(rank)));
    assert_eq!(stdin("./a"), rank(0));
    assert_eq!(stdin("--stdin 2 ./a : -n 2 ./b"), rank(2));
    assert_eq!((stdin("-stdin all ./a"), stdin("--stdin none ./a")), (Ok(Stdin::All), Ok(Stdin::None)));
    assert!(stdin("--stdin 3 ./a : -n 2 ./b").unwrap_err().contains("the job has 3"));
}

#[test]
fn words_of_an_application_and_file_names_need_not_be_utf_8() {
    let bytes = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    let words = [
        b"pmixrun".as_slice(),
        b"--wdir",
        b"/d\xff",
        b"-xA=\xff",
        b"--mca",
        b"k",
        b"\xff",
        b"--output",
        b"dir=/o\xff:copy",
        b"--report-pid",
        b"/p\xff",
        b"--dvm",
        b"file:/u\xff",
        b"./a\xff",
        b"\xff",
    ];
    let given = parse_in(words.map(bytes), |_| None).unwrap();
    let app = &given.apps[0];
    assert_eq!(
        (&app.cwd, &app.env),
        (&Some(bytes(b"/d\xff")), &vec![bytes(b"OMPI_MCA_k=\xff"), bytes(b"A=\xff")])
    );
    assert_eq!((&app.command, &app.argv), (&bytes(b"./a\xff"), &vec![bytes(b"./a\xff"), bytes(b"\xff")]));
    assert_eq!(given.format.files, Some(Layout::Directory(bytes(b"/o\xff").into())));
    assert_eq!(given.report_pid, Some(bytes(b"/p\xff")));
    assert_eq!(given.dvm, Some(DvmPlace::File(bytes(b"/u\xff").into())));

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"./a '\xff b' # \xfe\n").unwrap();
    let given = plan(&format!("--app {}", file.path().display())).unwrap();
    assert_eq!(given.apps[0].argv, [bytes(b"./a"), bytes(b"\xff b")]);
    std::fs::write(file.path(), b"n0 slots=2 # \xfe\n").unwrap();
    assert!(plan(&format!("--hostfile {} ./a", file.path().display())).unwrap().setup.hosts.is_some());
}

#[test]
fn applications_may_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().display().to_string();
    std::fs::write(file.path(), "-np 2 -x A=1 ./a 'b c'\n-n 3 --wdir /d -mca k v ./d\n").unwrap();
    let given = plan(&format!("-tag-output -x B=2 -wdir /w --app {name}")).unwrap();
    let apps: Vec<_> = given.apps.iter().map(|app| (app.max_procs, app.cwd.as_deref().unwrap())).collect();
    assert_eq!(apps, [(2, OsStr::new("/w")), (3, OsStr::new("/d"))]);
    assert_eq!(given.apps[0].argv, ["./a", "b c"]);
    assert_eq!(
        (&given.apps[0].env[..], &given.apps[1].env[..]),
        (&["B=2".into(), "A=1".into()][..], &["B=2".into(), "OMPI_MCA_k=v".into()][..],)
    );

    for (line, words) in [
        (format!("-np 2 -app {name}"), "'-np' belongs in the file given by '-app'"),
        (format!("--app {name} ./a"), "a program cannot be given with '--app'"),
        (format!("--app {name} : ./a"), "a program cannot be given with '--app'"),
        ("-app /no/such/file".into(), "'-app': /no/such/file: "),
    ] {
        let error = plan(&line).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
    }
    std::fs::write(file.path(), "--help").unwrap();
    let args = ["pmixrun", "--app", &name].map(OsString::from);
    assert_eq!(parse(args).unwrap_err().exit_code(), 2, "nothing was run");
    std::fs::write(file.path(), "./a\n-np x ./b").unwrap();
    let error = plan(&format!("--app {name}")).unwrap_err();
    assert!(error.contains(&format!("{name}, line 2: invalid value 'x' for '-np <N>'")), "{error}");
}

/// The tables of `docs/pmixrun.md` and `docs/pmixrun-hosts.md` name in their last column each option, by each of its names, and
/// no other one.
#[test]
fn the_table_of_options_is_that_of_the_command() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    let read = |page: &str| std::fs::read_to_string(format!("{docs}/{page}.md")).unwrap();
    let text = ["pmixrun", "pmixrun-hosts"].map(read).concat();
    let cells = text.lines().filter(|line| line.starts_with("| ")).filter_map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").collect();
        (cells.len() == 5).then(|| cells[4].to_owned())
    });
    let mut written: Vec<String> = cells
        .flat_map(|cell| {
            let code: Vec<_> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            code
        })
        .filter_map(|code| {
            code.split([' ', '=']).next().filter(|word| word.starts_with('-')).map(str::to_owned)
        })
        .collect();
    let mut command = FirstApp::command();
    command.build();
    let mut known: Vec<String> = command
        .get_arguments()
        .flat_map(|arg| {
            let short = shorts(arg).map(|name| format!("-{name}"));
            short.chain(longs(arg).map(|name| format!("--{name}"))).collect::<Vec<_>>()
        })
        .collect();
    // one dash will do
    for name in &mut written {
        if name.len() > 2 && !name.starts_with("--") {
            name.insert(0, '-');
        }
    }
    written.sort_unstable();
    written.dedup();
    known.sort_unstable();
    assert_eq!(written, known);
}

#[test]
fn hosts_and_what_belongs_to_them() {
    let given = plan("--host a:2,b --head-grace 3 --host-grace 0.5 --tree-degree 2 ./a").unwrap();
    assert_eq!((given.ranks(), given.setup.hosts.unwrap().slots()), (3, 3), "all slots are used");
    assert_eq!(given.setup.start.head_grace, Duration::from_secs(3));
    assert_eq!(given.setup.start.host_grace, Duration::from_millis(500));
    assert_eq!(given.setup.start.tree_degree, 2);
    assert!(
        given.apps[0].cwd.as_ref().is_some_and(|cwd| Path::new(cwd).is_absolute()),
        "daemons start elsewhere"
    );
    assert_eq!(plan("-H a:2,b -n 2 --map-by node --bind-to none ./a").unwrap().ranks(), 2);
    let bound = plan("-H a:2,b --map-by numa --bind-to core --report-bindings ./a").unwrap();
    assert_eq!(bound.binding.get(&pmix_types::keys::BINDTO).unwrap().as_deref(), Some("core"));
    for (line, why) in [
        ("--launch-agent x ./a", "'--launch-agent' has no meaning without '--host'"),
        ("--start-timeout 3 ./a", "'--start-timeout' has no meaning without '--host'"),
        ("--host a --bind-to moon ./a", "cannot bind to \"moon\""),
        ("--host a --vnodes 2 ./a", "cannot be used with '--vnodes <K>'"),
        ("--dvm x ./a", "write a URI, file:FILE"),
        ("--dvm pid:x ./a", "not a process id"),
        ("--trust-uid 7 ./a", "--dvm <WHERE>"),
        ("--dvm-hostfile f ./a", "pmixd --head --hostfile FILE starts a DVM"),
        ("--dvm only -native off ./a", "'-native' is not for a job in a DVM: give it to pmixd --head"),
        ("--dvm only --tree-degree 2 ./a", "'--tree-degree' is not for a job in a DVM"),
        ("--dvm only --vnodes 2 ./a", "'--vnodes' is not for a job in a DVM"),
        ("--dvm only -N 2 ./a", "needs '-n' or '--host' as well"),
        ("--host a --await-daemons d --launcher ssh ./a", "cannot be used with"),
        ("--await-daemons d ./a", "'--await-daemons' has no meaning without '--host'"),
        ("--host a --join f ./a", "write --await-daemons DIR"),
        ("--no-tree-spawn ./a", "'--no-tree-spawn' has no meaning without '--host'"),
    ] {
        let error = plan(line).unwrap_err().to_string();
        assert!(error.contains(why), "{line}: {error}");
    }
}

/// The plan for a command line in an allocation of Slurm.
fn plan_in_allocation(line: &str) -> Result<Plan, String> {
    plan_on(("n[0-2]", "2(x2),1"), line)
}

/// The same with these nodes, and the slots of each.
fn plan_on((nodes, slots): (&str, &str), line: &str) -> Result<Plan, String> {
    let args = std::iter::once("pmixrun").chain(line.split_whitespace()).map(OsString::from);
    let variable = |name: &str| match name {
        "SLURM_JOB_ID" => Some("7".to_owned()),
        "SLURM_JOB_NODELIST" => Some(nodes.to_owned()),
        "SLURM_TASKS_PER_NODE" => Some(slots.to_owned()),
        "SLURMD_NODENAME" => Some("n1".to_owned()),
        _ => None,
    };
    parse_in(args, variable).map_err(|error| error.to_string())
}

#[test]
fn of_an_allocation_with_more_nodes_than_can_be_used_some_are_selected() {
    let large = ("n[0-1999]", "1(x2000)");
    let error = plan_on(large, "./a").unwrap_err();
    assert!(
        error.contains("there are 2000 hosts; at most 1024 can be used: select them by --host"),
        "{error}"
    );
    assert_eq!(plan_on(large, "--host n7,n1999 ./a").unwrap().ranks(), 2);
}

#[test]
fn inside_an_allocation_of_slurm_its_nodes_are_used_or_those_of_them_that_are_named() {
    let slurm = By::Slurm(["n0", "n1", "n2"].map(str::to_owned).into());
    let named = |plan: &Plan| -> Vec<(String, u32)> {
        let hosts = plan.setup.hosts.iter().flat_map(|hosts| hosts.hosts());
        hosts.map(|host| (host.name.clone(), host.slots)).collect()
    };
    let all = plan_in_allocation("./a").unwrap();
    assert_eq!(named(&all), [("n0".into(), 2), ("n1".into(), 2), ("n2".into(), 1)]);
    assert_eq!((all.ranks(), all.setup.node.as_deref(), &all.setup.start.by), (5, Some("n1"), &slurm));
    let some = plan_in_allocation("--host n2,n0:3 ./a").unwrap();
    assert_eq!((named(&some), some.ranks()), (vec![("n2".into(), 1), ("n0".into(), 3)], 4));
    assert_eq!(plan_in_allocation("--launcher ssh ./a").unwrap().setup.start.by, By::Ssh { tree: Some(32) });
    assert_eq!(plan_in_allocation("--launcher slurm ./a").unwrap().setup.start.by, slurm);
    assert_eq!(plan_in_allocation("--launch-agent x ./a").unwrap().setup.start.by, By::Program("x".into()));
    assert_eq!(plan_in_allocation("--await-daemons d ./a").unwrap().setup.start.by, By::Others("d".into()));
    assert_eq!(plan("--host n1 --tree-degree 2 ./a").unwrap().setup.start.by, By::Ssh { tree: Some(2) });
    assert_eq!(plan("--host n1 --no-tree-spawn ./a").unwrap().setup.start.by, By::Ssh { tree: None });
    let alone = plan_in_allocation("--vnodes 2 ./a").unwrap();
    assert_eq!((alone.ranks(), alone.setup.hosts, alone.setup.node), (1, None, None));
    for (error, why) in [
        (plan_in_allocation("--host n1,n3 ./a"), "error: n3 is not in the allocation of Slurm job 7"),
        (plan("--host a --launcher slurm ./a"), "'--launcher slurm': not inside a Slurm allocation"),
        (plan("--launcher ssh ./a"), "'--launcher' has no meaning without '--host'"),
        (plan("--host a --launcher ssh --launch-agent x ./a"), "cannot be used with"),
        (plan_in_allocation("--launcher pbs ./a"), "[possible values: auto, ssh, slurm]"),
    ] {
        let error = error.unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn ranks_are_counted_for_each_node_and_may_exceed_slots_if_that_is_said() {
    let mapped = |line: &str| {
        let given = plan(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        (given.ranks(), given.binding.get(&pmix_types::keys::MAPBY).unwrap().unwrap_or_default())
    };
    let two_on_each = (4, "ppr:2:node".to_owned());
    for spelled in ["-N 2", "-N2", "-npernode 2", "--npernode=2", "--ntasks-per-node=2", "-ppn 2"] {
        assert_eq!(mapped(&format!("-H a:4,b:4 {spelled} ./a")), two_on_each, "{spelled}");
    }
    assert_eq!(mapped("-H a:4,b:4 --map-by ppr:2:node ./a"), two_on_each);
    assert_eq!(mapped("--vnodes 3 -N 2 ./a").0, 6);
    assert_eq!(mapped("-N 2 ./a").0, 2);
    assert_eq!(mapped("-N 2 -n 3 -H a:4,b:4 ./a").0, 3);
    assert_eq!(mapped("--dvm only --host n7,n8 -N 2 ./a").0, 4);
    assert_eq!(mapped("--use-hwthread-cpus -n 2 ./a"), (2, "hwthread".to_owned()));
    assert_eq!(mapped("-H a -n 3 --oversubscribe ./a"), (3, ":OVERSUBSCRIBE".to_owned()));
    assert_eq!(mapped("-H a --map-by node:PE=2 --oversubscribe ./a").1, "node:PE=2:OVERSUBSCRIBE");
    for (line, why) in [
        ("-H a:2 -n 3 ./a", "3 ranks do not fit in the 2 slots of the hosts"),
        ("-H a ./a : -n 1 ./b", "2 ranks do not fit in the 1 slot of the hosts"),
        ("-H a -N 2 ./a", "with 2 on each and the slots they have, 1 do"),
        ("-N 2 --map-by node ./a", "cannot be used with"),
        ("-H a:1,b:7 -N 4 ./a", "with 4 on each and the slots they have, 5 do"),
        ("-H a,b -N 2 -n 5 --oversubscribe ./a", "with 2 on each and the slots they have, 4 do"),
        ("--oversubscribe --map-by :NOOVERSUBSCRIBE ./a", "exclude each other"),
        ("-N 0 ./a", "-N"),
        ("--map-by ppr:2:numa ./a", "write ppr:N:node"),
        ("--mpi=pmix ./a", "every job is served by PMIx"),
        ("-genv A 1 ./a", "write -x NAME=VALUE"),
        ("-env A 1 ./a", "write -x NAME=VALUE"),
        ("-t 5 ./a", "write --timeout SECONDS"),
        ("-bynode ./a", "write --map-by node"),
    ] {
        let error = plan(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
}

#[test]
fn a_job_in_a_dvm_chooses_among_its_nodes_and_leaves_an_allocation_alone() {
    let dvm = |line: &str| plan_in_allocation(line).unwrap();
    let job = dvm("--dvm pid:7 --host n7,n8 ./a");
    assert_eq!(job.dvm, Some(DvmPlace::Pid(7)));
    let hosts = job.setup.hosts.as_ref().unwrap().hosts();
    assert_eq!(hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["n7", "n8"]);
    assert_eq!(job.ranks(), 1, "the slots are not known here");
    // its processes start elsewhere
    assert!(job.apps[0].cwd.as_ref().is_some_and(|cwd| Path::new(cwd).is_absolute()));
    assert_eq!(dvm("--dvm only ./a").setup.hosts, None);
    for (text, expected) in [
        ("uri:a.0;unix:/s", DvmPlace::Uri("a.0;unix:/s".into())),
        ("a.0;tcp4://1.2.3.4:5", DvmPlace::Uri("a.0;tcp4://1.2.3.4:5".into())),
        ("file:/tmp/uri:x", DvmPlace::File("/tmp/uri:x".into())),
        ("ns:server.a.7", DvmPlace::Nspace("server.a.7".parse().unwrap())),
        ("system", DvmPlace::System),
        ("search", DvmPlace::Only),
    ] {
        assert_eq!(dvm(&format!("--dvm {text} ./a")).dvm, Some(expected));
    }
}
