//! Requests to the resource manager: allocation, monitoring, credentials, sessions, blocks of resources.

use pmix_types::Directives;
use pmix_types::message::{
    Allocate, Credential, Fabric, Monitor, Request, ResourceBlock, SessionControl, ValidateCredential,
};

use super::{At, ConvertError, Scope, Wire, required};
use crate::v1;

/// Requests with some fields and directives.
macro_rules! convert_requests {
    ($($request:ident { $($field:ident),+ })+) => {$(
        impl Wire for $request {
            type Form = v1::$request;

            fn to_form(&self) -> v1::$request {
                v1::$request { $($field: self.$field.to_form(),)+ directives: self.directives.to_form() }
            }

            fn from_form(form: v1::$request, scope: &mut Scope) -> Result<Self, ConvertError> {
                let mut request =
                    Self::new($(Wire::from_form(form.$field, scope).at(stringify!($field))?),+);
                request.directives = Wire::from_form(form.directives, scope).at("directives")?;
                Ok(request)
            }
        }
    )+};
}
convert_requests! {
    Allocate { directive }
    SessionControl { session }
    ResourceBlock { directive, block, units }
    Fabric { operation }
}

impl Wire for Monitor {
    type Form = v1::Monitor;

    fn to_form(&self) -> v1::Monitor {
        v1::Monitor {
            monitor: Some(self.monitor.to_form()),
            code: self.code.to_form(),
            directives: self.directives.to_form(),
        }
    }

    fn from_form(form: v1::Monitor, scope: &mut Scope) -> Result<Self, ConvertError> {
        let monitor = required(form.monitor, scope).at("monitor")?;
        let mut request = Self::new(monitor, Wire::from_form(form.code, scope).at("code")?);
        request.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(request)
    }
}

impl Wire for Credential {
    type Form = v1::CredentialReply;

    fn to_form(&self) -> v1::CredentialReply {
        v1::CredentialReply { credential: self.credential.clone(), info: self.info.to_form() }
    }

    fn from_form(form: v1::CredentialReply, scope: &mut Scope) -> Result<Self, ConvertError> {
        Ok(Self::new(form.credential, Wire::from_form(form.info, scope).at("info")?))
    }
}

/// A request for a credential.
pub(super) fn wanted(directives: &Directives) -> v1::CredentialRequest {
    v1::CredentialRequest { credential: None, directives: directives.to_form() }
}

/// A credential to be validated.
pub(super) fn to_check(request: &ValidateCredential) -> v1::CredentialRequest {
    let credential = Some(request.credential.clone());
    v1::CredentialRequest { credential, directives: request.directives.to_form() }
}

pub(super) fn credential_request(
    form: v1::CredentialRequest,
    scope: &mut Scope,
) -> Result<Request, ConvertError> {
    let directives = Wire::from_form(form.directives, scope).at("directives")?;
    Ok(match form.credential {
        None => Request::GetCredential(directives),
        Some(credential) => {
            let mut request = ValidateCredential::new(credential);
            request.directives = directives;
            Request::ValidateCredential(request)
        }
    })
}
