//! The placement itself.
//!
//! First each content has its base copies, so many as no content may have fewer of: on the next nodes of a ring that
//! have room (consistent hashing with bounded loads, where the load is bytes and the bound a node's budget). Popularity
//! has no part in this, so that no content is ever on the way everywhere at once. Then what is popular has further
//! copies on the nodes that follow on the ring: each node takes the first of those in the order of work per byte, as
//! far as its budget goes and no further, so that a content that changes its place in the order drives out no more than
//! its own bytes and those of one other content.

use super::catalogue::Content;
use super::level::{RATE_MIN, rate_of};
use crate::name::NodeNumber;
use std::collections::{BTreeMap, HashSet};
use weir_plan::{Ring, TopOrder};

/// The ring of all clusters.
const SEED: u64 = 0x7765_6972;
/// Steps on the ring after which the emptiest node is taken.
const STEPS_MAX: usize = 512;
/// What a request costs beside its bytes, in bytes that the same time sends.
const REQUEST_BYTES: f64 = 16_384.0;

/// A living node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacementNode {
    /// Its number.
    pub number: NodeNumber,
    /// Bytes of content that it may keep; none = all there is.
    pub keeps_bytes: Option<u64>,
}

/// How content is placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacementSettings {
    /// Copies that each content has in any case, as far as there are nodes.
    pub copies_min: u32,
    /// Requests in a second for which content has one more copy.
    pub requests_per_copy_s: f64,
}

impl Default for PlacementSettings {
    fn default() -> Self {
        Self { copies_min: 2, requests_per_copy_s: 1.0 }
    }
}

/// What the placement is a function of.
#[derive(Debug, Clone, Copy)]
pub struct PlacementInputs<'i> {
    /// The epoch of the directors, which the result bears.
    pub epoch: u64,
    /// All contents, each once.
    pub contents: &'i [Content],
    /// The living nodes, each once.
    pub nodes: &'i [PlacementNode],
    /// How.
    pub settings: PlacementSettings,
}

/// A content with fewer copies than it should have in any case: the budgets are too small for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Its position among the contents.
    pub content: usize,
    /// Copies that it has.
    pub copies: u32,
    /// Copies that it should have.
    pub wanted: u32,
}

/// Which nodes keep which contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The epoch of its inputs.
    pub epoch: u64,
    /// For each content its nodes, those of the base copies first.
    nodes_of: Vec<Vec<NodeNumber>>,
    /// Bytes on each node.
    bytes_of: BTreeMap<NodeNumber, u64>,
    /// Contents with too few copies.
    pub short: Vec<Short>,
}

impl Placement {
    /// The nodes that keep the content at a position.
    #[must_use]
    pub fn nodes_of(&self, content: usize) -> &[NodeNumber] {
        self.nodes_of.get(content).map_or(&[], Vec::as_slice)
    }

    /// Whether a node keeps it.
    #[must_use]
    pub fn has(&self, content: usize, node: NodeNumber) -> bool {
        self.nodes_of(content).contains(&node)
    }

    /// Bytes that a node keeps.
    #[must_use]
    pub fn bytes_of(&self, node: NodeNumber) -> u64 {
        self.bytes_of.get(&node).copied().unwrap_or(0)
    }
}

/// Places all contents.
#[must_use]
pub fn place(inputs: &PlacementInputs<'_>) -> Placement {
    let mut placer = Placer::new(inputs);
    placer.place_everywhere();
    for is_current in [true, false] {
        placer.place_base(is_current);
    }
    placer.place_popular();
    placer.finish()
}

/// A node while content is placed.
struct Room {
    number: NodeNumber,
    /// None = for all there is.
    left: Option<u64>,
}

struct Placer<'i> {
    inputs: &'i PlacementInputs<'i>,
    ring: Ring,
    /// By the number of the node.
    rooms: Vec<Room>,
    nodes_of: Vec<Vec<NodeNumber>>,
    /// No node has more room than this.
    left_max: u64,
    short: Vec<Short>,
}

impl<'i> Placer<'i> {
    fn new(inputs: &'i PlacementInputs<'i>) -> Self {
        let mut rooms: Vec<Room> =
            inputs.nodes.iter().map(|node| Room { number: node.number, left: node.keeps_bytes }).collect();
        rooms.sort_unstable_by_key(|room| room.number);
        let bounded = inputs.nodes.iter().filter(|node| node.keeps_bytes.is_some());
        Self {
            inputs,
            ring: Ring::new(bounded.map(|node| node.number), SEED),
            rooms,
            nodes_of: vec![Vec::new(); inputs.contents.len()],
            left_max: u64::MAX,
            short: Vec::new(),
        }
    }

    /// Nodes without a budget have everything.
    fn place_everywhere(&mut self) {
        let all: Vec<NodeNumber> = self.rooms.iter().filter(|it| it.left.is_none()).map(|it| it.number).collect();
        if !all.is_empty() {
            self.nodes_of.iter_mut().for_each(|nodes| nodes.extend(&all));
        }
    }

    /// The base copies, and those that policies want: of all contents the first one before any has the second.
    fn place_base(&mut self, is_current: bool) {
        let contents = self.inputs.contents;
        let mut order: Vec<usize> = (0..contents.len()).filter(|at| contents[*at].is_current == is_current).collect();
        // The large ones first, while there is room for them.
        order.sort_unstable_by_key(|at| (std::cmp::Reverse(contents[*at].bytes), contents[*at].digest));
        let starts: Vec<usize> = order.iter().map(|at| self.ring.position(key_of(&contents[*at]))).collect();
        self.left_max = u64::MAX;
        for copy in 0..self.rooms.len() as u32 {
            let mut is_more = false;
            for (at, start) in order.iter().zip(&starts) {
                let has = self.nodes_of[*at].len() as u32;
                let wanted = self.base_of(&contents[*at]);
                if has > copy || copy >= wanted {
                    continue;
                }
                is_more |= wanted > copy + 1;
                if let Some(node) = self.find(*at, *start) {
                    self.give(*at, node);
                }
            }
            // The first two rounds are the usual ones; further ones are by wishes.
            if !is_more && copy + 1 >= self.inputs.settings.copies_min {
                break;
            }
        }
        for at in order {
            let (copies, wanted) = (self.nodes_of[at].len() as u32, self.base_of(&contents[at]));
            if copies < wanted {
                self.short.push(Short { content: at, copies, wanted });
            }
        }
    }

    /// Copies that a content has in any case.
    fn base_of(&self, content: &Content) -> u32 {
        let nodes = self.rooms.len() as u32;
        let wished = content.wish.as_ref().map_or(0, |wish| {
            let pool = self.rooms.iter().filter(|room| wish.pool.contains(&room.number)).count() as u32;
            if wish.pool.is_empty() { wish.count } else { wish.count.min(pool) }
        });
        wished.max(self.inputs.settings.copies_min).min(nodes)
    }

    /// The next node on the ring that has room and not yet this content, those of the wished pool before all others.
    fn find(&mut self, content: usize, start: usize) -> Option<usize> {
        let Content { bytes, wish, .. } = &self.inputs.contents[content];
        if *bytes > self.left_max {
            return None;
        }
        let has = &self.nodes_of[content];
        let in_pool = wish.as_ref().filter(|wish| !wish.pool.is_empty()).map(|wish| &wish.pool);
        let fits = |room: &Room| room.left.is_some_and(|left| left >= *bytes) && !has.contains(&room.number);
        let wished = in_pool.and_then(|pool| {
            // Pools are small; the ring says which of their nodes comes first.
            let mut nodes = self.ring.walk(start).filter(|node| pool.contains(node)).take(STEPS_MAX);
            nodes.find_map(|node| self.place_of(node).filter(|at| fits(&self.rooms[*at])))
        });
        let next = wished.or_else(|| {
            let mut nodes = self.ring.walk(start).take(STEPS_MAX);
            nodes.find_map(|node| self.place_of(node).filter(|at| fits(&self.rooms[*at])))
        });
        if next.is_some() {
            return next;
        }
        let emptiest = (0..self.rooms.len()).filter(|at| fits(&self.rooms[*at])).max_by_key(|at| self.rooms[*at].left);
        if emptiest.is_none() {
            self.left_max = self.rooms.iter().filter_map(|room| room.left).max().unwrap_or(0);
        }
        emptiest
    }

    fn place_of(&self, node: NodeNumber) -> Option<usize> {
        self.rooms.binary_search_by_key(&node, |room| room.number).ok()
    }

    fn give(&mut self, content: usize, room: usize) {
        let room = &mut self.rooms[room];
        if let Some(left) = &mut room.left {
            *left = left.saturating_sub(self.inputs.contents[content].bytes);
        }
        self.nodes_of[content].push(room.number);
    }

    /// Further copies of what is popular.
    fn place_popular(&mut self) {
        let contents = self.inputs.contents;
        let mut wanted: BTreeMap<usize, Vec<(f64, usize)>> = BTreeMap::new();
        for (at, content) in contents.iter().enumerate().filter(|(_, content)| content.level > 0) {
            let value = value_of(content);
            for room in self.followers(at, self.copies_of(content)) {
                wanted.entry(room).or_default().push((value, at));
            }
        }
        for (room, mut list) in wanted {
            list.sort_unstable_by(|one, other| {
                other.0.total_cmp(&one.0).then_with(|| contents[one.1].digest.cmp(&contents[other.1].digest))
            });
            for (_, at) in list {
                if self.rooms[room].left.is_none_or(|left| left < contents[at].bytes) {
                    break;
                }
                self.give(at, room);
            }
        }
    }

    /// Copies that popularity gives a content, the base ones included.
    fn copies_of(&self, content: &Content) -> usize {
        let more = rate_of(content.level) / self.inputs.settings.requests_per_copy_s.max(RATE_MIN);
        (self.base_of(content) as usize).saturating_add(more as usize).min(self.rooms.len())
    }

    /// The nodes that follow those of a content on the ring, until there are so many copies.
    fn followers(&self, content: usize, copies: usize) -> Vec<usize> {
        let has: HashSet<NodeNumber> = self.nodes_of[content].iter().copied().collect();
        let more = copies.saturating_sub(has.len());
        let is_free = |room: &Room| room.left.is_some() && !has.contains(&room.number);
        if more == 0 {
            return Vec::new();
        }
        if copies >= self.rooms.len() {
            // A walk until all have come would be long.
            return (0..self.rooms.len()).filter(|at| is_free(&self.rooms[*at])).collect();
        }
        let (mut found, mut seen) = (Vec::with_capacity(more), has.clone());
        let start = self.ring.position(key_of(&self.inputs.contents[content]));
        for node in self.ring.walk(start) {
            if found.len() == more {
                break;
            }
            if seen.insert(node) {
                found.extend(self.place_of(node));
            }
        }
        found
    }

    fn finish(self) -> Placement {
        let mut bytes_of: BTreeMap<NodeNumber, u64> = self.rooms.iter().map(|room| (room.number, 0)).collect();
        for (nodes, content) in self.nodes_of.iter().zip(self.inputs.contents) {
            for node in nodes {
                *bytes_of.entry(*node).or_default() += content.bytes;
            }
        }
        Placement { epoch: self.inputs.epoch, nodes_of: self.nodes_of, bytes_of, short: self.short }
    }
}

/// Where the search for a content begins.
fn key_of(content: &Content) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = content.digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// What one more copy is worth for each byte of it, as `weir plan` orders what is to be on several nodes.
fn value_of(content: &Content) -> f64 {
    let requests = rate_of(content.level);
    TopOrder::WorkPerByte.value(requests, requests * (REQUEST_BYTES + content.bytes as f64), content.bytes)
}
