//! A node that gives all of its sessions away, because it is to end or to rest.

use super::gate::Open;
use super::node::Own;
use crate::cluster::control_socket::Told;
use anyhow::bail;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_cluster::{MoveError, NodeNumber};
use weir_keeper::Flow;

/// Sessions that move at a time.
const AT_A_TIME: usize = 16;
/// Looks that find no session before there is none.
const LOOKS: u32 = 2;
/// What could not move is tried again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// What has become of the sessions.
#[derive(Default)]
struct Tally {
    moved: AtomicU64,
    /// Why sessions did not move, and how many for that reason in the last round.
    reasons: Mutex<BTreeMap<String, u64>>,
}

impl Own {
    /// Has the director send new connections elsewhere, and moves those that are here until none is left or the time is
    /// over; also waits for responses that are made here for moved sessions, and for requests over HTTP/3.
    pub(super) fn drain(&self, to: Option<&str>, within: Duration) -> anyhow::Result<Told> {
        let begun = Instant::now();
        let targets = self.targets(to)?;
        self.drains.store(true, Ordering::Relaxed);
        self.director.drain(true)?;
        // Behind it: their next connections are to go elsewhere.
        self.gate.leave_http3(true)?;
        self.seen.drained(true);
        let (tally, mut empty_looks) = (Tally::default(), 0);
        loop {
            let open = self.gate.sessions()?;
            let open: Vec<Open> =
                open.into_iter().filter(|open| self.members.services.contains(&open.service)).collect();
            let is_late = begun.elapsed() >= within;
            empty_looks = if open.is_empty() { empty_looks + 1 } else { 0 };
            let (relays, http3) = (self.relays.under_way().0 as u64, self.gate.http3_under_way()?);
            // A connection may have been on its way when the director was told; and what is made here ends with the node, as
            // requests over HTTP/3 do.
            if open.is_empty() && (empty_looks < LOOKS || relays > 0 || http3 > 0) && !is_late {
                std::thread::sleep(PAUSE);
                continue;
            }
            if open.is_empty() || is_late {
                let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                let reasons = if open.is_empty() { BTreeMap::new() } else { tally.reasons() };
                let moved = tally.moved.load(Ordering::Relaxed);
                return Ok(Told::Drained { moved, left: open.len() as u64, relays, http3, took_ms, reasons });
            }
            let before = tally.moved.load(Ordering::Relaxed);
            *tally.reasons.lock().unwrap_or_else(PoisonError::into_inner) = BTreeMap::new();
            self.move_all(&open, &targets, &tally);
            if tally.moved.load(Ordering::Relaxed) - before < open.len() as u64 {
                std::thread::sleep(PAUSE.min(within.saturating_sub(begun.elapsed())));
            }
        }
    }

    fn targets(&self, to: Option<&str>) -> anyhow::Result<Vec<NodeNumber>> {
        if let Some(to) = to {
            let to = self.members.number(&to.parse()?)?;
            if to == self.number {
                bail!("the sessions are at this node; name another one");
            }
            return Ok(vec![to]);
        }
        let others = self.others();
        if others.is_empty() {
            bail!("the cluster has no other node; its sessions end here");
        }
        Ok(others)
    }

    /// The other nodes, those that sleep left out: all, where all others do.
    pub(super) fn others(&self) -> Vec<NodeNumber> {
        let asleep = self.ruling.asleep();
        let others = self.members.nodes.iter().filter(|(node, _)| **node != self.number);
        let (rest, awake): (Vec<_>, Vec<_>) =
            others.partition(|(_, (reached, _))| asleep.contains(reached.member.name.as_str()));
        let some = if awake.is_empty() { rest } else { awake };
        some.into_iter().map(|(node, _)| *node).collect()
    }

    /// Moves sessions of this node to the others, for a reserve node that is to sleep, and of these at most `most`; how
    /// many were there.
    pub(super) fn give_some_away(&self, most: usize) -> anyhow::Result<usize> {
        let open = self.gate.sessions()?;
        let open: Vec<Open> = open.into_iter().filter(|open| self.members.services.contains(&open.service)).collect();
        let others = self.others();
        if !others.is_empty() {
            self.move_all(&open[..open.len().min(most)], &others, &Tally::default());
        }
        Ok(open.len())
    }

    /// Moves each of these once, to the nodes in turn; one that cannot be reached leaves its sessions to the next.
    fn move_all(&self, open: &[Open], targets: &[NodeNumber], tally: &Tally) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME.min(open.len()) {
                scope.spawn(|| {
                    while let Some(one) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let first = usize::from(one.client.port()) % targets.len();
                        let (before, after) = targets.split_at(first);
                        self.move_to_first(one, after.iter().chain(before).copied(), tally);
                    }
                });
            }
        });
    }

    fn move_to_first(&self, one: &Open, targets: impl Iterator<Item = NodeNumber>, tally: &Tally) {
        let flow = Flow { client: one.client, service: one.service };
        for target in targets {
            match self.mover.give(&flow, target) {
                Ok(_) => {
                    tally.moved.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(error) => {
                    tally.count(&error);
                    if !matches!(error, MoveError::CameBack(_) | MoveError::Transport(_)) {
                        return;
                    }
                }
            }
        }
    }
}

impl Tally {
    fn count(&self, error: &MoveError) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        *reasons.entry(error.to_string()).or_default() += 1;
    }

    fn reasons(&self) -> BTreeMap<String, u64> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
