//! A session's replica, and the batches in which nodes give them to each other.

use super::position::{Place, Position};
use crate::fields::{FieldError, Reader, put_bytes};
use crate::record::MoveId;
use std::fmt;
use std::time::Duration;
use weir_keeper::{Birth, Flow, Seen, TcpState};
use zeroize::Zeroizing;

/// The version of batches.
const VERSION: u8 = 1;
/// Bytes of a replicated session.
pub const REPLICA_BYTES_MAX: usize = 64 << 10;
/// Replicas of a batch, and ends of others.
const BATCH_MAX: usize = 16 << 10;
/// By so much the timestamps of the node that goes on are ahead of those of the node that had the connection, so that the
/// client drops as old what that one still sends (PAWS; RFC 7323, section 5). It is far above what the time between the
/// two nodes can be mistaken by.
const AHEAD: Duration = Duration::from_secs(10);
/// What the client may send before the new node tells it more, bytes; within a window that is not scaled.
const RECEIVE_WINDOW: u32 = 65_535;

/// What both ends of a connection agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    /// Options of the handshake, as bits `TCPI_OPT_*` of `struct tcp_info`.
    pub options: u8,
    /// The client's window scale, bits.
    pub send_scale: u8,
    /// Our window scale, bits.
    pub receive_scale: u8,
    /// Largest segment, bytes.
    pub mss: u32,
    /// The clock of our timestamps; its lowest bit says whether it counts microseconds.
    pub timestamp: u32,
    /// The round trip, microseconds.
    pub round_trip_us: u32,
}

/// A session at another node, as it was some time ago, for this one to go on with if that one dies.
#[derive(Clone, PartialEq, Eq)]
pub struct Replica {
    /// Names it: the node that has the session is the giver.
    pub id: MoveId,
    /// The connection.
    pub flow: Flow,
    /// How far it had come.
    pub position: Position,
    /// What its ends agreed on.
    pub options: SocketOptions,
    /// The session, which only the server understands; zeroed when it is dropped.
    pub session: Zeroizing<Vec<u8>>,
}

/// What a node tells the one that keeps its replicas. A batch that is older than one that has come is not taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Names the start of the node: it grows from start to start.
    pub start: u64,
    /// The number of the batch since then.
    pub number: u64,
    /// Whether all replicas of earlier batches are to be forgotten.
    pub is_anew: bool,
    /// Connections whose replicated response is over.
    pub ended: Vec<Flow>,
    /// New replicas, in place of those of the same connections.
    pub replicas: Vec<Replica>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Replica");
        shown.field("id", &self.id).field("flow", &self.flow).field("position", &self.position).finish_non_exhaustive()
    }
}

impl Replica {
    /// Bytes of its encoding, or some more.
    pub fn encoded_bytes(&self) -> usize {
        256 + self.session.len()
    }

    /// The same replica as if it were made so much later: only the clock of timestamps has gone on.
    pub fn made_before(&self, since: Duration) -> Self {
        let timestamp = later(self.options.timestamp, since);
        Self { options: SocketOptions { timestamp, ..self.options }, ..self.clone() }
    }

    /// A replica of the session for where it goes on: by the state with which its socket was restored there.
    pub fn gone_on(&self, id: MoveId, birth: Option<Birth>, tcp: &TcpState) -> Self {
        let position = Position { birth: self.position.birth.or(birth), ..self.position };
        let options = SocketOptions { timestamp: tcp.timestamp, ..self.options };
        Self { id, position, options, ..self.clone() }
    }

    /// The connection as it goes on at a place, so long after the replica was made: nothing is on its way to the client.
    pub fn tcp_state(&self, place: Place, seen: &Seen, since: Duration) -> TcpState {
        let SocketOptions { options, send_scale, receive_scale, mss, timestamp, .. } = self.options;
        // RFC 7323, section 2.3: a scale is at most 14.
        let window = seen.window << send_scale.min(14);
        TcpState {
            local: self.flow.service,
            peer: self.flow.client,
            options,
            send_scale,
            receive_scale,
            mss,
            receive_next: place.receive_next,
            unread_bytes: 0,
            send_next: place.send_next,
            unacknowledged_bytes: 0,
            unsent_bytes: 0,
            window: [place.receive_next, window, window.max(1), RECEIVE_WINDOW, place.receive_next],
            timestamp: later(timestamp, since + AHEAD),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.flow.encode(out);
        self.position.put(out);
        let SocketOptions { options, send_scale, receive_scale, mss, timestamp, round_trip_us } = self.options;
        out.extend([options, send_scale, receive_scale]);
        [mss, timestamp, round_trip_us].iter().for_each(|number| out.extend(number.to_be_bytes()));
        put_bytes(&self.session, out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        let (id, flow, position) = (MoveId::take(reader)?, reader.flow()?, Position::take(reader)?);
        let [options, send_scale, receive_scale] = reader.array()?;
        let (mss, timestamp, round_trip_us) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let options = SocketOptions { options, send_scale, receive_scale, mss, timestamp, round_trip_us };
        let session = Zeroizing::new(reader.bytes("session", REPLICA_BYTES_MAX)?.to_vec());
        Ok(Self { id, flow, position, options, session })
    }
}

impl Batch {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend(self.start.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        out.push(u8::from(self.is_anew));
        out.extend((self.ended.len() as u32).to_be_bytes());
        self.ended.iter().for_each(|flow| flow.encode(out));
        out.extend((self.replicas.len() as u32).to_be_bytes());
        self.replicas.iter().for_each(|replica| replica.put(out));
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        reader.version("batch of replicas", VERSION)?;
        let (start, number, is_anew) = (reader.u64()?, reader.u64()?, reader.flag("anew")?);
        let count = take_count(reader)?;
        let ended = (0..count).map(|_| reader.flow()).collect::<Result<_, _>>()?;
        let count = take_count(reader)?;
        let replicas = (0..count).map(|_| Replica::take(reader)).collect::<Result<_, _>>()?;
        Ok(Self { start, number, is_anew, ended, replicas })
    }
}

/// The length of a list, within the bound of such lists.
pub(super) fn take_count(reader: &mut Reader<'_>) -> Result<usize, FieldError> {
    let count = reader.u32()? as usize;
    let what = "number of connections";
    if count > BATCH_MAX { Err(FieldError::Bound { what, bytes: count, max: BATCH_MAX }) } else { Ok(count) }
}

/// A clock of timestamps so long later, in its own unit.
fn later(timestamp: u32, since: Duration) -> u32 {
    let is_fine = timestamp & 1 == 1;
    let units = if is_fine { since.as_micros() } else { since.as_millis() };
    // The clock wraps; its lowest bit is no part of it.
    (timestamp.wrapping_add(units as u32) & !1) | u32::from(is_fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_timestamps_keeps_its_unit() {
        assert_eq!(later(1_000, Duration::from_millis(21)), 1_020);
        assert_eq!(later(1_001, Duration::from_millis(21)), 22_001);
        assert_eq!(later(u32::MAX - 1, Duration::from_millis(4)), 2);
    }
}
