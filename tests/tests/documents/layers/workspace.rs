//! The crates of the workspace with what they depend on, as cargo reads their manifests.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::root;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A crate of the workspace.
#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    manifest_path: PathBuf,
    /// Registries that it may go to; `None` for all.
    publish: Option<Vec<String>>,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    kind: Option<String>,
}

impl Package {
    pub(super) fn is_published(&self) -> bool {
        self.publish.is_none()
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.manifest_path.parent().unwrap().to_owned()
    }
}

impl Dependency {
    /// Only its tests and examples need it.
    pub(super) fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// All crates of the workspace.
pub(super) fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Metadata>(&output.stdout).unwrap().packages
}
