//! The dependencies between the top modules of a crate, read from its sources, and the cycles among them.
//!
//! A path that begins with `crate` or leaves its top module by `super` is an arrow from the module that contains it to
//! the one it names. A name that the crate's root re-exports counts as the module it comes from. Uses in tests only
//! (`#[cfg(test)]`) are no arrows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, UseTree};

/// Arrows between the top modules of one crate: from, to, and a file that has it.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// Crates whose modules still use each other in a cycle; one without cycles is removed here.
const TIED: &[&str] = &[];

/// Fails with every cycle in a crate that is not among [`TIED`], and for a crate that need not be.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for folder in crates()? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let circles = circles(&folder)?;
        match (TIED.contains(&name.as_str()), circles.is_empty()) {
            (true, true) => {
                wrong.push(format!("  {name} has no cycle any more: remove it from the list in xtask/src/modules.rs"))
            }
            (false, false) => wrong.extend(circles),
            _ => {}
        }
    }
    if !wrong.is_empty() {
        bail!("top modules that depend on each other in a cycle:\n{}", wrong.join("\n"));
    }
    Ok(())
}

/// Prints all cycles.
pub(crate) fn list() -> Result<()> {
    for folder in crates()? {
        circles(&folder)?.iter().for_each(|circle| println!("{circle}"));
    }
    Ok(())
}

fn crates() -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir("crates").context("list crates")?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.sort();
    Ok(folders)
}

fn circles(folder: &Path) -> Result<Vec<String>> {
    let arrows = arrows(&folder.join("src")).with_context(|| format!("read the modules of {}", folder.display()))?;
    Ok(cycles(&arrows).iter().map(|cycle| described(folder, &arrows, cycle)).collect())
}

/// Prints the modules that each top module of a crate uses.
pub(crate) fn print(name: &str) -> Result<()> {
    for (from, to) in arrows(&Path::new("crates").join(name).join("src"))? {
        println!("{from} -> {}", to.keys().cloned().collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

/// The arrows between the top modules below a crate's `src`.
pub(crate) fn arrows(source: &Path) -> Result<Arrows> {
    let root = ["lib.rs", "main.rs"]
        .iter()
        .map(|name| source.join(name))
        .find(|path| path.exists())
        .context("find lib.rs or main.rs")?;
    let mut house = House { exported: exported(&parsed(&root)?), arrows: Arrows::new() };
    let mut files = Vec::new();
    rust_files(source, &mut files)?;
    for file in files {
        let relative = file.strip_prefix(source).context("read a path below src")?;
        let mut path: Vec<String> =
            relative.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if path.last().is_some_and(|last| last == "mod") {
            path.pop();
        }
        let is_root = file == root || (path.len() == 1 && (path[0] == "main" || path[0] == "lib"));
        if is_root || path.iter().any(|part| part == "tests") {
            continue;
        }
        house.items(&parsed(&file)?.items, &path, relative);
    }
    Ok(house.arrows)
}

/// Groups of modules each of which reaches all others of its group; smallest first.
fn cycles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> = arrows.keys().map(|from| (from, reach(arrows, from))).collect();
    let mut groups = BTreeSet::new();
    for (from, all) in &reached {
        let group: BTreeSet<String> =
            all.iter().filter(|to| reached.get(to).is_some_and(|back| back.contains(*from))).cloned().collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

fn reach(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for to in arrows.get(&module).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    seen
}

fn described(folder: &Path, arrows: &Arrows, cycle: &BTreeSet<String>) -> String {
    let mut text = format!(
        "  {}: {} modules: {}",
        folder.display(),
        cycle.len(),
        cycle.iter().cloned().collect::<Vec<_>>().join(", ")
    );
    for from in cycle {
        for (to, file) in arrows[from].iter().filter(|(to, _)| cycle.contains(*to)) {
            text.push_str(&format!("\n    {from} -> {to} in src/{}", file.display()));
        }
    }
    text
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn parsed(file: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    syn::parse_file(&text).with_context(|| format!("parse {}", file.display()))
}

/// Names that the root re-exports, and the top module each comes from.
fn exported(root: &syn::File) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in &root.items {
        if let Item::Use(item) = item {
            leaves(&item.tree, &mut Vec::new(), &mut |path, name| {
                let path = path.strip_prefix(&["crate".to_owned()][..]).unwrap_or(path);
                if let Some(module) = path.first() {
                    names.insert(name.to_owned(), module.clone());
                }
            });
        }
    }
    names
}

/// Calls `found` with the path before each name of a use tree, and the name it gets here.
fn leaves(tree: &UseTree, path: &mut Vec<String>, found: &mut impl FnMut(&[String], &str)) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            leaves(&step.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) => found(path, &name.ident.to_string()),
        UseTree::Rename(name) => found(path, &name.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, found)),
        UseTree::Glob(_) => {}
    }
}

/// The arrows of one crate read so far.
struct House {
    exported: BTreeMap<String, String>,
    arrows: Arrows,
}

impl House {
    fn items(&mut self, items: &[Item], path: &[String], file: &Path) {
        for item in items {
            if is_for_tests(item) {
                continue;
            }
            match item {
                Item::Mod(inner) if inner.content.is_some() => {
                    let mut path = path.to_vec();
                    path.push(inner.ident.to_string());
                    let items = inner.content.as_ref().map_or(&[][..], |(_, items)| items);
                    self.items(items, &path, file);
                }
                _ => self.tokens(item.to_token_stream(), path, file),
            }
        }
    }

    /// Looks for `crate::NAME`, `crate::{…}` and `super::…` that leaves the top module.
    fn tokens(&mut self, tokens: TokenStream, path: &[String], file: &Path) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Group(group) => self.tokens(group.stream(), path, file),
                TokenTree::Ident(word) if word == "crate" => self.named(&trees[at + 1..], path, file),
                TokenTree::Ident(word) if word == "super" => self.above(&trees[at..], path, file),
                _ => {}
            }
        }
    }

    /// The path behind `super`, repeated as often as `path` is deep.
    fn above(&mut self, trees: &[TokenTree], path: &[String], file: &Path) {
        let mut depth = 0;
        while matches!(trees.get(depth * 3), Some(TokenTree::Ident(word)) if word == "super") {
            depth += 1;
        }
        if depth == path.len() {
            self.named(&trees[depth * 3 - 2..], path, file);
        }
    }

    /// The names behind `::`.
    fn named(&mut self, trees: &[TokenTree], path: &[String], file: &Path) {
        match trees.get(2) {
            Some(TokenTree::Ident(name)) => self.arrow(path, &name.to_string(), file),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let mut is_first = true;
                for tree in group.stream() {
                    match tree {
                        TokenTree::Ident(name) if is_first => {
                            self.arrow(path, &name.to_string(), file);
                            is_first = false;
                        }
                        TokenTree::Punct(mark) if mark.as_char() == ',' => is_first = true,
                        _ => is_first = false,
                    }
                }
            }
            _ => {}
        }
    }

    fn arrow(&mut self, path: &[String], name: &str, file: &Path) {
        let to = self.exported.get(name).map_or(name, String::as_str);
        if to != path[0] {
            self.arrows.entry(path[0].clone()).or_default().entry(to.to_owned()).or_insert_with(|| file.to_owned());
        }
    }
}

fn is_for_tests(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.meta.to_token_stream().to_string() == "cfg (test)"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_in_paths_groups_macros_and_reexports() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("lib.rs", "mod a; mod b; mod c; mod d; pub use c::{Thing, inner::Other as Renamed};");
        write("a.rs", "use crate::{b::{one, two}, d};");
        write("b.rs", "fn f() { println!(\"{}\", crate::Renamed); }\n#[cfg(test)] mod tests { use crate::nowhere; }");
        write("c/mod.rs", "mod inner; use inner::x; use super::d::y;");
        write("c/inner.rs", "use super::x; use super::super::a;");
        let arrows = arrows(folder.path()).unwrap();
        let uses = |from: &str| arrows[from].keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!((uses("a"), uses("b"), uses("c")), (vec!["b", "d"], vec!["c"], vec!["a", "d"]));
        let circles: Vec<Vec<String>> =
            cycles(&arrows).into_iter().map(|circle| circle.into_iter().collect()).collect();
        assert_eq!(circles, [["a", "b", "c"]]);
    }
}
