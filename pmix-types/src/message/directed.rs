/// Declares requests with some fields and directives.
macro_rules! directed_requests {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $(#[$directives_doc:meta])*
            directives,
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            $(#[$directives_doc])*
            pub directives: $crate::Directives,
        }

        impl $name {
            /// The request without directives.
            pub const fn new($($field: $type),*) -> Self {
                Self { $($field,)* directives: $crate::Directives::new() }
            }

            /// Sets the directives.
            #[must_use]
            pub fn with_directives(mut self, directives: $crate::Directives) -> Self {
                self.directives = directives;
                self
            }
        }
    )+};
}
