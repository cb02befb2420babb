//! A finished transaction in the agent's own form, and how it is described for others.

use crate::attributes::Attributes;
use crate::definitions::{Described, Instance, sort_of_format, with_names};
use crate::notes::Notes;
use crate::transaction::{Details, Metric, MetricSort, MetricValue, Process, Status, Transaction, TransactionId};
use crate::waits::ThreadTime;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weir_wire::arm::{Field, Identity};

/// A finished transaction; names are shared with all others of its sort.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its process.
    pub process: Arc<Process>,
    /// Its definition.
    pub described: Arc<Described>,
    /// The instance of its application.
    pub instance: Option<Arc<Instance>>,
    /// Its class's number.
    pub class: u32,
    /// Of how many it is the one that was recorded, at least 1.
    pub one_in: u32,
    /// Which it is.
    pub id: TransactionId,
    /// Its parent.
    pub parent: Option<Identity>,
    /// Its parent was seen on this host.
    pub parent_here: bool,
    /// It may have children elsewhere.
    pub correlated: bool,
    /// Its application asked for tracing.
    pub traced: bool,
    /// It was reported as a whole.
    pub reported: bool,
    /// The standard's version.
    pub standard: u8,
    /// How it ended.
    pub status: Status,
    /// The thread that started it.
    pub thread: u32,
    /// When it arrived, or began.
    pub start_ns: u64,
    /// From then to its end.
    pub duration_ns: u64,
    /// From its arrival to its begin.
    pub queued_ns: u64,
    /// Of its duration, blocked.
    pub blocked_ns: u64,
    /// Signs of life.
    pub updates: u32,
    /// Children that ended before.
    pub children: u32,
    /// Its user.
    pub user: Option<Arc<str>>,
    /// What its threads did and waited for.
    pub threads: Vec<ThreadTime>,
    /// What else was told.
    pub notes: Notes,
}

impl Finished {
    /// When it ended, CLOCK_MONOTONIC.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// Whether others may belong to the same trace.
    #[must_use]
    pub fn may_have_relatives(&self) -> bool {
        self.parent.is_some() || self.correlated
    }

    /// In words, for others.
    #[must_use]
    pub fn describe(&self, host: &str, unix_offset_ns: i64) -> Transaction {
        let details = self.notes.read().map(|attributes| details(&attributes, self)).unwrap_or_default();
        let application = &self.described.application;
        let properties = application.properties.iter().chain(&self.described.properties).cloned().collect();
        let mut transaction = Transaction {
            id: self.id,
            parent: self.parent.map(TransactionId::from),
            parent_foreign: self.parent.is_some_and(|parent| parent.format != Identity::FORMAT),
            parent_here: self.parent_here,
            host: host.to_owned(),
            process: Process::clone(&self.process),
            application: application.name.to_string(),
            group: self.instance.as_ref().and_then(|instance| instance.group.clone()),
            instance: self.instance.as_ref().and_then(|instance| instance.instance.clone()),
            name: self.described.name.to_string(),
            properties,
            user: self.user.as_deref().map(str::to_owned),
            standard: self.standard,
            thread: self.thread,
            start_ns: self.start_ns,
            start_unix_ns: self.start_ns.saturating_add_signed(unix_offset_ns),
            duration_ns: self.duration_ns,
            queued_ns: self.queued_ns,
            blocked_ns: self.blocked_ns,
            status: self.status,
            one_in: self.one_in,
            traced: self.traced,
            reported: self.reported,
            updates: self.updates,
            children: self.children,
            threads: self.threads.clone(),
            details: Box::new(details),
        };
        let details = &mut transaction.details;
        if details.uri.is_none() {
            details.uri.clone_from(&self.described.uri);
        }
        if let Some(instance) = &self.instance {
            details.context.splice(0..0, instance.context.iter().cloned());
        }
        transaction
    }
}

fn details(attributes: &Attributes, of: &Finished) -> Details {
    let values = attributes.pieces(Field::ContextValue);
    let values = values.map(|(index, value, _)| (index, String::from_utf8_lossy(value).into_owned())).collect();
    let number = |field: Field| attributes.pieces(field).next().and_then(|piece| piece.1.first_chunk().copied());
    let (_, blocked) = attributes.blocked(of.start_ns, of.end_ns());
    Details {
        user_id: attributes.pieces(Field::UserId).next().map(|piece| hexadecimal(piece.1)),
        address: attributes.pieces(Field::Address).next().and_then(|piece| address(piece.1)),
        uri: attributes.text(Field::Uri),
        context: with_names(&of.described.context_names, values),
        metrics: metrics(attributes, &of.described),
        diagnosis: attributes.text(Field::Diagnosis),
        diagnosis_properties: attributes.pieces(Field::DiagnosisProperty).map(|piece| property(piece.1)).collect(),
        opaque: attributes.text(Field::Opaque),
        preparation_ns: number(Field::PreparationTime).map(u64::from_ne_bytes),
        messages: attributes.messages,
        blocked,
        bound: attributes.bound(of.end_ns()),
        pieces_lost: attributes.pieces_lost.saturating_add(attributes.unfinished_pieces()),
    }
}

/// A property as name, NUL, value.
fn property(piece: &[u8]) -> crate::transaction::Named {
    let mut halves = piece.splitn(2, |byte| *byte == 0);
    let mut text = || halves.next().map(|half| String::from_utf8_lossy(half).into_owned()).unwrap_or_default();
    crate::transaction::Named { name: text(), value: text() }
}

fn metrics(attributes: &Attributes, described: &Described) -> Vec<Metric> {
    let each = attributes.pieces(Field::MetricValue).filter_map(|(slot, last, first)| {
        let format = *last.first()?;
        let definition = described.metrics.get(usize::from(slot)).and_then(Option::as_ref);
        Some(Metric {
            slot,
            name: definition.map(|definition| definition.name.clone()).unwrap_or_default(),
            unit: definition.map(|definition| definition.unit.clone()).unwrap_or_default(),
            sort: sort_of_format(format)?,
            usage: definition.map_or_else(|| last.get(1).copied().unwrap_or(0), |definition| definition.usage),
            value: value(format, last, first)?,
        })
    });
    let mut metrics: Vec<Metric> = each.collect();
    metrics.sort_by_key(|metric| metric.slot);
    metrics
}

/// A metric's value: a counter's is its increase from the first told one. `None` where it was told to be invalid.
fn value(format: u8, last: &[u8], first: Option<&[u8]>) -> Option<MetricValue> {
    let (head, rest) = last.split_at_checked(8)?;
    if head[2] == 0 {
        return None;
    }
    if sort_of_format(format) == Some(MetricSort::Text) {
        return Some(MetricValue::Text(String::from_utf8_lossy(rest).trim_end_matches('\0').to_owned()));
    }
    let number = |rest: &[u8]| rest.first_chunk().map(|bytes| i64::from_ne_bytes(*bytes));
    let mut number_now = number(rest)?;
    if sort_of_format(format) == Some(MetricSort::Counter) {
        let before = first.filter(|first| first.first() == Some(&format)).and_then(|first| number(first.get(8..)?));
        number_now = before.map_or(number_now, |before| number_now.saturating_sub(before));
    }
    if format == 3 || format == 6 {
        let divisor = i32::from_ne_bytes(*head[4..].first_chunk()?);
        return (divisor != 0).then(|| MetricValue::Ratio(number_now as f64 / f64::from(divisor)));
    }
    Some(MetricValue::Integer(number_now))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A system's address as text: two bytes of its format, then what the standard says of that.
fn address(piece: &[u8]) -> Option<String> {
    let (format, bytes) = piece.split_first_chunk()?;
    let port = |at: usize| bytes.get(at..)?.first_chunk().map(|port| u16::from_be_bytes(*port));
    let short = || bytes.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes));
    let long = || bytes.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes));
    Some(match u16::from_ne_bytes(*format) {
        1 => short()?.to_string(),
        2 => format!("{}:{}", short()?, port(4)?),
        3 => long()?.to_string(),
        4 => format!("[{}]:{}", long()?, port(16)?),
        7 => String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned(),
        _ => hexadecimal(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_read_as_the_standard_has_them() {
        let piece = |format: u8, divisor: i32, number: i64| {
            let mut piece = vec![format, 0, 1, 0];
            piece.extend(divisor.to_ne_bytes());
            piece.extend(number.to_ne_bytes());
            piece
        };
        let first = piece(2, 0, 40);
        assert_eq!(value(2, &piece(2, 0, 100), Some(&first)), Some(MetricValue::Integer(60)));
        assert_eq!(value(5, &piece(5, 0, 100), Some(&first)), Some(MetricValue::Integer(100)));
        assert_eq!(value(6, &piece(6, 8, 100), None), Some(MetricValue::Ratio(12.5)));
        assert_eq!(value(6, &piece(6, 0, 100), None), None);
        let text = [&[10, 0, 1, 0, 0, 0, 0, 0][..], b"blue\0"].concat();
        assert_eq!(value(10, &text, None), Some(MetricValue::Text("blue".to_owned())));
        assert_eq!(value(10, &[10, 0, 0, 0, 0, 0, 0, 0, 65], None), None, "it is not valid");
    }

    #[test]
    fn addresses_are_shown_as_people_write_them() {
        let of = |format: u16, bytes: &[u8]| address(&[&format.to_ne_bytes()[..], bytes].concat());
        assert_eq!(of(1, &[10, 0, 0, 1]).as_deref(), Some("10.0.0.1"));
        assert_eq!(of(2, &[10, 0, 0, 1, 0, 80]).as_deref(), Some("10.0.0.1:80"));
        let local = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 187];
        assert_eq!((of(3, &local).as_deref(), of(4, &local).as_deref()), (Some("::1"), Some("[::1]:443")));
        assert_eq!(of(7, b"shop.example").as_deref(), Some("shop.example"));
        assert_eq!(of(8, &[1, 171]).as_deref(), Some("01ab"));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..40), first in proptest::collection::vec(any::<u8>(), 0..40), format: u8) {
            let _ = (value(format, &bytes, Some(&first)), address(&bytes), property(&bytes));
        }
    }
}
