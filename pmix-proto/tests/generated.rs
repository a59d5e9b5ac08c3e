//! The committed code is what the generator makes of the protobuf files.

use std::fs;
use std::path::Path;

#[path = "../examples/gen_proto.rs"]
mod generator;

#[test]
fn generated_files_are_up_to_date() {
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmix-proto-gen");
    fs::create_dir_all(&fresh).unwrap();
    generator::generate(&fresh).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gen");
    let mut names: Vec<_> = fs::read_dir(&committed).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["etcdserverpb.rs", "pmix.host.v1.rs", "pmix.v1.bin", "pmix.v1.rs"]);
    for name in names {
        let same = fs::read(fresh.join(&name)).unwrap() == fs::read(committed.join(&name)).unwrap();
        assert!(
            same,
            "src/gen/{} is out of date: cargo run -p pmix-proto --example gen_proto",
            name.display()
        );
    }
}
