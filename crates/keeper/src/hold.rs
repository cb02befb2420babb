//! The filter of a node: drops what comes in on connections that stand still, or that have just left.
//!
//! A hold ends by itself when its time is over, also if the process that began it is gone.

use crate::filter::{FilterError, Interface, now_ns, pass_messages_on, refusal, reuse};
use crate::flow::Flow;
use crate::flow_key;
use crate::repair::Heard;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use skeleton::HoldSkelBuilder;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/hold.skel.rs"));
}

/// The filter's handle at each interface.
const HANDLE: u32 = 1;

/// What came in on a connection while it was held, and was dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Packets.
    pub packets: u64,
    /// The client's newest acknowledgement among them.
    pub heard: Option<Heard>,
}

/// `struct hold` of `bpf/hold.bpf.c`.
const HOLD_BYTES: usize = 32;
/// In the map of renewals: the key of no connection, under which the newest epoch stands.
const EPOCH_KEY: [u8; flow_key::KEY_BYTES] = [0; flow_key::KEY_BYTES];

/// The filter at a node's interfaces, with the connections that it holds.
#[derive(Debug)]
pub struct HoldFilter {
    program: OwnedFd,
    holds: MapHandle,
    /// Until when holds last that were renewed.
    renewals: MapHandle,
    interfaces: Vec<Interface>,
}

impl HoldFilter {
    /// Attaches it to what comes in at these interfaces of the thread's network namespace. It stays there when the
    /// process ends; a successor takes over what it holds.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn attach(interfaces: &[String]) -> Result<Self, FilterError> {
        pass_messages_on();
        let interfaces: Vec<_> = interfaces.iter().map(|name| Interface::find(name)).collect::<Result<_, _>>()?;
        let old = interfaces.first().map(|first| first.maps(HANDLE)).unwrap_or_default();
        let mut object = MaybeUninit::uninit();
        let opening = |error: libbpf_rs::Error| refusal("loading the filter of held connections", &error);
        let mut open = HoldSkelBuilder::default().open(&mut object).map_err(opening)?;
        reuse(&mut open.maps.holds, &old)?;
        reuse(&mut open.maps.renewals, &old)?;
        let loaded = open.load().map_err(opening)?;
        let program = loaded.progs.hold.as_fd().try_clone_to_owned();
        let program = program.map_err(|error| opening(error.into()))?;
        let holds = MapHandle::try_from(&loaded.maps.holds).map_err(opening)?;
        let renewals = MapHandle::try_from(&loaded.maps.renewals).map_err(opening)?;
        for interface in &interfaces {
            interface.attach(program.as_fd(), HANDLE)?;
        }
        Ok(Self { program, holds, renewals, interfaces })
    }

    /// Drops what comes in on the connection from now on, for so long at most.
    ///
    /// # Errors
    /// [`FilterError`]; the table is full, or may not be changed.
    pub fn hold(&self, flow: &Flow, time: Duration) -> Result<(), FilterError> {
        let mut value = [0; HOLD_BYTES];
        value[..8].copy_from_slice(&until_ns(time).to_ne_bytes());
        let done = self.holds.update(&flow_key::key(flow), &value, MapFlags::ANY);
        done.map_err(|error| refusal("holding a connection", &error))
    }

    /// Has a hold last for so long from now on, without forgetting what it has heard.
    ///
    /// # Errors
    /// [`FilterError`]; the table is full, or may not be changed.
    pub fn renew(&self, flow: &Flow, time: Duration) -> Result<(), FilterError> {
        let done = self.renewals.update(&flow_key::key(flow), &until_ns(time).to_ne_bytes(), MapFlags::ANY);
        done.map_err(|error| refusal("holding a connection for longer", &error))
    }

    /// Lets what comes in on the connection pass again; what was dropped meanwhile.
    ///
    /// # Errors
    /// [`FilterError`]; the table may not be changed.
    pub fn release(&self, flow: &Flow) -> Result<Dropped, FilterError> {
        let value = self.holds.lookup_and_delete(&flow_key::key(flow));
        let value = value.map_err(|error| refusal("releasing a connection", &error))?;
        // Most are not renewed.
        self.renewals
            .lookup_and_delete(&flow_key::key(flow))
            .map_err(|error| refusal("releasing a connection", &error))?;
        Ok(value.as_deref().map(Dropped::read).unwrap_or_default())
    }

    /// What is held, and for how long yet: also what a predecessor has held.
    pub(crate) fn held(&self) -> Vec<(Flow, Duration)> {
        let now_ns = now_ns();
        let number = |map: &MapHandle, key: &[u8]| {
            let value = map.lookup(key, MapFlags::ANY).ok().flatten()?;
            value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
        };
        let until_ns = |key: &[u8]| number(&self.holds, key).max(number(&self.renewals, key));
        let held = |key: Vec<u8>| {
            let left_ns = until_ns(&key)?.checked_sub(now_ns)?;
            Some((flow_key::flow_of(&key)?, Duration::from_nanos(left_ns)))
        };
        self.holds.keys().filter_map(held).collect()
    }

    /// The newest epoch that was noted here, also by a predecessor; 0 without one.
    pub(crate) fn epoch(&self) -> u64 {
        let noted = self.renewals.lookup(&EPOCH_KEY, MapFlags::ANY).ok().flatten();
        noted.and_then(|bytes| bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))).unwrap_or(0)
    }

    /// Notes an epoch for a successor.
    ///
    /// # Errors
    /// [`FilterError`]; the table is full, or may not be changed.
    pub(crate) fn note_epoch(&self, epoch: u64) -> Result<(), FilterError> {
        let done = self.renewals.update(&EPOCH_KEY, &epoch.to_ne_bytes(), MapFlags::ANY);
        done.map_err(|error| refusal("noting the epoch", &error))
    }

    /// Checks that this process may still use the table, after it has dropped privileges.
    ///
    /// # Errors
    /// [`FilterError::NoPrivilege`].
    pub(crate) fn check(&self) -> Result<(), FilterError> {
        let none = self.holds.lookup(&[0; flow_key::KEY_BYTES], MapFlags::ANY);
        none.map(drop).map_err(|error| refusal("using the table of held connections", &error))
    }

    /// Takes it away from its interfaces; from within their network namespace.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn detach(self) -> Result<(), FilterError> {
        self.interfaces.iter().try_for_each(|interface| interface.detach(self.program.as_fd(), HANDLE))
    }
}

/// A time from now, as the filter has it.
fn until_ns(time: Duration) -> u64 {
    now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Dropped {
    fn read(value: &[u8]) -> Self {
        let number = |at: usize| {
            value.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        let (both, has_ack) = (number(16), number(24) != 0);
        let heard = Heard { ack: (both >> 32) as u32, window: both as u32 };
        Self { packets: number(8), heard: has_ack.then_some(heard) }
    }
}
