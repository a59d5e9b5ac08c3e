use super::*;
use crate::discovery::tests::FakeServers;

fn find(fakes: &FakeServers, select: impl FnOnce(ToolBuilder) -> ToolBuilder) -> Result<u32, Error> {
    let found = select(ToolBuilder::default().session_root(fakes.root.path())).find(&[])?;
    let info = found.info.unwrap();
    assert_eq!(found.uri, info.uri);
    Ok(info.pid)
}

#[test]
fn tol_04_a_tool_that_another_has_started_attaches_to_what_its_environment_names() {
    let mut fakes = FakeServers::new();
    let file = fakes.add("starter", 1, true);
    let of = |builder: &ToolBuilder, uri: Option<&str>, file: Option<&std::path::Path>| {
        let variable = |name: &str| match name {
            LAUNCHER_RNDZ_URI => uri.map(OsString::from),
            LAUNCHER_RNDZ_FILE => file.map(OsString::from),
            other => panic!("{other}"),
        };
        format!("{:?}", builder.selection_of_starter(variable, &[]))
    };
    let any = ToolBuilder::default();
    assert_eq!(of(&any, Some("a.b.0;unix:/x"), Some(&file)), "Some(Uri(\"a.b.0;unix:/x\"))");
    // of the C library's address, the name of the server is of use
    assert_eq!(of(&any, Some("a.b.0;tcp4://127.0.0.1:1"), None), "Some(Nspace(Ok(\"a.b\")))");
    // what is no address fails as one
    assert_eq!(of(&any, Some("nonsense"), None), "Some(Uri(\"nonsense\"))");
    assert_eq!(of(&any, None, Some(&file)), format!("Some(File({file:?}))"));
    // a launcher that has yet to write it
    assert_eq!(of(&any, None, Some(&file.with_extension("other"))), "None");
    assert_eq!(of(&any, None, None), "None");
    for chosen in [ToolBuilder::default().pid(1), ToolBuilder::default().session_root(fakes.root.path())] {
        assert_eq!(of(&chosen, Some("a.b.0;unix:/x"), Some(&file)), "None");
    }
    let of_rank = |builder: &ToolBuilder| {
        builder.address_of_rank(|name| (name == "PMIX_GRPC_URI").then(|| "a.0;unix:/x".into()), &[])
    };
    assert_eq!(of_rank(&any).as_deref(), Some("a.0;unix:/x"));
    assert_eq!(any.address_of_rank(|_| None, &[]), None);
    assert_eq!(of_rank(&any.clone().pid(1)), None);
    assert_eq!(of_rank(&any.session_root(fakes.root.path())), None);
}

#[test]
fn tol_07c_the_only_live_server_is_found_without_selection() {
    let mut fakes = FakeServers::new();
    assert!(find(&fakes, |any| any).unwrap_err().is_no_server());
    fakes.add("dead", 1, false);
    let error = find(&fakes, |any| any).unwrap_err();
    assert!(
        error.is_no_server() && error.to_string().contains("found only files of dead servers: pid 1 (dead)")
    );
    fakes.add("srv.a", 2, true);
    assert_eq!(find(&fakes, |any| any).unwrap(), 2);
}

#[test]
fn tol_07b_several_live_servers_are_listed_and_need_a_selection() {
    let mut fakes = FakeServers::new();
    fakes.add("dead", 1, false);
    fakes.add("srv.a", 2, true);
    let file = fakes.add("srv.b", 3, true);
    let error = find(&fakes, |any| any).unwrap_err();
    assert!(matches!(&error, Error::Ambiguous(error) if error.candidates.len() == 2));
    assert_eq!(error.status(), Status::ERR_UNREACH);
    assert!(error.to_string().ends_with("pid 2 (srv.a), pid 3 (srv.b)"), "{error}");

    assert_eq!(find(&fakes, |one| one.pid(2)).unwrap(), 2);
    assert_eq!(find(&fakes, |one| one.nspace("srv.b")).unwrap(), 3);
    assert_eq!(find(&fakes, |one| one.pid(2).rendezvous_file(file)).unwrap(), 3);
}

#[test]
fn tol_06a_tol_06c_tol_06d_a_selection_that_fails_is_final() {
    let mut fakes = FakeServers::new();
    let dead = fakes.add("dead", 1, false);
    fakes.add("srv.a", 2, true);
    let error = find(&fakes, |one| one.pid(9)).unwrap_err().to_string();
    assert!(error.contains("with pid 9") && error.ends_with("running servers: pid 2 (srv.a)"), "{error}");
    let error = find(&fakes, |one| one.nspace("dead")).unwrap_err().to_string();
    assert!(
        error.contains("namespace dead") && error.contains("files of dead servers: pid 1 (dead)"),
        "{error}"
    );
    let error = find(&fakes, |one| one.rendezvous_file(&dead)).unwrap_err().to_string();
    assert_eq!(error, format!("{} was left behind by a dead server, pid 1 (dead)", dead.display()));
}
