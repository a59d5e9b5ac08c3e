//! Where a source text can be changed, and how.
//!
//! All changes are in one text: each is switched on by its number when the program runs. So one build has all mutants, and
//! none of them adds a line.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, File, ItemFn, Lit, ReturnType, Signature, Stmt, Type};

/// A place in a source text with one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) line: usize,
    pub(crate) last_line: usize,
    pub(crate) column: usize,
    /// What is changed.
    pub(crate) kind: Kind,
    /// The bytes that are wrapped.
    range: Range<usize>,
    /// The bytes of an operator between them.
    operator: Range<usize>,
}

/// What a mutant does instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The condition is its opposite.
    Negated,
    /// `<` is `<=` and the like.
    Edge,
    /// A number is one more.
    OneMore,
    /// The statement is not run.
    Deleted,
    /// The function returns at once with the default of its type.
    Default,
    /// The function returns `true` at once.
    True,
}

impl Kind {
    pub(crate) const fn says(self) -> &'static str {
        match self {
            Self::Negated => "condition negated",
            Self::Edge => "comparison with the other edge",
            Self::OneMore => "number plus one",
            Self::Deleted => "statement deleted",
            Self::Default => "default returned at once",
            Self::True => "true returned at once",
        }
    }
}

/// All places of a text, in order; none if it cannot be read.
pub(crate) fn sites_of(text: &str) -> Vec<Site> {
    let Ok(file) = syn::parse_file(text) else { return Vec::new() };
    let mut finder = Finder::default();
    finder.visit_file(&file);
    let mut sites = finder.sites;
    sites.sort_by_key(|site| (site.range.start, site.range.end, site.kind));
    sites
}

/// The text with all changes in it. `switch` is the path of the module that knows which of them is on.
pub(crate) fn with_sites<'a>(text: &str, sites: impl IntoIterator<Item = (u32, &'a Site)>) -> String {
    let switch = "crate::mutant_switch";
    // position, order at that position, bytes that go, text that comes
    let mut edits: Vec<(usize, (isize, isize), usize, String)> = Vec::new();
    for (number, site) in sites {
        let Range { start, end } = site.range.clone();
        let length = (end - start) as isize;
        // what is around more opens first, and closes last; around the same a negation
        let (long, inner) = (1_000_000_000 - length, site.kind as isize);
        let mut wrap = |before: String, after: &str| {
            edits.push((start, (long, inner), 0, before));
            edits.push((end, (-long, -inner), 0, after.to_owned()));
        };
        match site.kind {
            Kind::Negated => wrap(format!("{switch}::flip({number}, "), ")"),
            Kind::OneMore => wrap(format!("{switch}::number({number}, "), ")"),
            Kind::Deleted => wrap(format!("if !{switch}::is_on({number}) {{ "), " }"),
            Kind::Edge => {
                let operator = &text[site.operator.clone()];
                wrap(format!("{switch}::compare({number}, \"{operator}\", &("), "))");
                let Range { start, end } = site.operator.clone();
                edits.push((start, (0, 0), end - start, "), &(".to_owned()));
            }
            Kind::Default => {
                edits.push((
                    start,
                    (0, 0),
                    0,
                    format!(" if {switch}::is_on({number}) {{ return {switch}::nothing(); }}"),
                ));
            }
            Kind::True => {
                edits.push((start, (0, 1), 0, format!(" if {switch}::is_on({number}) {{ return true; }}")));
            }
        }
    }
    edits.sort();
    let (mut changed, mut at) = (String::with_capacity(text.len() * 2), 0);
    for (position, _, gone, comes) in edits {
        changed.push_str(&text[at..position]);
        changed.push_str(&comes);
        at = position + gone;
    }
    changed + &text[at..]
}

#[derive(Default)]
struct Finder {
    sites: Vec<Site>,
}

impl Finder {
    fn add(&mut self, kind: Kind, span: Span, operator: Range<usize>) {
        self.add_at(kind, span, span.byte_range(), operator);
    }

    fn add_at(&mut self, kind: Kind, span: Span, range: Range<usize>, operator: Range<usize>) {
        let (start, end) = (span.start(), span.end());
        self.sites.push(Site {
            line: start.line,
            last_line: end.line,
            column: start.column + 1,
            kind,
            range,
            operator,
        });
    }

    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Let(_) => {}
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.condition(&binary.left);
                self.condition(&binary.right);
            }
            // negated where comparisons are found
            Expr::Binary(binary) if is_comparison(&binary.op) => {}
            Expr::Paren(inner) => self.condition(&inner.expr),
            other => self.add(Kind::Negated, other.span(), 0..0),
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        // a body of one expression is changed there
        if signature.constness.is_some() || signature.unsafety.is_some() || block.stmts.is_empty() {
            return;
        }
        let open = block.brace_token.span.open();
        let after = open.byte_range().end;
        let body = after..after;
        let returns = match &signature.output {
            ReturnType::Default => Some("()".to_owned()),
            ReturnType::Type(_, of) => default_of(of),
        };
        match returns.as_deref() {
            Some("bool") => {
                self.add_at(Kind::Default, open, body.clone(), 0..0);
                self.add_at(Kind::True, open, body, 0..0);
            }
            Some(_) => self.add_at(Kind::Default, open, body, 0..0),
            None => {}
        }
    }
}

/// The name of a type that has an obvious default.
fn default_of(of: &Type) -> Option<String> {
    match of {
        Type::Tuple(tuple) if tuple.elems.is_empty() => Some("()".into()),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let name = last.ident.to_string();
            let simple = [
                "bool", "u8", "u16", "u32", "u64", "usize", "i32", "i64", "String", "Option", "Vec",
                "BTreeMap", "BTreeSet", "RankSet", "Result",
            ];
            simple.contains(&name.as_str()).then_some(name)
        }
        _ => None,
    }
}

const fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Eq(_) | BinOp::Ne(_)) || is_order(op)
}

const fn is_order(op: &BinOp) -> bool {
    matches!(op, BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

impl<'a> Visit<'a> for Finder {
    fn visit_file(&mut self, file: &'a File) {
        if !is_for_tests(&file.attrs) {
            visit::visit_file(self, file);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        if !is_for_tests(&item.attrs) && item.sig.constness.is_none() {
            self.function(&item.sig, &item.block);
            self.visit_block(&item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) && item.sig.constness.is_none() {
            self.function(&item.sig, &item.block);
            self.visit_block(&item.block);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        // how something looks in a log is no rule
        let shows = |path: &syn::Path| path.segments.last().is_some_and(|last| last.ident == "Debug");
        if !is_for_tests(&item.attrs) && !item.trait_.as_ref().is_some_and(|(_, path, _)| shows(path)) {
            visit::visit_item_impl(self, item);
        }
    }

    // what must be known when the program is built
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'a syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'a syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_if(&mut self, branch: &'a syn::ExprIf) {
        self.condition(&branch.cond);
        visit::visit_expr_if(self, branch);
    }

    fn visit_expr_while(&mut self, repeated: &'a syn::ExprWhile) {
        self.condition(&repeated.cond);
        visit::visit_expr_while(self, repeated);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        if is_comparison(&binary.op) {
            self.add(Kind::Negated, binary.span(), 0..0);
        }
        if is_order(&binary.op) {
            self.add(Kind::Edge, binary.span(), binary.op.span().byte_range());
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_lit(&mut self, literal: &'a syn::ExprLit) {
        if let Lit::Int(_) = literal.lit {
            self.add(Kind::OneMore, literal.span(), 0..0);
        }
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::Expr(Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Binary(_), Some(_)) =
            statement
        {
            self.add(Kind::Deleted, statement.span(), 0..0);
        }
        visit::visit_stmt(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> (Vec<Kind>, String) {
        let sites = sites_of(text);
        let numbered = sites.iter().enumerate().map(|(number, site)| (number as u32, site));
        let changed = with_sites(text, numbered);
        assert!(syn::parse_file(&changed).is_ok(), "{changed}");
        assert_eq!(changed.lines().count(), text.lines().count());
        (sites.into_iter().map(|site| site.kind).collect(), changed)
    }

    #[test]
    fn conditions_comparisons_numbers_and_statements_are_wrapped_where_they_stand() {
        let (kinds, text) =
            changed("fn f() -> Rank {\n    if a && b < 3 {\n        c(4);\n    }\n    d\n}\n");
        let expected =
            [Kind::Negated, Kind::Negated, Kind::Edge, Kind::OneMore, Kind::Deleted, Kind::OneMore];
        assert_eq!(kinds, expected);
        let switch = "crate::mutant_switch";
        let line = text.lines().nth(1).unwrap().trim();
        let condition = format!(
            "if {switch}::flip(0, a) && {switch}::flip(1, {switch}::compare(2, \"<\", &(b ), &( {switch}::number(3, 3)))) {{"
        );
        assert_eq!(line, condition);
        let line = text.lines().nth(2).unwrap().trim();
        assert_eq!(line, format!("if !{switch}::is_on(4) {{ c({switch}::number(5, 4)); }}"));
    }

    #[test]
    fn functions_return_at_once_if_their_type_has_a_default() {
        let (kinds, _) =
            changed("fn a() -> bool { b() }\nfn c() -> Result<(), E> { d() }\nfn e() -> Odd { f() }\n");
        assert_eq!(kinds, [Kind::Default, Kind::True, Kind::Default]);
    }

    #[test]
    fn what_must_be_known_before_and_tests_are_left_alone() {
        let text = "const A: usize = 3;\nconst fn b() -> u32 { 4 }\nstruct C([u8; 5]);\n#[cfg(test)]\nmod tests { fn d() { e(6); } }\n\
            fn g(x: u8) -> Odd { match x { 7 => h(), _ => [i; 8] } }\n";
        assert_eq!(changed(text).0, []);
    }
}
