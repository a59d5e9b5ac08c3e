//! Spans in a file: each batch is a line of OTLP in JSON, as collectors read it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use pmix_proto::files::Directory;
use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::ExportError;

#[derive(Debug)]
pub(super) struct FileExporter {
    file: File,
    resource: ResourceAttributesWithSchema,
}

impl FileExporter {
    /// Opens the file, for its owner alone if it is new.
    pub(super) fn open(path: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::File { path: PathBuf::from(path), source };
        // opening a pipe would wait for its reader, and a link of another user would choose the file
        #[allow(clippy::cast_possible_wrap, reason = "flags of open are small")]
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
        let name = path.file_name().ok_or_else(|| failed(io::Error::other("it is not a file")))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = Directory::open(parent.unwrap_or_else(|| Path::new("."))).map_err(failed)?;
        let path = directory.path().join(name);
        let file = File::options().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
        let file = file.map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(failed(io::Error::other("it is not a file")));
        }
        // who has put it there could read it
        if found.uid() != geteuid().as_raw() {
            return Err(failed(io::Error::other("it belongs to another user")));
        }
        Ok(Self { file, resource: ResourceAttributesWithSchema::default() })
    }

    fn write(&self, batch: Vec<SpanData>) -> io::Result<()> {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let mut line = serde_json::to_vec(&ExportTraceServiceRequest { resource_spans })?;
        line.push(b'\n');
        // whole: others append to the same file
        (&self.file).write_all(&line)
    }
}

impl SpanExporter for FileExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.write(batch).map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pmix_types::Uid;

    use super::*;

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_anything_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spans");
        FileExporter::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for wrong in [&pipe, &link, dir.path(), &dir.path().join("missing/spans"), Path::new("/dev/null")] {
            assert!(matches!(FileExporter::open(wrong), Err(ExportError::File { .. })), "{wrong:?}");
        }
        // only root can make one, and not in every container
        if geteuid().is_root() && std::os::unix::fs::chown(&path, Some(Uid::NOBODY.as_raw()), None).is_ok() {
            let problem = FileExporter::open(&path).unwrap_err().to_string();
            assert!(problem.ends_with("it belongs to another user"), "{problem}");
        }
    }
}
