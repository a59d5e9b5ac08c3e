//! Writes the messages and services of `pmix-proto` from its protobuf files: `cargo run -p pmix-proto-gen`.
//!
//! A test generates them again and compares them with the files, so the two cannot drift apart. No `protoc` is
//! needed.

use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message;

const FILES: [&str; 5] = [
    "pmix/v1/types.proto",
    "pmix/v1/query.proto",
    "pmix/v1/job.proto",
    "pmix/v1/session.proto",
    "pmix/v1/host.proto",
];

/// What servers of nodes do not serve, and therefore do not reflect.
const BETWEEN_NODES: [&str; 1] = ["pmix/host/v1/nodes.proto"];

/// What others serve.
const OF_OTHERS: [&str; 1] = ["etcd/etcd.proto"];

/// Cases of `Value` that are boxed in the domain type too, so that a value stays small.
const BOXED: [&str; 13] = [
    "app",
    "data_array",
    "query",
    "proc_info",
    "envar",
    "cpuset",
    "geometry",
    "device_distance",
    "endpoint",
    "device",
    "node_pid",
    "regex2",
    "reg_attr",
];

/// Messages alone need no gRPC.
const ONLY_WITH_GRPC: &str = "#[cfg(feature = \"grpc\")]";

fn main() -> Result<(), Box<dyn Error>> {
    generate(&package().join("src/gen"))
}

/// The directory of `pmix-proto`.
fn package() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Writes all generated files into a folder.
fn generate(out_dir: &Path) -> Result<(), Box<dyn Error>> {
    let root = package().join("proto");
    let mut descriptors = protox::compile(FILES, [&root])?;

    let mut builder = tonic_prost_build::configure()
        .out_dir(out_dir)
        .bytes(".")
        .build_transport(false)
        .client_mod_attribute(".", ONLY_WITH_GRPC)
        .server_mod_attribute(".", ONLY_WITH_GRPC)
        .emit_rerun_if_changed(false);
    for case in BOXED {
        builder = builder.boxed(format!(".pmix.v1.Value.kind.{case}"));
    }
    builder.clone().compile_fds(descriptors.clone())?;
    builder.clone().compile_fds(protox::compile(BETWEEN_NODES, [&root])?)?;
    builder.build_server(false).compile_fds(protox::compile(OF_OTHERS, [&root])?)?;

    // Comments are for those who read the protobuf files; reflection does without.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(out_dir.join("pmix.v1.bin"), descriptors.encode_to_vec())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        let fresh = tempfile::tempdir().unwrap();
        generate(fresh.path()).unwrap();
        let committed = package().join("src/gen");
        let files = fs::read_dir(&committed).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["etcdserverpb.rs", "pmix.host.v1.rs", "pmix.v1.bin", "pmix.v1.rs"]);
        for name in names {
            let same =
                fs::read(fresh.path().join(&name)).unwrap() == fs::read(committed.join(&name)).unwrap();
            assert!(same, "src/gen/{} is out of date: cargo run -p pmix-proto-gen", name.display());
        }
    }
}
