//! Which readings a rule sees.

use super::subjects::{Atom, Client, Session, Slots};
use crate::reading::ClientId;
use std::collections::BTreeMap;

/// The readings that a rule sees as those of its atom, its session and its client.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) atom: Option<(u32, Slots)>,
    pub(crate) session: Option<Slots>,
    pub(crate) client: Option<Slots>,
}

impl Seen {
    pub(crate) fn atom(number: usize, atom: &Atom) -> Self {
        Self { atom: Some((number as u32, atom.slots)), ..Self::default() }
    }

    pub(crate) fn session(session: &Session, atoms: &[Atom], clients: &BTreeMap<u64, Client>) -> Self {
        let atom = (session.atom.0, atoms[session.atom.0 as usize].slots);
        // It may have been forgotten meanwhile, with its readings.
        let client = session.client.and_then(|ClientId(number)| clients.get(&number));
        Self { atom: Some(atom), session: Some(session.slots), client: client.map(|client| client.slots) }
    }

    pub(crate) fn client(client: &Client) -> Self {
        Self { client: Some(client.slots), ..Self::default() }
    }
}
