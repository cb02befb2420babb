//! Objects, and each interaction between them.

use crate::cell::{since, text, whole};
use crate::hosts::Hosts;
use crate::names::name_of;
use crate::writer::TableWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_objects::{Framework, Occurrence, Table};
use weir_trace::Sourced;

/// Names that are remembered between rows.
const MOST_NAMED: usize = 1 << 16;

/// Fills the tables of [`crate::schema::Group::Objects`].
pub(crate) struct Objects<'c> {
    framework: Framework,
    rows: Rows<'c>,
    objects: TableWriter<'c>,
    /// Interactions that are not written yet.
    told: Vec<Occurrence>,
}

struct Rows<'c> {
    interactions: TableWriter<'c>,
    /// Names and patterns of the table's interactions, by their places in it.
    kinds: Vec<(String, &'static str)>,
    /// Classes and names of objects, as long as no name changes.
    words: FxHashMap<weir_objects::ObjectId, (String, String)>,
    hosts: Arc<Hosts>,
    /// Of objects whose numbers do not tell it: the host whose records told of them.
    told_by: FxHashMap<weir_objects::ObjectId, u32>,
    /// The host of the record that is taken.
    host: Option<u32>,
    names_told: u64,
    origin_ns: u64,
}

impl<'c> Objects<'c> {
    /// Makes the tables by these rules.
    pub(crate) fn new(connection: &'c Connection, origin_ns: u64, hosts: &Arc<Hosts>, table: Table) -> Result<Self> {
        let kinds = table.interactions().iter().map(|one| (one.name.clone(), one.pattern.word())).collect();
        let interactions = TableWriter::new(connection, "interactions")?;
        Ok(Self {
            framework: Framework::with_occurrences(table),
            rows: Rows {
                interactions,
                kinds,
                words: FxHashMap::default(),
                hosts: Arc::clone(hosts),
                told_by: FxHashMap::default(),
                host: None,
                names_told: 0,
                origin_ns,
            },
            objects: TableWriter::new(connection, "objects")?,
            told: Vec::new(),
        })
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, sourced: &Sourced<'_>) -> Result<()> {
        self.rows.host = self.rows.hosts.of_record(sourced);
        self.framework.push(&sourced.record, sourced.payload, name_of(sourced).map(|name| &**name));
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        self.framework.take_occurrences(&mut self.told);
        self.told.iter().try_for_each(|one| self.rows.push(&self.framework, one))
    }

    /// Tells of what is still under way, and of the objects.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.framework.pause();
        self.rows.host = self.rows.hosts.only();
        self.tell()?;
        let Self { framework, rows: Rows { kinds, hosts, told_by, .. }, mut objects, .. } = self;
        let pattern_of = |interaction: &str| kinds.iter().find(|(name, _)| name == interaction).map_or("", |one| one.1);
        for object in framework.finish().objects {
            objects.push([
                text(&object.interaction),
                text(pattern_of(&object.interaction)),
                text(&object.class),
                number(object.id),
                text(&object.name),
                whole(object.accepts),
                object.used_ns.map_or(ValueRef::Null, whole),
                object.waited_ns.map_or(ValueRef::Null, whole),
                hosts.name(
                    hosts
                        .only()
                        .or_else(|| hosts.of_object(&object.class, object.id))
                        .or_else(|| told_by.get(&object.id).copied()),
                ),
            ])?;
        }
        Ok(())
    }
}

impl Rows<'_> {
    fn push(&mut self, framework: &Framework, one: &Occurrence) -> Result<()> {
        let Self { interactions, kinds, words, hosts, told_by, host, names_told, origin_ns } = self;
        if *names_told != framework.names_told() || words.len() >= MOST_NAMED {
            words.clear();
            *names_told = framework.names_told();
        }
        for object in [one.requester, one.object] {
            words.entry(object).or_insert_with(|| {
                let (class, name) = framework.object_words(object);
                (class.to_owned(), name)
            });
        }
        let (requester, object) = (&words[&one.requester], &words[&one.object]);
        let mut at_host = hosts.only().or_else(|| hosts.of_object(&object.0, one.object));
        if at_host.is_none() {
            at_host = told_by.get(&one.object).copied().or(*host);
            if let Some(told) = at_host
                && told_by.len() < MOST_NAMED
            {
                told_by.insert(one.object, told);
            }
        }
        let (name, pattern) = kinds.get(usize::from(one.interaction)).map_or(("", ""), |(name, of)| (name, of));
        let at = |ns: Option<u64>| ns.map_or(ValueRef::Null, |ns| ValueRef::Integer(since(ns, *origin_ns)));
        interactions.push([
            at(Some(one.first_ns())),
            text(name),
            text(pattern),
            text(&requester.0),
            number(one.requester),
            text(&requester.1),
            text(&object.0),
            number(one.object),
            text(&object.1),
            at(one.requested_ns),
            at(one.accepted_ns),
            at(one.finished_ns),
            one.waited_ns().map_or(ValueRef::Null, whole),
            one.used_ns().map_or(ValueRef::Null, whole),
            hosts.name(at_host),
        ])
    }
}

/// An object's number; keys of which each bit counts have a sign in SQL.
fn number(object: weir_objects::ObjectId) -> ValueRef<'static> {
    object.number().map_or(ValueRef::Null, |number| ValueRef::Integer(number.cast_signed()))
}
