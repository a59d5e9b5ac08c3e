#![doc = include_str!("../README.md")]

use proc_macro::TokenStream;
use proc_macro2::Span;
use quote::quote;
use syn::{Attribute, Error, Ident, ImplItem, ImplItemFn, ItemImpl, parse_macro_input, parse_quote};

/// Methods of `HostModule` that are no upcalls.
const NO_UPCALLS: [&str; 1] = ["started"];

/// Derives `HostModule::capabilities` from the upcalls that an `impl HostModule for ..` has: each method is declared, none can be
/// forgotten.
///
/// It stands above `#[async_trait]`. A host that decides at run time which upcalls it serves, or that has some
/// [begun by the server](https://docs.rs/pmix-server/latest/pmix_server/struct.Capabilities.html#method.begun_by_server), writes
/// `capabilities` itself and does without the attribute.
#[proc_macro_attribute]
pub fn host_module(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut module = parse_macro_input!(item as ItemImpl);
    let declared = if arguments.is_empty() {
        capabilities(&module)
    } else {
        Err(Error::new(Span::call_site(), "`host_module` takes no arguments"))
    };
    match declared {
        Ok(method) => module.items.insert(0, ImplItem::Fn(method)),
        Err(error) => return error.into_compile_error().into(),
    }
    quote!(#module).into()
}

/// The method that declares all upcalls which an implementation has.
fn capabilities(module: &ItemImpl) -> syn::Result<ImplItemFn> {
    let mut declared = Vec::new();
    for item in &module.items {
        let ImplItem::Fn(method) = item else { continue };
        let name = &method.sig.ident;
        if name == "capabilities" {
            let message = "`host_module` writes `capabilities`: remove the method, or the attribute";
            return Err(Error::new(name.span(), message));
        }
        if NO_UPCALLS.iter().any(|other| name == other) {
            continue;
        }
        let upcall = Ident::new(&variant(&name.to_string()), name.span());
        let conditions =
            method.attrs.iter().filter(|attribute: &&Attribute| attribute.path().is_ident("cfg"));
        declared.push(quote!(#(#conditions)* ::pmix_server::Upcall::#upcall));
    }
    Ok(parse_quote! {
        fn capabilities(&self) -> ::pmix_server::Capabilities {
            ::core::iter::FromIterator::from_iter([#(#declared),*])
        }
    })
}

/// The variant of `Upcall` for a method: `ClientConnected` for `client_connected`.
fn variant(method: &str) -> String {
    let words = method.split('_').map(|word| {
        let mut chars = word.chars();
        chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(module: &ItemImpl) -> String {
        match capabilities(module) {
            Ok(method) => quote!(#method).to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_upcall_is_declared_and_nothing_else() {
        let module = parse_quote! {
            impl HostModule for Host {
                fn started(&self, handle: &ServerHandle) {}
                async fn client_connected(&self) {}
                #[cfg(feature = "log")]
                #[doc(hidden)]
                async fn log(&self) {}
                const OTHER: u8 = 1;
            }
        };
        let expected: ImplItemFn = parse_quote! {
            fn capabilities(&self) -> ::pmix_server::Capabilities {
                ::core::iter::FromIterator::from_iter([
                    ::pmix_server::Upcall::ClientConnected,
                    #[cfg(feature = "log")] ::pmix_server::Upcall::Log
                ])
            }
        };
        assert_eq!(declared(&module), quote!(#expected).to_string());
    }

    #[test]
    fn an_implementation_that_declares_itself_is_refused() {
        let module =
            parse_quote!(impl HostModule for Host { fn capabilities(&self) -> Capabilities { todo() } });
        assert!(declared(&module).contains("remove the method, or the attribute"));
    }
}
