//! Where a replicated response stands in the connection's sequence numbers, and where another node goes on with it.

use crate::fields::{FieldError, Reader};
use weir_keeper::{Birth, Seen};

/// How far a connection had come when it was copied. Bytes are counted from the connection's birth on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The connection's birth, where its node has restored it; the director knows it otherwise.
    pub birth: Option<Birth>,
    /// Bytes that were given to the kernel.
    pub written: u64,
    /// Of these, bytes that the client had acknowledged.
    pub acknowledged: u64,
    /// Bytes that had come of the client.
    pub received: u64,
    /// Bytes of the response under way among those written, also before the connection's birth at its node.
    pub offset: u64,
    /// All bytes of that response.
    pub response_bytes: u64,
}

/// Where another node goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The sequence number of the next byte to the client: its newest acknowledgement.
    pub send_next: u32,
    /// The sequence number of its next byte.
    pub receive_next: u32,
    /// The next byte of the response.
    pub offset: u64,
}

/// Why another node cannot go on with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Unfit {
    /// The numbers of its beginning are not known.
    #[error("the director has not seen how the connection began; it ends with its node")]
    NoBeginning = 1,
    /// The client has said nothing.
    #[error("the director has seen nothing of the client; the connection ends with its node")]
    NotSeen = 2,
    /// The client has sent more since.
    #[error("the client has sent more, which its node may have acknowledged; the connection ends with its node")]
    ClientSent = 3,
    /// Its acknowledgement is older than what its node knew.
    #[error("the numbers of the connection contradict each other; it ends with its node")]
    Contradiction = 4,
    /// It has not acknowledged what came before the response.
    #[error("bytes before the response are not acknowledged; the connection ends with its node")]
    Earlier = 5,
    /// It has all of the response.
    #[error("the client has all of the response; its next request comes over another connection")]
    Over = 6,
}

impl Position {
    /// Where another node goes on, by what the director knows of the connection.
    ///
    /// A position that is out of date never leads to a place: the response that it speaks of has come to its end then
    /// (`Over`), and the next one was asked for by bytes that it does not know of (`ClientSent`).
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn place(&self, first: Option<Birth>, seen: Option<&Seen>) -> Result<Place, Unfit> {
        let birth = self.birth.or(first).ok_or(Unfit::NoBeginning)?;
        let seen = seen.ok_or(Unfit::NotSeen)?;
        // Sequence numbers are the lower halves of counts.
        let number = |of: u32, count: u64| of.wrapping_add(count as u32);
        let receive_next = number(birth.receive, self.received);
        if seen.sequence_end != receive_next {
            return Err(Unfit::ClientSent);
        }
        // What the node has heard of the client went through the director before.
        if distance(number(birth.send, self.acknowledged), seen.ack) < 0 {
            return Err(Unfit::Contradiction);
        }
        let since = distance(number(birth.send, self.written), seen.ack);
        let offset = self.offset.checked_add_signed(since).ok_or(Unfit::Earlier)?;
        if offset >= self.response_bytes {
            return Err(Unfit::Over);
        }
        Ok(Place { send_next: seen.ack, receive_next, offset })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.birth.is_some()));
        self.birth.unwrap_or_default().encode(out);
        let numbers = [self.written, self.acknowledged, self.received, self.offset, self.response_bytes];
        numbers.iter().for_each(|number| out.extend(number.to_be_bytes()));
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        let is_known = reader.flag("birth")?;
        let birth = Birth::decode(&mut reader.0)?;
        if !is_known && birth != Birth::default() {
            return Err(FieldError::Unknown("birth"));
        }
        Ok(Self {
            birth: is_known.then_some(birth),
            written: reader.u64()?,
            acknowledged: reader.u64()?,
            received: reader.u64()?,
            offset: reader.u64()?,
            response_bytes: reader.u64()?,
        })
    }
}

impl Unfit {
    const ALL: [Self; 6] =
        [Self::NoBeginning, Self::NotSeen, Self::ClientSent, Self::Contradiction, Self::Earlier, Self::Over];

    pub(crate) fn of_number(number: u8) -> Result<Self, FieldError> {
        Self::ALL.into_iter().find(|one| *one as u8 == number).ok_or(FieldError::Unknown("unfit connection"))
    }
}

/// From one sequence number to another, at most 2 GiB both ways (RFC 9293, section 3.4).
fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn seen(ack: u32, sequence_end: u32) -> Seen {
        Seen { ack, sequence_end, window: 100, ts_value: 0, ts_echo: 0, age: Duration::ZERO }
    }

    fn position() -> Position {
        let (written, acknowledged, received) = (5_000, 2_000, 90);
        Position { birth: None, written, acknowledged, received, offset: 4_000, response_bytes: 100_000 }
    }

    const BIRTH: Birth = Birth { send: u32::MAX - 3_000, receive: 7 };

    #[test]
    fn it_goes_on_where_the_client_has_acknowledged() {
        let place = |ack: u32, end: u32| position().place(Some(BIRTH), Some(&seen(BIRTH.send.wrapping_add(ack), end)));
        let offsets = [2_000, 5_000, 30_000, 100_999].map(|ack| place(ack, 97).expect("fits").offset);
        assert_eq!(offsets, [1_000, 4_000, 29_000, 99_999]);
        assert_eq!(place(1_999, 97), Err(Unfit::Contradiction));
        assert_eq!(place(101_000, 97), Err(Unfit::Over));
        assert_eq!(place(5_000, 98), Err(Unfit::ClientSent));
        assert_eq!(position().place(None, Some(&seen(0, 97))), Err(Unfit::NoBeginning));
        assert_eq!(position().place(Some(BIRTH), None), Err(Unfit::NotSeen));
        let early = Position { acknowledged: 0, ..position() };
        assert_eq!(early.place(Some(BIRTH), Some(&seen(BIRTH.send.wrapping_add(999), 97))), Err(Unfit::Earlier));
    }

    proptest! {
        /// With any responses since over the same connection, a copy leads to the byte that the client waits for, or to
        /// none.
        #[test]
        fn a_copy_that_is_out_of_date_leads_nowhere(
            send: u32, receive: u32, before in 0..1_u64 << 33, bytes in 1..1_u64 << 28, at in 0..1_u64 << 28,
            further in proptest::collection::vec((1..500_u64, 1..1_u64 << 28), 0..4), acked in 0..1_u64 << 29,
        ) {
            let birth = Birth { send, receive };
            let offset = at.min(bytes);
            let copy = Position {
                birth: None, written: before + offset, acknowledged: before, received: 77, offset, response_bytes: bytes,
            };
            let all: u64 = bytes + further.iter().map(|(_, response)| response).sum::<u64>();
            let acked = acked.min(all);
            // The client asks again only when it has all of the response before.
            let (mut end, mut asked) = (bytes, 0);
            for (request, response) in further {
                if acked >= end {
                    asked += request;
                    end += response;
                }
            }
            let seen = seen(send.wrapping_add((before + acked) as u32), receive.wrapping_add((77 + asked) as u32));
            match copy.place(Some(birth), Some(&seen)) {
                Ok(place) => {
                    prop_assert!(asked == 0 && acked < bytes);
                    prop_assert_eq!(place.offset, acked);
                }
                Err(why) => prop_assert!(acked >= bytes, "{why}"),
            }
        }
    }
}
