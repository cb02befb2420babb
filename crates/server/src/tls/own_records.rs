//! A session that has left rustls: it seals and opens records by its own keys, and can be written down as bytes.

use super::form::{get, put, take};
use super::layout::Cuts;
use super::promise::{Fixed, Promise};
use super::records::{
    ALERT, APPLICATION_DATA, Direction, EXPANSION_BYTES_MAX, HANDSHAKE, HEADER_BYTES, MOVED_BYTES_MAX, OpenError,
    PLAINTEXT_BYTES_MAX, Suite,
};
use crate::io::{connection_facts, epoll};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use zeroize::{Zeroize, Zeroizing};

/// Bytes that are received at once.
const RECEIVED_BYTES: usize = 32 << 10;
/// Records without data of the application that a client may send in a row; each costs a decryption.
const EMPTY_RECORDS_MAX: u32 = 32;
/// Records under one key of AES-GCM (RFC 8446 section 5.5: 2^24.5 full ones).
pub(super) const RECORDS_OF_KEY_MAX: u64 = 1 << 24;
/// A handshake message after the handshake: `KeyUpdate` has five bytes.
const MESSAGE_BYTES_MAX: usize = 64;

/// Handshake messages, and the values of `KeyUpdate` (RFC 8446 section 4.6.3).
const KEY_UPDATE: u8 = 24;
const UPDATE_REQUESTED: u8 = 1;
const KEY_UPDATE_ANSWER: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// Alerts (RFC 8446 section 6, RFC 5246 section 7.2).
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;

/// The versions of the bytes that a session is written down as: with what it may seal, and without where that is anything.
const VERSION: u8 = 2;
const VERSION_FREE: u8 = 1;

/// How far the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Open,
    /// It has said or shown that nothing follows.
    Ended,
    /// What it said was no TLS.
    Refused,
}

/// Keys, and what is between the socket and the application.
#[derive(Debug)]
pub(super) struct OwnRecords {
    suite: Suite,
    transmit: Direction,
    receive: Direction,
    /// Records that the socket has not taken, from `output_at` on.
    output: Vec<u8>,
    output_at: usize,
    /// What was received and not opened, from `input_at` on.
    input: Vec<u8>,
    input_at: usize,
    /// What was opened and not read, from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    /// A handshake message that is not whole.
    message: Vec<u8>,
    peer: Peer,
    has_said_goodbye: bool,
    empty_records: u32,
    promise: Promise,
}

impl Drop for OwnRecords {
    fn drop(&mut self) {
        self.plain.zeroize();
    }
}

impl OwnRecords {
    /// A session between two records of each side.
    pub(super) fn new(suite: Suite, transmit: Direction, receive: Direction) -> Self {
        Self {
            suite,
            transmit,
            receive,
            output: Vec::new(),
            output_at: 0,
            input: Vec::new(),
            input_at: 0,
            plain: Vec::new(),
            plain_at: 0,
            message: Vec::new(),
            peer: Peer::Open,
            has_said_goodbye: false,
            empty_records: 0,
            promise: Promise::Free,
        }
    }

    /// Takes what was sealed, received and opened before, and not handed on.
    pub(super) fn with(mut self, output: Vec<u8>, input: Vec<u8>, plain: Vec<u8>) -> Self {
        (self.output, self.input, self.plain) = (output, input, plain);
        self
    }

    /// Goes on with what it may seal.
    pub(super) fn promised(mut self, promise: Promise) -> Self {
        self.promise = promise;
        self
    }

    /// Goes back to an earlier record; what the socket has not taken is left out. False if the number cannot be.
    pub(super) fn go_back(&mut self, sequence: u64, fixed: Fixed) -> bool {
        let (secret, generation) = (self.transmit.secret(), self.transmit.generation());
        let Some(transmit) = Direction::new(self.suite, secret, generation, sequence) else { return false };
        (self.transmit, self.output, self.output_at) = (transmit, Vec::new(), 0);
        self.promise_rest(fixed);
        true
    }

    /// Seals the rest of a response in these records from now on.
    pub(super) fn promise_rest(&mut self, fixed: Fixed) {
        self.promise = Promise::Response(Box::new(fixed));
    }

    pub(super) fn promise(&self) -> &Promise {
        &self.promise
    }

    /// The keys, to be written down again for another place of the response.
    pub(super) fn directions(&self) -> (Suite, &Direction, &Direction) {
        (self.suite, &self.transmit, &self.receive)
    }

    /// Whether anything of the client's is here and was not answered.
    pub(super) fn holds_input(&self) -> bool {
        self.input_at < self.input.len() || self.plain_at < self.plain.len() || !self.message.is_empty()
    }

    /// Bytes of records that the socket has not taken.
    pub(super) fn held_bytes(&self) -> usize {
        self.output.len() - self.output_at
    }

    #[cfg(test)]
    pub(super) fn transmit(&self) -> (Suite, &Direction) {
        (self.suite, &self.transmit)
    }

    /// Whether one side has said that nothing follows, or said what is no TLS.
    pub(super) fn has_ended(&self) -> bool {
        self.peer != Peer::Open || self.has_said_goodbye
    }

    pub(super) fn holds_output(&self) -> bool {
        self.output_at < self.output.len()
    }

    /// Whether the peer has ended, and all that it said was read.
    pub(super) fn is_read_out(&self) -> bool {
        self.peer != Peer::Open && self.plain_at == self.plain.len()
    }

    /// Receives and opens until nothing more is there or `buffer` is full; 0 is the end.
    pub(super) fn receive(&mut self, fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut filled, mut is_drained) = (0, false);
        loop {
            filled += self.read(&mut buffer[filled..]);
            if filled == buffer.len() || self.peer == Peer::Ended {
                return Ok(filled);
            }
            if self.peer == Peer::Refused {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match self.open_next() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(alert) => {
                    self.peer = Peer::Refused;
                    self.alert(FATAL, alert);
                    let _ = self.push(fd);
                    continue;
                }
            }
            let _ = self.push_unless_blocked(fd)?;
            if is_drained {
                return if filled > 0 { Ok(filled) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            let held = self.input.len();
            self.input.resize(held + RECEIVED_BYTES, 0);
            let received = epoll::receive(fd, &mut self.input[held..]);
            self.input.truncate(held + received.as_ref().copied().unwrap_or(0));
            match received {
                Ok(0) => self.peer = Peer::Ended,
                Ok(received) => {
                    is_drained = received < RECEIVED_BYTES;
                    // The director has seen it before, and gives the connection to no other node (`Unfit::ClientSent`).
                    self.promise.hear();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => is_drained = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what was opened.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        let there = &self.plain[self.plain_at..];
        let read = there.len().min(buffer.len());
        buffer[..read].copy_from_slice(&there[..read]);
        self.plain_at += read;
        if self.plain_at == self.plain.len() {
            (self.plain, self.plain_at) = (Vec::new(), 0);
        }
        read
    }

    /// Opens the next record; false if it is not whole. The error is the alert that says what is wrong.
    fn open_next(&mut self) -> Result<bool, u8> {
        let there = &self.input[self.input_at..];
        let Some(header) = there.first_chunk::<HEADER_BYTES>() else { return Ok(self.wait_for_more()) };
        let body = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if body > PLAINTEXT_BYTES_MAX + EXPANSION_BYTES_MAX {
            return Err(RECORD_OVERFLOW);
        }
        if there.len() < HEADER_BYTES + body {
            return Ok(self.wait_for_more());
        }
        let (start, end) = (self.input_at, self.input_at + HEADER_BYTES + body);
        let mut record = std::mem::take(&mut self.input);
        let opened = self.receive.open(&mut record[start..end]).map_err(|error| match error {
            OpenError::Forged | OpenError::Short => BAD_RECORD_MAC,
            OpenError::InTheClear | OpenError::NoType => UNEXPECTED_MESSAGE,
        });
        self.input_at = end;
        let taken = opened.and_then(|(kind, plain)| self.take(kind, plain));
        record[start..end].zeroize();
        self.input = record;
        taken.map(|()| true)
    }

    fn wait_for_more(&mut self) -> bool {
        if self.input_at == self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..self.input_at);
        }
        self.input_at = 0;
        false
    }

    fn take(&mut self, kind: u8, plain: &[u8]) -> Result<(), u8> {
        if plain.len() > PLAINTEXT_BYTES_MAX {
            return Err(RECORD_OVERFLOW);
        }
        if kind == APPLICATION_DATA && !plain.is_empty() {
            self.empty_records = 0;
            self.plain.extend_from_slice(plain);
            return Ok(());
        }
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(UNEXPECTED_MESSAGE);
        }
        match kind {
            APPLICATION_DATA => Ok(()),
            ALERT => self.take_alert(plain),
            HANDSHAKE if self.suite.is_1_3() => self.take_message(plain),
            HANDSHAKE => {
                // It would agree on other keys. We do not (RFC 5246 section 7.2.2).
                self.alert(WARNING, NO_RENEGOTIATION);
                Ok(())
            }
            _ => Err(UNEXPECTED_MESSAGE),
        }
    }

    fn take_alert(&mut self, alert: &[u8]) -> Result<(), u8> {
        let [level, what] = *alert else { return Err(UNEXPECTED_MESSAGE) };
        let goes_on = what == USER_CANCELED || (level == WARNING && !self.suite.is_1_3() && what != CLOSE_NOTIFY);
        if !goes_on {
            self.peer = if what == CLOSE_NOTIFY { Peer::Ended } else { Peer::Refused };
        }
        Ok(())
    }

    /// Takes `KeyUpdate`, the only message that a client may send after the handshake.
    fn take_message(&mut self, bytes: &[u8]) -> Result<(), u8> {
        self.message.extend_from_slice(bytes);
        let known = self.message.len().min(4);
        if self.message[..known] != [KEY_UPDATE, 0, 0, 1][..known] || self.message.len() > MESSAGE_BYTES_MAX {
            return Err(UNEXPECTED_MESSAGE);
        }
        let Some(&value) = self.message.get(4) else { return Ok(()) };
        // Keys change between records: nothing may follow in this one (RFC 8446 section 5.1).
        let is_one = self.message.len() == KEY_UPDATE_ANSWER.len() && value <= UPDATE_REQUESTED;
        // Nothing is read while a response is sent, of which the records are fixed.
        if !is_one || matches!(self.promise, Promise::Response(_)) {
            return Err(UNEXPECTED_MESSAGE);
        }
        self.message = Vec::new();
        self.receive.update();
        if value == UPDATE_REQUESTED && !self.has_said_goodbye {
            self.update_transmit();
        }
        Ok(())
    }

    /// Tells the peer that other keys follow, and uses these.
    fn update_transmit(&mut self) {
        let message = KEY_UPDATE_ANSWER;
        self.transmit.seal(HANDSHAKE, message.len(), &mut self.output, |out| out.extend_from_slice(&message));
        self.transmit.update();
    }

    fn alert(&mut self, level: u8, what: u8) {
        if !self.has_said_goodbye && matches!(self.promise, Promise::Free) {
            self.transmit.seal(ALERT, 2, &mut self.output, |out| out.extend_from_slice(&[level, what]));
        }
    }

    /// Seals the bytes of all pieces, and notes where records end.
    ///
    /// # Errors
    ///
    /// Where the keys have sealed as much as they may, and TLS 1.2 has no way to others; and where other bytes than those
    /// of the response that was promised would get its numbers.
    pub(super) fn seal(&mut self, pieces: &[IoSlice<'_>], cuts: &mut Cuts) -> io::Result<usize> {
        match std::mem::replace(&mut self.promise, Promise::Spent) {
            Promise::Free => {
                self.promise = Promise::Free;
                let sealed = self.seal_all(pieces)?;
                cuts.note(sealed);
                Ok(sealed)
            }
            Promise::Response(fixed) => self.seal_fixed(*fixed, pieces, cuts),
            Promise::Spent => Err(io::Error::other("another node may have the keys of this TLS session; it ends")),
        }
    }

    /// Seals the bytes of a response of which the records are fixed. What fills no record waits for the rest of it.
    fn seal_fixed(&mut self, mut fixed: Fixed, pieces: &[IoSlice<'_>], cuts: &mut Cuts) -> io::Result<usize> {
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        if all as u64 > fixed.left() {
            return Err(io::Error::other("a response is longer than was said of it"));
        }
        for piece in pieces {
            let mut rest: &[u8] = piece;
            while !rest.is_empty() {
                let (now, after) = rest.split_at(fixed.missing().min(rest.len()));
                rest = after;
                if let Some((plain, skip)) = fixed.fill(now) {
                    let start = self.output.len();
                    let bytes = plain.len();
                    self.transmit.seal(APPLICATION_DATA, bytes, &mut self.output, |out| out.extend_from_slice(&plain));
                    self.output.drain(start..start + skip);
                    cuts.note(bytes);
                }
            }
        }
        self.promise = fixed.promise();
        Ok(all)
    }

    /// Seals bytes as they come.
    fn seal_all(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut bytes = pieces.iter();
        let (mut chunk, mut sealed): (&[u8], usize) = (&[], 0);
        while sealed < all {
            if self.transmit.sequence() >= RECORDS_OF_KEY_MAX {
                if !self.suite.is_1_3() {
                    return Err(io::Error::other("the keys of this TLS session have sealed 2^24 records; it ends"));
                }
                self.update_transmit();
            }
            let plain = (all - sealed).min(PLAINTEXT_BYTES_MAX);
            self.transmit.seal(APPLICATION_DATA, plain, &mut self.output, |out| {
                let mut missing = plain;
                while missing > 0 {
                    if chunk.is_empty() {
                        let Some(next) = bytes.next() else { break };
                        chunk = next.as_ref();
                    }
                    let (now, rest) = chunk.split_at(missing.min(chunk.len()));
                    out.extend_from_slice(now);
                    (chunk, missing) = (rest, missing - now.len());
                }
            });
            sealed += plain;
        }
        Ok(all)
    }

    /// Hands records to the socket, all or until it is full.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while the socket has no room for all of them.
    pub(super) fn push(&mut self, fd: RawFd) -> io::Result<()> {
        while self.holds_output() {
            match epoll::send(fd, &[IoSlice::new(&self.output[self.output_at..])], 0) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.output_at += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.output_at = 0;
        Ok(())
    }

    fn push_unless_blocked(&mut self, fd: RawFd) -> io::Result<bool> {
        match self.push(fd) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Says that nothing follows; the next `push` sends it.
    ///
    /// Not where another node may have the keys and go on: it would give its own next record the same number. A client that
    /// has all of the response is given to no other node (`Unfit::Over`).
    pub(super) fn say_goodbye(&mut self, fd: RawFd) {
        if matches!(self.promise, Promise::Spent) && !self.holds_output() && connection_facts::has_arrived(fd) {
            self.promise = Promise::Free;
        }
        if self.peer != Peer::Refused && matches!(self.promise, Promise::Free) {
            self.alert(WARNING, CLOSE_NOTIFY);
            self.has_said_goodbye = true;
        }
    }

    /// Writes the session down. The bytes hold its keys.
    pub(super) fn write_down(&self) -> Zeroizing<Vec<u8>> {
        let room = 512 + self.output.len() + self.input.len() + self.promise.written_bytes();
        let mut out = Zeroizing::new(Vec::with_capacity(room));
        out.push(if matches!(self.promise, Promise::Free) { VERSION_FREE } else { VERSION });
        out.extend_from_slice(&self.suite.number().to_be_bytes());
        for direction in [&self.transmit, &self.receive] {
            out.extend_from_slice(&direction.generation().to_be_bytes());
            out.extend_from_slice(&direction.sequence().to_be_bytes());
            put(&mut out, direction.secret());
        }
        let flags = u8::from(self.peer == Peer::Ended) | u8::from(self.has_said_goodbye) << 1;
        out.push(flags);
        for bytes in [
            &self.output[self.output_at..],
            &self.input[self.input_at..],
            &self.plain[self.plain_at..],
            self.message.as_slice(),
        ] {
            put(&mut out, bytes);
        }
        self.promise.write(&mut out);
        out
    }

    /// Reads a session that was written down; none if the bytes are no whole one, or one of another version.
    pub(super) fn read_back(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let [version] = take(&mut rest)?;
        if version != VERSION && version != VERSION_FREE {
            return None;
        }
        let suite = Suite::of(u16::from_be_bytes(take(&mut rest)?))?;
        let mut direction = || {
            let generation = u32::from_be_bytes(take(&mut rest)?);
            let sequence = u64::from_be_bytes(take(&mut rest)?);
            Direction::new(suite, get(&mut rest, 64)?, generation, sequence)
        };
        let (transmit, receive) = (direction()?, direction()?);
        let [flags] = take(&mut rest)?;
        let mut part = || get(&mut rest, MOVED_BYTES_MAX).map(<[u8]>::to_vec);
        let (output, input, plain, message) = (part()?, part()?, part()?, part()?);
        let promise = if version == VERSION { Promise::read(&mut rest)? } else { Promise::Free };
        if !rest.is_empty() || message.len() > MESSAGE_BYTES_MAX || flags > 3 {
            return None;
        }
        let peer = if flags & 1 == 0 { Peer::Open } else { Peer::Ended };
        let mut own = Self::new(suite, transmit, receive).with(output, input, plain).promised(promise);
        (own.message, own.peer, own.has_said_goodbye) = (message, peer, flags & 2 != 0);
        Some(own)
    }
}
