//! The modules of one crate, and the files whose items each file uses.
//!
//! Files are read as tokens, macros included. A name that a module re-exports (`pub use`) is
//! resolved to the file that defines it. Code that is compiled only for tests does not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Keywords that precede the name of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
/// Maximum length of a chain of re-exports.
const DEEPEST: usize = 16;

#[derive(Default)]
struct Module {
    parent: Option<usize>,
    file: usize,
    children: BTreeMap<String, usize>,
    /// Paths to which `use` assigns a name.
    bound: BTreeMap<String, Vec<String>>,
    /// Paths of glob imports.
    globs: Vec<Vec<String>>,
    items: BTreeSet<String>,
    /// Every path of two or more names, and every path of a `use`.
    paths: BTreeSet<Vec<String>>,
}

/// The modules of a crate; the first is its root.
#[derive(Default)]
pub(crate) struct Source {
    modules: Vec<Module>,
    /// Files by number, relative to the folder of the root.
    files: Vec<String>,
    folder: PathBuf,
}

/// A file's use of an item of another file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Top-level modules of both files.
    pub(crate) modules: (String, String),
    /// The path of the item.
    pub(crate) path: String,
}

impl Source {
    /// Reads a crate from its root file, for example `src/lib.rs`.
    pub(crate) fn read(root: &Path) -> Self {
        let folder = root.parent().unwrap().to_owned();
        let mut source = Self {
            folder: folder.clone(),
            ..Self::default()
        };
        source.file(None, root, &folder);
        source
    }

    fn file(&mut self, parent: Option<usize>, path: &Path, below: &Path) -> usize {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let tokens: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let shown = path.strip_prefix(&self.folder).unwrap_or(path);
        self.files.push(shown.to_str().unwrap().to_owned());
        let module = self.module(parent, self.files.len() - 1);
        self.items(module, tokens, path, below);
        module
    }

    fn module(&mut self, parent: Option<usize>, file: usize) -> usize {
        self.modules.push(Module {
            parent,
            file,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    /// Reads the items of a module. `path` is its file; `below` is the folder of its child modules.
    fn items(&mut self, module: usize, tokens: TokenStream, path: &Path, below: &Path) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut i, mut given_path, mut test) = (0, None, false);
        while i < tokens.len() {
            if let (Some('#'), Some(TokenTree::Group(group))) = (punct(&tokens, i), tokens.get(i + 1)) {
                let attribute = group.stream().to_string().replace(' ', "");
                test |= attribute.starts_with("cfg(") && attribute.contains("test");
                if let Some(value) = attribute.strip_prefix("path=") {
                    given_path = Some(value.trim_matches('"').to_owned());
                }
                i += 2;
                continue;
            }
            if test {
                i = after_item(&tokens, i);
                (test, given_path) = (false, None);
                continue;
            }
            match &tokens[i] {
                TokenTree::Group(group) => {
                    self.items(module, group.stream(), path, below);
                    i += 1;
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    let next = ident(&tokens, i + 1);
                    match (word.as_str(), next) {
                        ("mod", Some(name)) => {
                            self.child(module, &name, tokens.get(i + 2), given_path.take(), (path, below));
                            i += 3;
                        }
                        ("use", _) => {
                            let end = (i..tokens.len()).find(|at| punct(&tokens, *at) == Some(';'));
                            let end = end.unwrap_or(tokens.len());
                            self.tree(module, &tokens[i + 1..end], &[]);
                            i = end;
                        }
                        (keyword, Some(name)) if ITEMS.contains(&keyword) => {
                            self.modules[module].items.insert(name);
                            i += 2;
                        }
                        _ => {
                            let (names, end) = path_at(&tokens, i);
                            if names.len() > 1 {
                                self.modules[module].paths.insert(names);
                            }
                            i = end;
                        }
                    }
                }
                _ => i += 1,
            }
        }
    }

    /// A `mod`: in its own file or inline.
    fn child(
        &mut self,
        parent: usize,
        name: &str,
        body: Option<&TokenTree>,
        given: Option<String>,
        (path, below): (&Path, &Path),
    ) {
        let own = below.join(name);
        let child = match body {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let child = self.module(Some(parent), self.modules[parent].file);
                self.items(child, group.stream(), path, &own);
                child
            }
            _ => {
                let given = given.map(|given| path.parent().unwrap().join(given));
                let beside = own.with_extension("rs");
                let file = given.unwrap_or_else(|| if beside.is_file() { beside } else { own.join("mod.rs") });
                self.file(Some(parent), &file, &own)
            }
        };
        self.modules[parent].children.insert(name.to_owned(), child);
    }

    /// One branch of a `use`, below the names before it.
    fn tree(&mut self, module: usize, tokens: &[TokenTree], before: &[String]) {
        let (mut names, mut alias) = (before.to_vec(), None);
        let mut i = 0;
        while i < tokens.len() {
            match &tokens[i] {
                TokenTree::Ident(word) if *word == "as" => {
                    alias = ident(tokens, i + 1);
                    i += 1;
                }
                TokenTree::Ident(word) => names.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in inner.split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ',')) {
                        if !branch.is_empty() {
                            self.tree(module, branch, &names);
                        }
                    }
                    return;
                }
                TokenTree::Punct(p) if p.as_char() == '*' => {
                    self.modules[module].globs.push(names.clone());
                    self.modules[module].paths.insert(names);
                    return;
                }
                _ => {}
            }
            i += 1;
        }
        if names.len() > 1 && names.last().is_some_and(|last| last == "self") {
            names.pop();
        }
        if let Some(last) = names.last().cloned() {
            self.modules[module].bound.insert(alias.unwrap_or(last), names.clone());
            self.modules[module].paths.insert(names);
        }
    }

    /// The module that defines the target of a path, as seen from a module; `None` for other
    /// crates.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent?,
            name => self.step(from, name, depth)?,
        };
        for name in rest {
            let next = match name.as_str() {
                "super" => self.modules[at].parent,
                name => self.step(at, name, depth),
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        Some(at)
    }

    /// The target of a name in a module; `None` if it is an item of that module, or of another
    /// crate.
    fn step(&self, at: usize, name: &str, depth: usize) -> Option<usize> {
        let module = &self.modules[at];
        if depth > DEEPEST || module.items.contains(name) {
            return module.children.get(name).copied();
        }
        if let Some(child) = module.children.get(name) {
            return Some(*child);
        }
        if let Some(path) = module.bound.get(name) {
            // `use x::x`: the first name of the path is not the name that is being resolved.
            let own = path.first().is_some_and(|first| first == name);
            return if own { None } else { self.resolve(at, path, depth + 1) };
        }
        module.globs.iter().find_map(|glob| {
            let from = self.resolve(at, glob, depth + 1).filter(|from| *from != at)?;
            if self.modules[from].items.contains(name) {
                return Some(from);
            }
            self.step(from, name, depth + 1)
        })
    }

    fn is_below(&self, module: usize, other: usize) -> bool {
        let mut at = Some(module);
        while let Some(here) = at {
            if here == other {
                return true;
            }
            at = self.modules[here].parent;
        }
        false
    }

    /// The top-level module that contains a module.
    fn top(&self, mut module: usize) -> String {
        while let Some(parent) = self.modules[module].parent.filter(|parent| *parent != 0) {
            module = parent;
        }
        let own = |(_, child): &(&String, &usize)| **child == module;
        let named = self.modules[0].children.iter().find(own);
        named.map_or_else(|| "the root".to_owned(), |(name, _)| name.clone())
    }

    /// All uses of one file by another. A module and its child modules count as one: uses between
    /// them are ignored.
    pub(crate) fn uses(&self) -> BTreeSet<Use> {
        let mut all = BTreeSet::new();
        for (from, module) in self.modules.iter().enumerate() {
            for path in &module.paths {
                let Some(to) = self.resolve(from, path, 0) else {
                    continue;
                };
                if self.is_below(from, to) || self.is_below(to, from) {
                    continue;
                }
                all.insert(Use {
                    from: self.files[module.file].clone(),
                    to: self.files[self.modules[to].file].clone(),
                    modules: (self.top(from), self.top(to)),
                    path: path.join("::"),
                });
            }
        }
        all
    }
}

fn punct(tokens: &[TokenTree], at: usize) -> Option<char> {
    match tokens.get(at) {
        Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
        _ => None,
    }
}

fn ident(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// The names of a path that starts at a token, and the index after them.
fn path_at(tokens: &[TokenTree], start: usize) -> (Vec<String>, usize) {
    let mut names: Vec<String> = ident(tokens, start).into_iter().collect();
    let mut at = start + 1;
    while (punct(tokens, at), punct(tokens, at + 1)) == (Some(':'), Some(':')) {
        let Some(name) = ident(tokens, at + 2) else {
            break;
        };
        names.push(name);
        at += 3;
    }
    (names, at)
}

/// The index after an item: after its braces or its semicolon.
fn after_item(tokens: &[TokenTree], start: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    let braces_or_semicolon = tokens[start..].iter().position(ends);
    braces_or_semicolon.map_or(tokens.len(), |found| start + found + 1)
}
