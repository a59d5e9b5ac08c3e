//! The `use` statements of a source.

/// What a statement brings into scope, one path each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// It is a `pub use`, in whatever visibility: a list of what a module offers.
    pub(super) is_reexport: bool,
    pub(super) paths: Vec<Vec<String>>,
}

/// All of a source but those in comments and in its module of tests.
pub(super) fn uses(source: &str) -> Vec<Use> {
    let text = without_tests(&without_comments(source));
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("use ").map(|at| from + at) {
        from = at + "use ".len();
        let before = &text[..at];
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let Some(end) = text[from..].find(';').map(|end| from + end) else { break };
        found.push(Use { is_reexport: is_public(before), paths: expand(&text[from..end]) });
        from = end;
    }
    found
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// A source up to `#[cfg(test)] mod ... {`, which is the last of a file.
fn without_tests(text: &str) -> String {
    let mut from = 0;
    while let Some(at) = text[from..].find("#[cfg(test)]").map(|at| from + at) {
        from = at + "#[cfg(test)]".len();
        let rest = text[from..].trim_start();
        let is_module = rest.starts_with("mod ");
        if is_module && rest.find('{') < rest.find(';') && rest.contains('{') {
            return text[..at].to_owned();
        }
    }
    text.to_owned()
}

/// Whether the text before a `use` ends in `pub`, or `pub(...)`.
fn is_public(before: &str) -> bool {
    let before = before.trim_end();
    let before = match before.strip_suffix(')').and_then(|rest| rest.rfind('(')) {
        Some(open) => before[..open].trim_end(),
        None => before,
    };
    before.ends_with("pub")
}

/// `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((head, braces)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|part| part.trim().to_owned()).collect()];
    };
    let body = braces.rsplit_once('}').map_or(braces, |(body, _)| body);
    let branches = split_outside_braces(body);
    let branches = branches.into_iter().filter(|branch| !branch.trim().is_empty());
    branches.flat_map(|branch| expand(&format!("{head}{}", branch.trim()))).collect()
}

fn split_outside_braces(body: &str) -> Vec<&str> {
    let mut depth = 0;
    body.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        uses(source).iter().flat_map(|found| found.paths.iter().map(|path| path.join("::"))).collect()
    }

    #[test]
    fn braces_are_expanded() {
        let nested = "use crate::{\n    a,\n    b::{self, c as d, e::F},\n};\nuse std::fmt as words;";
        assert_eq!(
            paths(nested),
            ["crate::a", "crate::b::self", "crate::b::c", "crate::b::e::F", "std::fmt"]
        );
    }

    #[test]
    fn reexports_of_each_visibility_are_told_from_imports() {
        let kinds =
            "pub use a::A;\npub(crate) use b::B;\npub(in crate::x)  use c::C;\nfn f(x: ()) {} use d::D;";
        let kinds: Vec<_> = uses(kinds).iter().map(|found| found.is_reexport).collect();
        assert_eq!(kinds, [true, true, true, false]);
    }

    #[test]
    fn comments_tests_and_other_words_are_left_out() {
        let text = "/// use a::A;\nfn reuse () {}\n#[cfg(test)]\nuse b::B;\n#[cfg(test)]\nmod memory;\nuse c::C;\n\
                    #[cfg(test)]\nmod tests {\n    use d::D;\n}\n";
        assert_eq!(paths(text), ["b::B", "c::C"]);
    }
}
