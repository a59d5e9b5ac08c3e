//! The C programs: a host and a rank of the C library, built when needed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tempfile::TempDir;

use crate::Result;

const SOURCES: [(&str, &str); 4] = [
    ("bench_common.h", include_str!("../c/bench_common.h")),
    ("bench_host.h", include_str!("../c/bench_host.h")),
    ("server_bench.c", include_str!("../c/server_bench.c")),
    ("client_bench.c", include_str!("../c/client_bench.c")),
];

/// The programs, until dropped.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Version of the library.
    pub(crate) version: String,
    directory: TempDir,
}

impl Programs {
    /// Builds them with what `CC` names, or `cc`.
    pub(crate) fn build() -> Result<Self> {
        let version = pkg_config("--modversion")?;
        let directory = TempDir::new()?;
        for (name, text) in SOURCES {
            fs::write(directory.path().join(name), text)?;
        }
        let (flags, libraries) = (pkg_config("--cflags")?, pkg_config("--libs")?);
        let programs = Self { version, directory };
        for program in [programs.server(), programs.client()] {
            let cc = env::var_os("CC").unwrap_or_else(|| "cc".into());
            let mut command = Command::new(&cc);
            command.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(&program).arg(program.with_extension("c"));
            command.args(flags.split_whitespace()).args(libraries.split_whitespace()).arg("-lpthread");
            let built = command.status().map_err(|error| missing(&format!("{}: {error}", cc.display())))?;
            if !built.success() {
                return Err(format!("{} cannot be built: {built}", program.display()).into());
            }
        }
        Ok(programs)
    }

    /// The host.
    pub(crate) fn server(&self) -> PathBuf {
        self.path().join("server_bench")
    }

    /// The rank.
    pub(crate) fn client(&self) -> PathBuf {
        self.path().join("client_bench")
    }

    /// Where they are.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn pkg_config(option: &str) -> Result<String> {
    let output = Command::new("pkg-config").args([option, "pmix"]).output();
    let output = output.map_err(|error| missing(&format!("pkg-config: {error}")))?;
    if !output.status.success() {
        return Err(missing(String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn missing(what: &str) -> String {
    format!(
        "the C library cannot be measured ({what}); on Debian: apt-get install gcc pkg-config libpmix-dev"
    )
}
