//! What users without business at a server can do to it: real processes of other users, where the tests run as root.

mod claims;
mod crowds;
