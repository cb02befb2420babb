//! Names lead somewhere, and stand once.

use super::level::scope;
use crate::language::mistake::{Findings, meant};
use crate::language::syntax::{ActKind, Atom, Metric, Name, Source, Target};
use crate::reading::Where;
use std::collections::{BTreeMap, BTreeSet};

/// Pools of a policy at most.
pub(crate) const POOLS_MAX: usize = 64;
/// Nodes of all pools at most.
pub(crate) const NODES_MAX: usize = 1024;
/// Variants of an atom at most.
pub(crate) const VARIANTS_MAX: usize = 64;
/// Bytes of the pattern of an atom at most.
const GLOB_BYTES_MAX: usize = 1024;

/// All names that a policy gives.
#[derive(Debug)]
pub(super) struct Known<'s> {
    pools: BTreeMap<&'s str, usize>,
    nodes: BTreeSet<&'s str>,
    /// Without pools, every name that stands for a node is one.
    has_pools: bool,
}

impl<'s> Known<'s> {
    pub(super) fn new(source: &'s Source, findings: &mut Findings<'_>) -> Self {
        let mut known = Self { pools: BTreeMap::new(), nodes: BTreeSet::new(), has_pools: !source.pools.is_empty() };
        for pool in &source.pools {
            if known.pools.insert(&pool.name.text, pool.nodes.len()).is_some() {
                findings.wrong(pool.name.at, format!("pool `{}` is there twice", pool.name.text), "leave one of them");
            }
            let mut here = BTreeSet::new();
            for node in &pool.nodes {
                if !here.insert(&*node.text) {
                    let what = format!("node `{}` is in pool `{}` twice", node.text, pool.name.text);
                    findings.wrong(node.at, what, "leave one of them");
                }
                known.nodes.insert(&node.text);
            }
        }
        for pool in &source.pools {
            if known.nodes.contains(&*pool.name.text) {
                let what = format!("`{}` is a pool and a node", pool.name.text);
                findings.wrong(pool.name.at, what, "give the pool another name");
            }
        }
        if known.pools.len() > POOLS_MAX || known.nodes.len() > NODES_MAX {
            let what = format!("more than {POOLS_MAX} pools or {NODES_MAX} nodes");
            findings.wrong(source.pools[0].name.at, what, "divide the policy");
        }
        if !known.has_pools {
            for atom in &source.atoms {
                for act in atom.rules.iter().flat_map(|rule| &rule.branches).flat_map(|branch| &branch.acts) {
                    known.nodes.extend(targets(&act.kind).filter_map(|target| match target {
                        Target::Node { node, .. } => Some(&*node.text),
                        Target::AnyOf(_) => None,
                    }));
                }
            }
        }
        known
    }

    /// The size of a pool; tells it if there is none of the name.
    pub(super) fn pool(&self, name: &Name, findings: &mut Findings<'_>) -> Option<usize> {
        let size = self.pools.get(&*name.text).copied();
        if size.is_none() {
            let otherwise = format!("declare it: pool {} = {{ … }};", name.text);
            let remedy = meant(&name.text, self.pools.keys().copied(), &otherwise);
            findings.wrong(name.at, format!("there is no pool `{}`", name.text), remedy);
        }
        size
    }

    fn node(&self, name: &Name, findings: &mut Findings<'_>) {
        if !self.nodes.contains(&*name.text) {
            let remedy = meant(&name.text, self.nodes.iter().copied(), "add it to the pool that it belongs to");
            findings.wrong(name.at, format!("no pool has a node `{}`", name.text), remedy);
        }
    }

    /// Looks at where a metric is measured.
    pub(super) fn metric(&self, metric: &Metric, at: usize, findings: &mut Findings<'_>) {
        let place = scope(metric);
        let known_scope = match &metric.scope {
            Some(name) if !crate::language::SCOPES.contains(&&*name.text) => {
                let known = self.pools.contains_key(&*name.text) || self.nodes.contains(&*name.text);
                if !known {
                    let names = self.pools.keys().chain(&self.nodes).copied().chain(crate::language::SCOPES);
                    let remedy = meant(&name.text, names, "write here, client, atom, all, a pool or a node");
                    findings.wrong(name.at, format!("`{}` is no pool and no node", name.text), remedy);
                }
                known
            }
            _ => true,
        };
        if known_scope && !metric.resource.is_measured(place) {
            let (name, of) = match place {
                Where::Node => ("nodes", "write @client"),
                Where::Atom => ("atoms", "write @here, @all, a pool or a node"),
                Where::Session | Where::Client if metric.resource.is_measured(Where::Atom) => {
                    ("clients", "write @here or @atom")
                }
                Where::Session | Where::Client => ("clients", "write @here, @all, a pool or a node"),
            };
            findings.wrong(at, format!("weir does not measure {} of {name}", metric.resource.name()), of);
        }
    }

    /// Looks at what a rule of an atom does.
    pub(super) fn act(&self, kind: &ActKind, at: usize, atom: &Atom, variants: &[Name], findings: &mut Findings<'_>) {
        for target in targets(kind) {
            match target {
                Target::Node { node, variant } => {
                    self.node(node, findings);
                    if let Some(name) = variant {
                        is_variant(name, atom, variants, findings);
                    }
                }
                Target::AnyOf(pool) => drop(self.pool(pool, findings)),
            }
        }
        match kind {
            ActKind::Use(name) => is_variant(name, atom, variants, findings),
            ActKind::NextDown | ActKind::NextUp if variants.len() < 2 => {
                let what =
                    format!("`{}` needs variants, and \"{}\" has none to choose from", kind.word(), atom.glob.text);
                findings.wrong(at, what, "write variants full > half; at the begin of the atom");
            }
            ActKind::Replicate { copies, pool } => {
                let size = self.pool(pool, findings);
                if let Some(size) = size.filter(|size| (*copies as usize) > *size) {
                    let what = format!("{copies} copies do not fit on pool `{}`, which has {size} nodes", pool.text);
                    findings.wrong(at, what, format!("write at most {size}"));
                }
            }
            ActKind::Grow { pool, by } | ActKind::Shrink { pool, by } => {
                let size = self.pool(pool, findings);
                if let Some(size) = size.filter(|size| (*by as usize) > *size) {
                    let what = format!("{} by {by} is more than pool `{}` has: {size} nodes", kind.word(), pool.text);
                    findings.wrong(at, what, format!("write at most {size}"));
                }
            }
            ActKind::Spread(pool) | ActKind::Workers { pool, .. } => drop(self.pool(pool, findings)),
            _ => {}
        }
    }
}

fn is_variant(name: &Name, atom: &Atom, variants: &[Name], findings: &mut Findings<'_>) {
    if !variants.contains(name) {
        let otherwise = match variants {
            [] => "write variants full > half; at the begin of the atom".to_owned(),
            _ => format!("it has {}", variants.iter().map(|name| &*name.text).collect::<Vec<_>>().join(", ")),
        };
        let remedy = meant(&name.text, variants.iter().map(|name| &*name.text), &otherwise);
        findings.wrong(name.at, format!("\"{}\" has no variant `{}`", atom.glob.text, name.text), remedy);
    }
}

/// The targets that something to be done names.
fn targets(kind: &ActKind) -> impl Iterator<Item = &Target> {
    let several: &[Target] = match kind {
        ActKind::Best { targets, .. } => targets,
        ActKind::Switch(target) => std::slice::from_ref(target),
        _ => &[],
    };
    several.iter()
}

/// The variants of each pattern: one of the atoms with the same pattern may say which there are.
#[derive(Debug)]
pub(crate) struct Variants<'s>(BTreeMap<&'s str, &'s [Name]>);

impl<'s> Variants<'s> {
    pub(crate) fn of_all(source: &'s Source) -> Self {
        let mut all = BTreeMap::new();
        for atom in source.atoms.iter().filter(|atom| !atom.variants.is_empty()) {
            all.entry(&*atom.glob.text).or_insert(&*atom.variants);
        }
        Self(all)
    }

    pub(crate) fn of(&self, glob: &str) -> &'s [Name] {
        self.0.get(glob).copied().unwrap_or_default()
    }
}

/// Looks at the patterns, and at names that stand twice for the same atoms.
pub(super) fn atoms(source: &Source, findings: &mut Findings<'_>) {
    let mut rules: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut with_variants: BTreeSet<&str> = BTreeSet::new();
    for atom in &source.atoms {
        let Name { text: glob, at } = &atom.glob;
        if !glob.starts_with('/') || glob.len() > GLOB_BYTES_MAX || glob.contains(['\n', '\0']) {
            let what = format!("{glob:?} fits no atom");
            findings.wrong(*at, what, format!("write a path that begins with `/`, of at most {GLOB_BYTES_MAX} bytes"));
        } else if glob.contains("***") {
            findings.wrong(*at, format!("{glob:?} has more than two stars in a row"), "write `*` or `**`");
        }
        if !atom.variants.is_empty() && !with_variants.insert(glob) {
            let what = format!("the variants of \"{glob}\" are said twice");
            findings.wrong(atom.variants[0].at, what, "leave one of them");
        }
        let mut own = BTreeSet::new();
        for variant in &atom.variants {
            if !own.insert(&variant.text) {
                findings.wrong(variant.at, format!("variant `{}` is there twice", variant.text), "leave one of them");
            }
        }
        if atom.variants.len() > VARIANTS_MAX {
            findings.wrong(atom.variants[0].at, format!("more than {VARIANTS_MAX} variants"), "leave some away");
        }
        for rule in &atom.rules {
            if !rules.insert((glob, &rule.name.text)) {
                let what = format!("\"{glob}\" has a rule `{}` already", rule.name.text);
                findings.wrong(rule.name.at, what, "choose another name");
            }
        }
    }
}
