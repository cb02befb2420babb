//! Equations (1) and (2): what each requester had of each object, and each object's own time.

use crate::events::{ANY, ObjectId};
use rustc_hash::FxHashMap;

/// Pairs and objects that are told apart; what comes after is counted for its class of objects.
const MOST_PAIRS: usize = 1 << 17;
const MOST_OBJECTS: usize = 1 << 16;

/// What a requester had of an object, or what an object did in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Requests.
    pub requests: u64,
    /// Accepts.
    pub accepts: u64,
    /// Finishes.
    pub finishes: u64,
    /// Equation (1): the sum of finish less accept, nanoseconds.
    pub used_ns: u64,
    /// Equation (2): the sum of accept less request, nanoseconds.
    pub waited_ns: u64,
    /// The sum of finish less request, nanoseconds.
    pub responded_ns: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    pub(crate) pairs: FxHashMap<(u16, ObjectId, ObjectId), Usage>,
    pub(crate) objects: FxHashMap<(u16, ObjectId), Usage>,
    pub(crate) left_out: u64,
}

impl Usages {
    /// The object under which it is counted: itself, or all others of its class if there is no room.
    pub(crate) fn known(&mut self, interaction: u16, object: ObjectId) -> ObjectId {
        let further = ObjectId { class: object.class, number: ANY };
        let has_room = self.objects.len() < MOST_OBJECTS || self.objects.contains_key(&(interaction, object));
        self.left_out += u64::from(!has_room);
        let object = if has_room { object } else { further };
        self.objects.entry((interaction, object)).or_default();
        object
    }

    pub(crate) fn of(&mut self, interaction: u16, requester: ObjectId, object: ObjectId) -> &mut Usage {
        let key = (interaction, requester, object);
        let has_room = self.pairs.len() < MOST_PAIRS || self.pairs.contains_key(&key);
        self.left_out += u64::from(!has_room);
        let further = ObjectId { class: requester.class, number: ANY };
        self.pairs.entry(if has_room { key } else { (interaction, further, object) }).or_default()
    }

    pub(crate) fn own(&mut self, interaction: u16, object: ObjectId) -> &mut Usage {
        self.objects.entry((interaction, object)).or_default()
    }

    pub(crate) fn finish(&mut self, interaction: u16, requester: ObjectId, object: ObjectId, used_ns: u64) {
        let pair = self.of(interaction, requester, object);
        (pair.finishes, pair.used_ns) = (pair.finishes + 1, pair.used_ns.saturating_add(used_ns));
        let own = self.own(interaction, object);
        (own.finishes, own.used_ns) = (own.finishes + 1, own.used_ns.saturating_add(used_ns));
    }
}
