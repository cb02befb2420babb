//! The form of what a connection of HTTP/2 has beside its responses: how it is written, and read without belief.

use super::http2::{ABANDONED_MAX, Continued, GoawayState, Http2, STREAMS_MAX, Stream, Table};
use super::reading::{Read, Reader, holds, malformed};
use super::writing::Writer;
use crate::http::fields::ENTRY_BYTES;
use crate::http::frames::frame::WINDOW_MAX;
use crate::http::frames::hpack::TABLE_BYTES_MAX;

/// Bytes that the client may send before the server gives windows back: the default of all windows (section 6.9.2).
const RECEIVE_WINDOW_MAX: i64 = 65_535;
/// A body's length is below this, so that sums are no matter.
const BODY_LENGTH_MAX: u64 = 1 << 52;
/// The largest number of a stream (section 5.1.1).
const STREAM_MAX: u32 = (1 << 31) - 1;

impl Writer {
    pub(super) fn http2(&mut self, http2: &Http2) {
        self.length(http2.table.bytes_max);
        self.length(http2.table.entries.len());
        for (text, value_at) in &http2.table.entries {
            self.text(text);
            self.length(*value_at);
        }
        self.truths([http2.has_preface, http2.has_settings, http2.carries_streams, http2.table_is_due]);
        self.truths([http2.has_heard, http2.is_new, http2.owes_alt_svc]);
        self.option(http2.continued.as_ref(), |out, continued| {
            out.short(continued.stream);
            out.byte(continued.flags);
            out.option(continued.depends_on, Self::short);
            out.text(&continued.block);
        });
        [http2.next, http2.last, http2.table_bytes].into_iter().for_each(|number| self.short(number));
        self.length(http2.abandoned.len());
        http2.abandoned.iter().for_each(|id| self.short(*id));
        self.text(&http2.unsent);
        self.text(&http2.control);
        [http2.window, http2.stream_window, http2.receive_window].into_iter().for_each(|window| self.window(window));
        self.number(http2.tokens);
        let (word, left_ms) = match http2.goaway {
            GoawayState::Unsaid => (0, 0),
            GoawayState::Awaited { left_ms } => (1, left_ms),
            GoawayState::Announced { left_ms } => (2, left_ms),
            GoawayState::Said => (3, 0),
        };
        self.byte(word);
        self.number(left_ms);
        self.length(http2.streams.len());
        for stream in &http2.streams {
            self.short(stream.id);
            self.window(stream.window);
            self.truths([stream.is_held, stream.is_received]);
            self.option(stream.body_expected, Self::number);
            self.number(stream.body_bytes);
            self.short(stream.body_unacknowledged);
            self.number(stream.age_ms);
        }
    }

    fn truths<const N: usize>(&mut self, truths: [bool; N]) {
        truths.into_iter().for_each(|truth| self.byte(u8::from(truth)));
    }

    fn short(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    fn window(&mut self, window: i64) {
        self.bytes(&window.to_le_bytes());
    }
}

impl Reader<'_> {
    pub(super) fn http2(&mut self) -> Read<Http2> {
        let table = self.table()?;
        let [has_preface, has_settings, carries_streams, table_is_due] = self.truths()?;
        let [has_heard, is_new, owes_alt_svc] = self.truths()?;
        let continued = self.option(Self::continued)?;
        let (next, last, table_bytes) = (self.short()?, self.short()?, self.short()?);
        holds(last <= STREAM_MAX && (last == 0 || last % 2 == 1), "the last stream")?;
        let count = self.length()?;
        holds(count <= ABANDONED_MAX, "the streams that were ended")?;
        let abandoned = (0..count).map(|_| self.short()).collect::<Read<Vec<u32>>>()?;
        let (unsent, control) = (self.text()?.to_vec(), self.text()?.to_vec());
        let (window, stream_window) = (self.window(-WINDOW_MAX, WINDOW_MAX)?, self.window(0, WINDOW_MAX)?);
        let receive_window = self.window(0, RECEIVE_WINDOW_MAX)?;
        let tokens = self.number()?;
        let goaway = match (self.byte()?, self.number()?) {
            (0, 0) => GoawayState::Unsaid,
            (1, left_ms) => GoawayState::Awaited { left_ms },
            (2, left_ms) => GoawayState::Announced { left_ms },
            (3, 0) => GoawayState::Said,
            _ => return Err(malformed("how far its end was announced")),
        };
        let count = self.length()?;
        holds(count <= STREAMS_MAX, "the number of streams")?;
        let streams = (0..count).map(|_| self.stream()).collect::<Read<Vec<Stream>>>()?;
        let are_in_order = streams.is_sorted_by(|one, next| one.id < next.id);
        holds(are_in_order && streams.last().is_none_or(|stream| stream.id <= last), "the numbers of streams")?;
        Ok(Http2 {
            table,
            has_preface,
            has_settings,
            continued,
            next,
            last,
            abandoned,
            unsent,
            carries_streams,
            control,
            window,
            stream_window,
            table_bytes,
            table_is_due,
            receive_window,
            tokens,
            goaway,
            has_heard,
            is_new,
            owes_alt_svc,
            streams,
        })
    }

    fn table(&mut self) -> Read<Table> {
        let (bytes_max, count) = (self.length()?, self.length()?);
        holds(bytes_max <= TABLE_BYTES_MAX && count <= TABLE_BYTES_MAX / ENTRY_BYTES, "the table of fields")?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for _ in 0..count {
            let (text, value_at) = (self.text()?.to_vec(), self.length()?);
            bytes += text.len() + ENTRY_BYTES;
            holds(value_at <= text.len() && bytes <= bytes_max, "the table of fields")?;
            entries.push((text, value_at));
        }
        Ok(Table { bytes_max, entries })
    }

    fn continued(&mut self) -> Read<Continued> {
        let (stream, flags) = (self.short()?, self.byte()?);
        holds(stream % 2 == 1 && stream <= STREAM_MAX, "a block of fields")?;
        let depends_on = self.option(Self::short)?;
        Ok(Continued { stream, flags, depends_on, block: self.text()?.to_vec() })
    }

    fn stream(&mut self) -> Read<Stream> {
        let (id, window) = (self.short()?, self.window(-WINDOW_MAX, WINDOW_MAX)?);
        let [is_held, is_received] = self.truths()?;
        let (body_expected, body_bytes) = (self.option(Self::number)?, self.number()?);
        let (body_unacknowledged, age_ms) = (self.short()?, self.number()?);
        let is_one = id % 2 == 1 && id <= STREAM_MAX && !(is_held && is_received);
        let has_body = body_bytes <= BODY_LENGTH_MAX && i64::from(body_unacknowledged) <= RECEIVE_WINDOW_MAX;
        holds(is_one && has_body, "a stream")?;
        Ok(Stream { id, window, is_held, is_received, body_expected, body_bytes, body_unacknowledged, age_ms })
    }

    fn truths<const N: usize>(&mut self) -> Read<[bool; N]> {
        let mut truths = [false; N];
        for truth in &mut truths {
            *truth = self.truth()?;
        }
        Ok(truths)
    }

    fn short(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn window(&mut self, least: i64, most: i64) -> Read<i64> {
        let window = i64::from_le_bytes(self.array()?);
        holds((least..=most).contains(&window), "a window")?;
        Ok(window)
    }
}
