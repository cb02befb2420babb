//! The modules of each crate import each other in one direction: none stands in a cycle; the rooms of the server and of
//! the load generator have an order.

use crate::architecture::{read, root, sources};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// A module by the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// The rooms of the server: each may import those before it.
const ROOMS: &[&str] = &[
    "error",
    "io",
    "counters",
    "http",
    "pages",
    "files",
    "media",
    "policy",
    "certificates",
    "telemetry",
    "exchange",
    "tls",
    "transport",
    "upstream",
    "site",
    "routing",
    "config",
    "process",
    "loop_state",
    "http1",
    "http2",
    "http3",
    "quic",
    "event_loop",
];

/// The rooms of the load generator: each may import those before it.
const ROOMS_OF_LOAD: &[&str] = &[
    "error",
    "carried",
    "heads",
    "requests",
    "checks",
    "schedule",
    "sessions",
    "workload",
    "counts",
    "streamed",
    "grpc",
    "directed",
    "reach",
    "observe",
    "slow",
    "options",
    "connect",
    "plan",
    "engine",
    "http1",
    "http2",
    "http3",
    "websocket",
    "tunneled",
    "report",
    "run",
    "reflected",
    "samples",
    "workers",
];

/// What a file names of its own crate.
#[derive(Default)]
struct Named {
    paths: Vec<Vec<String>>,
    /// Those that `pub use` shows on, by the name that they have there.
    shown: BTreeMap<String, Vec<String>>,
}

/// The modules of a crate, and what each imports.
struct Graph {
    imports: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn of(name: &str) -> Self {
        let folder = root().join("crates").join(name).join("src");
        let mut files = Vec::new();
        sources(&folder, &mut files);
        let mut texts = BTreeMap::new();
        for file in files {
            let below = file.strip_prefix(&folder).expect("below it").with_extension("");
            let mut module: Module = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let last = module.last().map(String::as_str);
            if module[0] == "bin" || last == Some("tests") {
                continue;
            }
            if module.len() == 1 && ["lib", "main"].contains(&module[0].as_str()) || last == Some("mod") {
                module.pop();
            }
            texts.insert(module, read(&file));
        }
        let modules: BTreeSet<Module> = texts.keys().cloned().collect();
        let named: BTreeMap<Module, Named> =
            texts.iter().map(|(module, text)| (module.clone(), names(text, module, &modules))).collect();
        let imports = named.iter().map(|(module, own)| {
            let targets = own.paths.iter().filter_map(|path| target(module, path, &named));
            (module.clone(), targets.filter(|target| target != module).collect())
        });
        Self { imports: imports.collect() }
    }

    /// Modules of which each imports the others, by way of some: sets of two and more.
    fn cycles(&self) -> Vec<BTreeSet<&Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            self.imports.keys().map(|module| (module, self.reach(module))).collect();
        let mut cycles: Vec<BTreeSet<&Module>> = Vec::new();
        for module in self.imports.keys().filter(|module| reach[module].contains(module)) {
            if !cycles.iter().any(|cycle| cycle.contains(module)) {
                cycles.push(reach[module].iter().copied().filter(|other| reach[other].contains(module)).collect());
            }
        }
        cycles
    }

    fn reach<'g>(&'g self, from: &Module) -> BTreeSet<&'g Module> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Module> = self.imports[from].iter().collect();
        while let Some(module) = open.pop() {
            if found.insert(module) {
                open.extend(self.imports.get(module).into_iter().flatten());
            }
        }
        found
    }
}

fn names(text: &str, module: &Module, modules: &BTreeSet<Module>) -> Named {
    let children = modules.iter().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
    let children: BTreeSet<&str> = children.filter_map(|child| child.last()).map(String::as_str).collect();
    let stream = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{module:?}: {error}"));
    let mut named = Named::default();
    collect(stream, &children, &mut named);
    named
}

/// Takes up the paths in some tokens, but for those of tests.
fn collect(stream: TokenStream, children: &BTreeSet<&str>, named: &mut Named) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let is_punct =
        |at: usize, sign: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign);
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let is_test = tokens.get(at + 1).is_some_and(|next| next.to_string().replace(' ', "") == "[cfg(test)]");
                at += 2;
                while is_test && at < tokens.len() {
                    let ends = is_punct(at, ';')
                        || matches!(&tokens[at], TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
                    at += 1;
                    if ends {
                        break;
                    }
                }
                continue;
            }
            TokenTree::Ident(word) if word == "use" => {
                let end = (at..tokens.len()).find(|end| is_punct(*end, ';')).unwrap_or(tokens.len());
                let is_shown = at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(word) if word == "pub")
                    || at > 1 && matches!(&tokens[at - 2], TokenTree::Ident(word) if word == "pub");
                for (path, name) in tree(&tokens[at + 1..end]) {
                    if is_shown {
                        named.shown.insert(name, path.clone());
                    }
                    named.paths.push(path);
                }
                at = end;
            }
            TokenTree::Ident(word)
                if is_punct(at + 1, ':')
                    && is_punct(at + 2, ':')
                    // `$crate` in a macro is a path to its crate's macros, and no import of the module that defines it.
                    && !(at > 0 && (is_punct(at - 1, ':') || is_punct(at - 1, '$'))) =>
            {
                let first = word.to_string();
                if ["crate", "self", "super"].contains(&first.as_str()) || children.contains(first.as_str()) {
                    let mut path = vec![first];
                    while is_punct(at + 1, ':') && is_punct(at + 2, ':') {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                        path.push(next.to_string());
                        at += 3;
                    }
                    named.paths.push(path);
                }
            }
            TokenTree::Group(group) => collect(group.stream(), children, named),
            _ => {}
        }
        at += 1;
    }
}

/// The paths of a tree of `use`, each with the name that it is used by.
fn tree(tokens: &[TokenTree]) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    for part in tokens.split(is_comma).filter(|part| !part.is_empty()) {
        let mut path: Vec<String> = Vec::new();
        let mut name = None;
        let mut is_group = false;
        for (at, token) in part.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    name = part.get(at + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    is_group = true;
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    found.extend(tree(&inner).into_iter().map(|(below, name)| ([path.clone(), below].concat(), name)));
                }
                _ => {}
            }
        }
        if !is_group {
            let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
            found.push((path, name));
        }
    }
    found
}

/// The module that a path leads to from a module, through what others show on; none outside of the crate.
fn target(from: &Module, path: &[String], named: &BTreeMap<Module, Named>) -> Option<Module> {
    let (mut module, mut rest) = step(from, path, named)?;
    for _ in 0..8 {
        let shown = rest.first().and_then(|name| named.get(&module)?.shown.get(name));
        let Some(next) = shown else { break };
        let (to, mut more) = step(&module, next, named)?;
        more.extend(rest.drain(1..));
        (module, rest) = (to, more);
    }
    named.contains_key(&module).then_some(module)
}

/// The module that the first names of a path lead to, and the names that are left.
fn step(from: &Module, path: &[String], named: &BTreeMap<Module, Named>) -> Option<(Module, Vec<String>)> {
    let mut rest = path;
    let mut module = from.clone();
    match path.first()?.as_str() {
        "crate" => (module, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                module.pop();
                rest = &rest[1..];
            }
        }
        name => {
            let child = [&module[..], &[name.to_owned()]].concat();
            named.contains_key(&child).then_some(())?;
        }
    }
    while let Some(name) = rest.first() {
        let child = [&module[..], std::slice::from_ref(name)].concat();
        if !named.contains_key(&child) {
            break;
        }
        (module, rest) = (child, &rest[1..]);
    }
    Some((module, rest.to_vec()))
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

#[test]
fn modules_import_each_other_in_one_direction() {
    let mut crates: Vec<String> = std::fs::read_dir(root().join("crates"))
        .expect("the crates")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| root().join("crates").join(name).join("src").is_dir())
        .collect();
    crates.sort();
    let mut wrong = Vec::new();
    for name in &crates {
        let graph = Graph::of(name);
        let cycles = graph.cycles();
        if !cycles.is_empty() {
            let of =
                |cycle: &BTreeSet<&Module>| cycle.iter().map(|module| shown(module)).collect::<Vec<_>>().join(", ");
            let cycles: Vec<String> = cycles.iter().map(of).collect();
            wrong.push(format!("{name}: {}", cycles.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "modules that import each other:\n{}", wrong.join("\n"));
}

#[test]
fn rooms_of_the_server_import_those_before_them() {
    assert_in_order("server", ROOMS);
}

#[test]
fn rooms_of_the_load_generator_import_those_before_them() {
    assert_in_order("load", ROOMS_OF_LOAD);
}

/// Fails where a room of a crate imports one that stands behind it.
fn assert_in_order(name: &str, order: &[&str]) {
    let graph = Graph::of(name);
    let place = |module: &Module| {
        let room = module.first().expect("a room");
        order
            .iter()
            .position(|name| name == room)
            .unwrap_or_else(|| panic!("the room {room} has no place in the order"))
    };
    let mut wrong = Vec::new();
    for (module, imports) in graph.imports.iter().filter(|(module, _)| !module.is_empty()) {
        // The root of the crate shows on what stands in its rooms, and a macro.
        for other in imports.iter().filter(|other| !other.is_empty() && place(other) > place(module)) {
            wrong.push(format!("{} imports {}, which stands above it", shown(module), shown(other)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let rooms: BTreeSet<&str> = graph.imports.keys().filter_map(|module| module.first()).map(String::as_str).collect();
    assert!(order.iter().all(|room| rooms.contains(room)), "a room that is no more");
}

#[test]
fn paths_of_a_tree_and_cycles_are_found() {
    let modules: BTreeSet<Module> = [vec![], vec!["a".to_owned()], vec!["b".to_owned()]].into();
    let text =
        "use crate::{a::{X, Y as Z}, b};\n#[cfg(test)]\nmod tests { use crate::c; }\nfn f() { a::g(super::h()); }";
    let named = names(text, &Vec::new(), &modules);
    let paths: Vec<String> = named.paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["crate::a::X", "crate::a::Y", "crate::b", "a::g", "super::h"]);
    let module = |name: &str| vec![name.to_owned()];
    let imports =
        [(module("a"), [module("b")].into()), (module("b"), [module("a")].into()), (module("c"), [module("a")].into())];
    let graph = Graph { imports: imports.into() };
    assert_eq!(graph.cycles(), [BTreeSet::from([&module("a"), &module("b")])]);
}
