//! The connections of a loop, each under a token that is never given to another one.

use crate::event_loop::client::Client;

/// Connections by token.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
    count: usize,
}

#[derive(Debug)]
struct Slot {
    /// Moves on with each occupant, so that an event for a former one finds no connection.
    generation: u32,
    connection: Option<Client>,
}

impl Slab {
    pub(crate) fn insert(&mut self, connection: Client) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, connection: None });
            // The bound on connections is far below this type's.
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.connection = Some(connection);
        self.count += 1;
        token(index, slot.generation)
    }

    pub(crate) fn get(&mut self, token: u64) -> Option<&mut Client> {
        self.slot(token)?.connection.as_mut()
    }

    /// Drops a connection.
    pub(crate) fn discard(&mut self, token: u64) {
        let Some(slot) = self.slot(token) else { return };
        if slot.connection.is_some() {
            slot.connection = None;
            // The lower half is the index.
            self.free.push(token as u32);
            self.count -= 1;
        }
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<Client> {
        let connection = self.slot(token)?.connection.take()?;
        // The lower half is the index.
        self.free.push(token as u32);
        self.count -= 1;
        Some(connection)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// What is found of connections, with the token of each.
    pub(crate) fn each<T>(&self, what: impl Fn(&Client) -> Option<T>) -> Vec<(T, u64)> {
        let with_index = self.slots.iter().enumerate();
        let found = |(index, slot): (usize, &Slot)| {
            Some((what(slot.connection.as_ref()?)?, token(index as u32, slot.generation)))
        };
        with_index.filter_map(found).collect()
    }

    /// The tokens of the connections that `wanted` says yes to.
    pub(crate) fn tokens(&self, wanted: impl Fn(&Client) -> bool) -> Vec<u64> {
        let with_index = self.slots.iter().enumerate();
        with_index
            .filter(|(_, slot)| slot.connection.as_ref().is_some_and(&wanted))
            .map(|(index, slot)| token(index as u32, slot.generation))
            .collect()
    }

    /// All connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.slots.iter().filter_map(|slot| slot.connection.as_ref())
    }

    /// The same to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut())
    }

    fn slot(&mut self, token: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        (u64::from(slot.generation) == token >> 32).then_some(slot)
    }
}

fn token(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}
