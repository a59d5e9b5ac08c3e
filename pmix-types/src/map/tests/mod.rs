mod node_map;
mod placement;
mod proc_map;

use super::{MapError, MapForm};

const FORMS: [MapForm; 3] = [MapForm::Raw, MapForm::Pmix, MapForm::Blob];

/// Sentences for people: no stop at the end, and they say where.
fn assert_reads_well(error: &MapError) {
    let text = error.to_string();
    assert!(!text.ends_with('.') && text.starts_with(char::is_lowercase), "{text}");
}
