//! Equations (1) and (2): what each requester had of each object, and each object's own time.

use crate::events::{ANY, ObjectId};
use rustc_hash::FxHashMap;

/// Pairs and objects that are told apart; what comes after is counted for its class of objects.
const MOST_PAIRS: usize = 1 << 17;
const MOST_OBJECTS: usize = 1 << 16;
/// Objects of one interaction: those that come and go, such as streams, leave room for the others.
const MOST_OF_ONE: usize = 1 << 14;

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
    /// Objects by their interactions.
    of_interaction: FxHashMap<u16, usize>,
}

impl Usages {
    /// The object under which it is counted: itself, or all others of its class if there is no room.
    pub(crate) fn known(&mut self, interaction: u16, object: ObjectId) -> ObjectId {
        let further = ObjectId { class: object.class, number: ANY };
        if self.objects.contains_key(&(interaction, object)) {
            return object;
        }
        let own = self.of_interaction.entry(interaction).or_default();
        let has_room = self.objects.len() < MOST_OBJECTS && *own < MOST_OF_ONE;
        *own += usize::from(has_room);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_come_and_go_leave_room_for_others() {
        let mut usages = Usages::default();
        let object = |number: u64| ObjectId { class: 9, number };
        for number in 0..MOST_OF_ONE as u64 {
            assert_eq!(usages.known(1, object(number)), object(number));
        }
        assert_eq!((usages.known(1, object(1 << 40)), usages.left_out), (object(ANY), 1));
        assert_eq!((usages.known(1, object(7)), usages.known(2, object(1 << 40)).number), (object(7), 1 << 40));
        assert_eq!(usages.left_out, 1);
    }
}
