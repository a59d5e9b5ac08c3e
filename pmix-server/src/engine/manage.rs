//! Requests to the resource manager that the server only passes up: allocation, credentials, sessions, blocks of
//! resources, fabrics.

use pmix_types::message::{Allocate, Fabric, Request, ResourceBlock, SessionControl, ValidateCredential};

use super::forward::Form;
use super::{Asked, Engine, Out, UpcallRequest, not_supported};
use crate::host::{
    AllocateRequest, FabricRequest, GetCredentialRequest, ResourceBlockRequest, SessionControlRequest,
    Upcall, ValidateCredentialRequest,
};

impl Engine {
    pub(super) fn on_manage(&mut self, asked: Asked, request: Request, out: &mut Out) {
        macro_rules! pass_up {
            ($upcall:ident, $form:ident, $directives:ident, $request:expr) => {
                self.pass_up(asked, Upcall::$upcall, Form::$form, Ok($directives), out, |directives| {
                    UpcallRequest::$upcall($request.with_directives(directives))
                })
            };
        }
        match request {
            Request::Allocate(Allocate { directive, directives, .. }) => {
                pass_up!(Allocate, Info, directives, AllocateRequest::new(directive));
            }
            Request::GetCredential(directives) => {
                pass_up!(GetCredential, Credential, directives, GetCredentialRequest::new());
            }
            Request::ValidateCredential(ValidateCredential { credential, directives, .. }) => {
                pass_up!(ValidateCredential, Info, directives, ValidateCredentialRequest::new(credential));
            }
            Request::SessionControl(SessionControl { session, directives, .. }) => {
                pass_up!(SessionControl, Info, directives, SessionControlRequest::new(session));
            }
            Request::ResourceBlock(ResourceBlock { directive, block, units, directives, .. }) => {
                let request = ResourceBlockRequest::new(directive, block, units);
                pass_up!(ResourceBlock, Done, directives, request);
            }
            Request::Fabric(Fabric { operation, directives, .. }) => {
                pass_up!(Fabric, Info, directives, FabricRequest::new(operation));
            }
            other => self.reply(asked.to, Err(not_supported(other.operation())), out),
        }
    }
}
