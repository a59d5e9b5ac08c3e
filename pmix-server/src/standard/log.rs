//! Data that processes log.

use pmix_types::{Status, keys};

use super::{Exchange, JobReport, LaunchReport, Launcher, OutputChannel, StandardHost};
use crate::host::{HostError, HostResult, LogRequest, UpcallContext};

impl<L: Launcher, X: Exchange> StandardHost<L, X> {
    /// What goes to standard output or error becomes output of the caller.
    pub(super) async fn write_log(&self, cx: &UpcallContext, req: LogRequest) -> HostResult<()> {
        let reports = self.jobs().get(&cx.caller.nspace).map(|job| job.reports.clone());
        let Some(reports) = reports else {
            return UpcallContext::not_supported("log for a process of no job");
        };
        let once = req.directives.flag(&keys::LOG_ONCE)?;
        let (mut done, mut failed) = (0, None);
        for info in &req.data {
            let channel = match () {
                () if info.is(&keys::LOG_STDOUT) => Some(OutputChannel::Stdout),
                () if info.is(&keys::LOG_STDERR) => Some(OutputChannel::Stderr),
                () => None,
            };
            match (channel, info.get::<String>()) {
                (Some(channel), Ok(mut text)) => {
                    if !text.ends_with('\n') {
                        text.push('\n');
                    }
                    let output = LaunchReport::Output { proc: cx.caller.clone(), channel, data: text.into() };
                    // an owner that is gone reads nothing
                    let _ = reports.send(JobReport::Proc(output)).await;
                    done += 1;
                    if once {
                        return Ok(());
                    }
                }
                _ => failed = failed.or(Some(info)),
            }
        }
        match failed {
            None => Ok(()),
            Some(info) if done == 0 || info.is_required() => {
                let message = format!("log: nothing can be written to {} here", info.key);
                Err(HostError::new(Status::ERR_NOT_SUPPORTED, message))
            }
            Some(_) => Err(Status::ERR_PARTIAL_SUCCESS.into()),
        }
    }
}
