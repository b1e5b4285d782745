//! The engines' files have no circle: what two files need lies in a third one below both.
//!
//! The graph is drawn from paths in the code: those that begin with `crate`, `self` or `super`, and
//! those that begin with the name of a child. A declaration (`mod child;`) is no path, so a parent
//! may hold files that import it, as long as it does not use them. Tests are left out.

use std::collections::BTreeMap;

use super::{File, Finding, Tree};

/// The package whose files are checked.
const PACKAGE: &str = "engines";
/// The beginning of a file's tests.
const TESTS: &str = "#[cfg(test)]\nmod tests";

/// The names from the crate's root to a module; the root has none.
type Module<'t> = Vec<&'t str>;

/// Checks that no file of the engines imports itself through others.
pub(super) fn cycles(tree: &Tree) -> Vec<Finding> {
    let Some(package) = tree.packages.iter().find(|package| package.name == PACKAGE) else {
        return Vec::new();
    };
    let root = format!("{}/src/", package.dir);
    let files = tree.files.iter().filter_map(|file| Some((module(file, &root)?, file)));
    let files: BTreeMap<Module<'_>, &File> = files.collect();
    let graph: BTreeMap<_, _> =
        files.iter().map(|(module, file)| (module, imports(module, file, &files))).collect();
    let mut search = Search { graph: &graph, done: Vec::new(), way: Vec::new(), circle: None };
    files.keys().for_each(|module| search.visit(module));
    let finding = |circle: Vec<&Module<'_>>| {
        let names: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
        let what = format!(
            "expected files without a circle, found {}: move what both sides need into a file \
             below them",
            names.join(" -> ")
        );
        Finding::new(&files[circle[0]].path, 0, what)
    };
    search.circle.map(finding).into_iter().collect()
}

/// The module of a file below `root`, unless it holds tests.
fn module<'t>(file: &'t File, root: &str) -> Option<Module<'t>> {
    let names: Module<'t> = file.path.strip_prefix(root)?.strip_suffix(".rs")?.split('/').collect();
    match names[..] {
        ["lib"] => Some(Vec::new()),
        _ if names.contains(&"tests") => None,
        _ => Some(names),
    }
}

/// The modules that a file names.
fn imports<'t>(
    here: &Module<'t>,
    file: &'t File,
    files: &BTreeMap<Module<'t>, &File>,
) -> Vec<Module<'t>> {
    let code = file.code.split(TESTS).next().unwrap_or_default();
    let mut named = Vec::new();
    for path in paths(&tokens(code)) {
        let (mut module, rest) = match path[0] {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (here.clone(), &path[1..]),
            "super" => {
                let ups = path.iter().take_while(|name| **name == "super").count();
                (here[..here.len().saturating_sub(ups)].to_vec(), &path[ups..])
            }
            _ if path.len() > 1 && files.contains_key(&below(here, path[0])) => {
                (here.clone(), &path[..])
            }
            _ => continue,
        };
        for name in rest {
            let next = below(&module, name);
            if !files.contains_key(&next) {
                break;
            }
            module = next;
        }
        if module != *here && !named.contains(&module) {
            named.push(module);
        }
    }
    named
}

fn below<'t>(module: &[&'t str], name: &'t str) -> Module<'t> {
    [module, &[name]].concat()
}

/// A piece of code, as far as paths are concerned.
#[derive(Clone, Copy, PartialEq)]
enum Token<'t> {
    Name(&'t str),
    Colons,
    Other(char),
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_of_name = |it: char| it.is_alphanumeric() || it == '_';
        let len = rest.find(|it| !is_of_name(it)).unwrap_or(rest.len());
        let (token, len) = match first {
            _ if len > 0 => (Some(Token::Name(&rest[..len])), len),
            ':' if rest.starts_with("::") => (Some(Token::Colons), 2),
            _ if first.is_whitespace() => (None, first.len_utf8()),
            _ => (Some(Token::Other(first)), first.len_utf8()),
        };
        tokens.extend(token);
        rest = &rest[len..];
    }
    tokens
}

/// All paths, those of a group (`a::{b, c}`) one by one. The place of a visibility (`pub(super)`,
/// `pub(in crate::a)`) is no import.
fn paths<'t>(tokens: &[Token<'t>]) -> Vec<Vec<&'t str>> {
    let (mut paths, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|before| tokens[before]);
        let mut named = Vec::new();
        at = path(tokens, at, &[], &mut named);
        let is_whole = named.first().is_some_and(|names| names.len() == 1);
        let is_place =
            before == Some(Token::Name("in")) || (is_whole && before == Some(Token::Other('(')));
        if !is_place {
            paths.append(&mut named);
        }
    }
    paths
}

/// Reads a path after `before`; returns the place after it.
fn path<'t>(
    tokens: &[Token<'t>],
    mut at: usize,
    before: &[&'t str],
    paths: &mut Vec<Vec<&'t str>>,
) -> usize {
    let mut names = before.to_vec();
    while let Some(Token::Name(name)) = tokens.get(at) {
        names.push(name);
        at += 1;
        if tokens.get(at) != Some(&Token::Colons) {
            break;
        }
        at += 1;
        if tokens.get(at) == Some(&Token::Other('{')) {
            return group(tokens, at + 1, &names, paths);
        }
    }
    if names.len() > before.len() {
        paths.push(names);
        return at;
    }
    at + 1
}

/// Reads the paths of a group up to its end.
fn group<'t>(
    tokens: &[Token<'t>],
    mut at: usize,
    before: &[&'t str],
    paths: &mut Vec<Vec<&'t str>>,
) -> usize {
    while at < tokens.len() && tokens[at] != Token::Other('}') {
        at = path(tokens, at, before, paths);
    }
    at + 1
}

/// A search for a way back, depth first.
struct Search<'g, 't> {
    graph: &'g BTreeMap<&'g Module<'t>, Vec<Module<'t>>>,
    done: Vec<&'g Module<'t>>,
    way: Vec<&'g Module<'t>>,
    circle: Option<Vec<&'g Module<'t>>>,
}

impl<'g, 't> Search<'g, 't> {
    fn visit(&mut self, module: &'g Module<'t>) {
        if let Some(from) = self.way.iter().position(|known| *known == module) {
            self.circle.get_or_insert([&self.way[from..], &[module]].concat());
            return;
        }
        if self.done.contains(&module) || self.circle.is_some() {
            return;
        }
        self.way.push(module);
        let graph = self.graph;
        graph[module].iter().for_each(|next| self.visit(next));
        self.way.pop();
        self.done.push(module);
    }
}
