//! Sub-buffers: each becomes pieces of a definition, or of what is told with a transaction.
//!
//! The first of several alike counts; what is null is left out.

use crate::outcome::{Outcome, Verdict};
use crate::text::{LONG, METRIC, NAME, VALUE, list, text};
use crate::types::{
    Buffer, Charset, Choice, Context, DiagDetail, DiagProperties, Header, Identity, Message, Metric, MetricBindings,
    MetricValues, PreparationStatistics, Property, SystemAddress, Time, TranContext, TranIdentity, User, format,
};
use std::ffi::c_char;
use weir_arm::{Field, Sort};

/// Sub-buffers, and entries of their lists, that are looked at.
const MOST_ENTRIES: usize = 64;
/// Properties, and values of a context, that the standard allows.
const MOST_PROPERTIES: usize = 20;
/// Slots of metrics; only the last may hold a text.
const SLOTS: u8 = 7;

/// Takes a piece: what it is, its place in a list, its bytes.
pub(crate) type Tell<'a> = dyn FnMut(Field, u8, &[u8]) + 'a;

/// Takes a property: its place in the list, its name, its value.
type TellPair<'a> = dyn FnMut(u8, &[u8], &[u8]) + 'a;

/// The sub-buffers of a call.
#[derive(Clone, Copy)]
pub(crate) struct Buffers<'a>(&'a [*const Header]);

impl<'a> Buffers<'a> {
    /// # Safety
    /// `buffer` is null, or all of it is as `arm4.h` declares, and stays so for `'a`.
    pub(crate) unsafe fn new(buffer: *const Buffer) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let Some(buffer) = buffer.as_ref() else { return Self(&[]) };
            Self(list(buffer.array, buffer.count, MOST_ENTRIES, &mut Verdict::new()))
        }
    }

    /// The first sub-buffer of a format, whose type is `T`.
    fn first<T>(self, format: i32) -> Option<&'a T> {
        // SAFETY: entries are null or point to sub-buffers, which begin with their format, and that names their type.
        let is_it = |entry: &&*const Header| unsafe { entry.as_ref() }.is_some_and(|header| header.format == format);
        let found = self.0.iter().find(is_it)?;
        // SAFETY: likewise.
        unsafe { found.cast::<T>().as_ref() }
    }

    /// Whether the texts are in an encoding that we read.
    pub(crate) fn charset(self, verdict: &mut Verdict) {
        if let Some(charset) = self.first::<Charset>(format::CHARSET)
            && !is_supported(charset.charset)
        {
            verdict.note(Outcome::Charset);
        }
    }

    /// What tells an application.
    pub(crate) fn application(self, tell: &mut Tell<'_>, verdict: &mut Verdict) {
        if let Some(identity) = self.first(format::APP_IDENTITY) {
            tell_identity(identity, tell, verdict);
        }
    }

    /// What tells a transaction.
    pub(crate) fn transaction(self, tell: &mut Tell<'_>, verdict: &mut Verdict) {
        if let Some(named) = self.first::<TranIdentity>(format::TRAN_IDENTITY) {
            tell_identity(&named.identity, tell, verdict);
            tell_text(Field::Uri, 0, named.uri, LONG, tell, verdict);
        }
        if let Some(bindings) = self.first::<MetricBindings>(format::METRIC_BINDINGS) {
            tell_bindings(bindings, tell, verdict);
        }
    }

    /// What tells an instance of an application.
    pub(crate) fn instance(self, tell: &mut Tell<'_>, verdict: &mut Verdict) {
        if let Some(context) = self.first::<Context>(format::APP_CONTEXT) {
            tell_context(context, tell, verdict);
        }
        let Some(system) = self.first::<SystemAddress>(format::SYSTEM_ADDRESS) else { return };
        tell_address(system, tell, verdict);
        if system.id_valid != 0 {
            tell(Field::Id, 0, &system.id.0);
        }
    }

    /// What is told with a running transaction.
    pub(crate) fn details(self, tell: &mut Tell<'_>, verdict: &mut Verdict) {
        if let Some(user) = self.first::<User>(format::USER) {
            tell_text(Field::User, 0, user.name, NAME, tell, verdict);
            if user.id_valid != 0 {
                tell(Field::UserId, 0, &user.id.0);
            }
        }
        if let Some(told) = self.first::<TranContext>(format::TRAN_CONTEXT) {
            tell_context(&told.context, tell, verdict);
            tell_text(Field::Uri, 0, told.uri, LONG, tell, verdict);
        }
        if let Some(metrics) = self.first::<MetricValues>(format::METRIC_VALUES) {
            tell_metrics(metrics, tell, verdict);
        }
        if let Some(diagnosis) = self.first::<DiagDetail>(format::DIAG_DETAIL) {
            tell_text(Field::Diagnosis, 0, diagnosis.detail, LONG, tell, verdict);
        }
        // The standard has it for an application's system; with a transaction it is its client's.
        if let Some(client) = self.first::<SystemAddress>(format::SYSTEM_ADDRESS) {
            tell_address(client, tell, verdict);
        }
        self.later_details(tell, verdict);
    }

    /// What ARM 4.1 adds to that.
    fn later_details(self, tell: &mut Tell<'_>, verdict: &mut Verdict) {
        for (number, kind) in [(format::MESSAGE_RECEIVED, 1), (format::MESSAGE_SENT, 2)] {
            if let Some(message) = self.first::<Message>(number) {
                let mut bytes = [kind; 9];
                bytes[1..].copy_from_slice(&message.bytes.to_ne_bytes());
                tell(Field::Message, kind, &bytes);
            }
        }
        if let Some(cause) = self.first::<Choice>(format::BLOCK_CAUSE) {
            match cause.choice {
                1 | 2 => tell(Field::BlockCause, 0, &[cause.choice as u8]),
                _ => verdict.note(Outcome::Number),
            }
        }
        let time = self.first::<Time>(format::PREPARATION_TIME).map(|preparation| preparation.time);
        let figures =
            self.first(format::PREPARATION_STATISTICS).map(|statistics: &PreparationStatistics| statistics.figures);
        // Index 0 is the time itself, or the sum of all; behind it stand the statistics.
        let figures = figures.into_iter().flatten().zip(1..);
        let sum = figures.clone().nth(1).map(|figure| figure.0);
        for (figure, index) in time.or(sum).map(|time| (time, 0)).into_iter().chain(figures) {
            tell(Field::PreparationTime, index, &figure.to_ne_bytes());
        }
        if let Some(diagnosis) = self.first::<DiagProperties>(format::DIAG_PROPERTIES) {
            // SAFETY: a list of C.
            let properties = unsafe { list(diagnosis.array, diagnosis.count, MOST_PROPERTIES, verdict) };
            tell_properties(properties, verdict, &mut |index, name, value| {
                tell(Field::DiagnosisProperty, index, &[name, &[0], value].concat());
            });
        }
    }

    /// When the request arrived, on the clock of the records; 0 = it does not say.
    pub(crate) fn arrival_ns(self) -> u64 {
        if let Some(arrival) = self.first::<Time>(format::ARRIVAL_TIME) {
            return u64::try_from(arrival.time).unwrap_or(0);
        }
        let Some(arrival) = self.first::<Time>(format::ARRIVAL_TIME_US) else { return 0 };
        let mut real = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is this function's own.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut real) };
        let now = real.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(real.tv_nsec);
        let ago = now.saturating_sub(arrival.time.saturating_mul(1000)).max(0) as u64;
        weir_arm::now_ns().saturating_sub(ago)
    }

    /// Whether a transaction, or one instance of it, is not to be recorded at all.
    pub(crate) fn is_unwanted(self, format: i32, verdict: &mut Verdict) -> bool {
        let Some(control) = self.first::<Choice>(format) else { return false };
        if !(0..=2).contains(&control.choice) {
            verdict.note(Outcome::Number);
        }
        control.choice == 0
    }
}

/// Whether texts may be in this encoding: ASCII or UTF-8.
pub(crate) fn is_supported(charset: i32) -> bool {
    matches!(charset, 3 | 106)
}

fn tell_text(field: Field, index: u8, told: *const c_char, most: usize, tell: &mut Tell<'_>, verdict: &mut Verdict) {
    // SAFETY: a text of C.
    if let Some(bytes) = unsafe { text(told, most, verdict) } {
        tell(field, index, bytes);
    }
}

fn tell_address(system: &SystemAddress, tell: &mut Tell<'_>, verdict: &mut Verdict) {
    // SAFETY: a list of C.
    let address = unsafe { list(system.address, i32::from(system.length), 253, verdict) };
    let mut bytes = [0; 255];
    bytes[..2].copy_from_slice(&system.format.to_ne_bytes());
    bytes[2..2 + address.len()].copy_from_slice(address);
    tell(Field::Address, 0, &bytes[..2 + address.len()]);
}

fn tell_identity(identity: &Identity, tell: &mut Tell<'_>, verdict: &mut Verdict) {
    // SAFETY: lists of C.
    let (properties, names) = unsafe {
        (
            list(identity.property_array, identity.properties, MOST_PROPERTIES, verdict),
            list(identity.name_array, identity.names, MOST_PROPERTIES, verdict),
        )
    };
    tell_properties(properties, verdict, &mut |index, name, value| {
        tell(Field::PropertyName, index, name);
        tell(Field::PropertyValue, index, value);
    });
    let mut seen = [&[][..]; MOST_PROPERTIES];
    for (index, name) in names.iter().enumerate() {
        // SAFETY: a text of C.
        let Some(name) = unsafe { text(*name, NAME, verdict) }.filter(|name| !name.is_empty()) else { continue };
        if seen.contains(&name) {
            verdict.note(Outcome::LeftOut);
            continue;
        }
        seen[index] = name;
        tell(Field::ContextName, index as u8, name);
    }
}

/// Properties that have both name and value; the first of a name counts.
fn tell_properties(properties: &[Property], verdict: &mut Verdict, tell: &mut TellPair<'_>) {
    let mut seen = [&[][..]; MOST_PROPERTIES];
    for (index, property) in properties.iter().enumerate().take(MOST_PROPERTIES) {
        // SAFETY: texts of C.
        let (name, value) = unsafe { (text(property.name, NAME, verdict), text(property.value, VALUE, verdict)) };
        let (Some(name), Some(value)) = (name.filter(|name| !name.is_empty()), value) else { continue };
        if seen.contains(&name) {
            verdict.note(Outcome::LeftOut);
            continue;
        }
        seen[index] = name;
        tell(index as u8, name, value);
    }
}

fn tell_context(context: &Context, tell: &mut Tell<'_>, verdict: &mut Verdict) {
    // SAFETY: a list of C.
    let values = unsafe { list(context.array, context.values, MOST_PROPERTIES, verdict) };
    for (index, value) in values.iter().enumerate() {
        tell_text(Field::ContextValue, index as u8, *value, VALUE, tell, verdict);
    }
}

fn tell_bindings(bindings: &MetricBindings, tell: &mut Tell<'_>, verdict: &mut Verdict) {
    let mut seen = 0_u8;
    // SAFETY: a list of C.
    for binding in unsafe { list(bindings.array, bindings.count, MOST_ENTRIES, verdict) } {
        let metric = weir_arm::number_of(Sort::Metric, &binding.id.0);
        let is_new = binding.slot < SLOTS && seen & 1 << binding.slot == 0;
        if metric == 0 || !is_new {
            verdict.note(if is_new { Outcome::UnknownId } else { Outcome::LeftOut });
            continue;
        }
        seen |= 1 << binding.slot;
        tell(Field::MetricBinding, binding.slot, &metric.to_ne_bytes());
    }
}

fn tell_metrics(metrics: &MetricValues, tell: &mut Tell<'_>, verdict: &mut Verdict) {
    let mut seen = 0_u8;
    // SAFETY: a list of C.
    for metric in unsafe { list(metrics.array, metrics.count, MOST_ENTRIES, verdict) } {
        let is_new = metric.slot < SLOTS && seen & 1 << metric.slot == 0;
        if !is_new || !tell_metric(metric, tell, verdict) {
            verdict.note(Outcome::LeftOut);
            continue;
        }
        seen |= 1 << metric.slot;
    }
}

/// `false` = its format is unknown, or a text stands in a slot for numbers.
fn tell_metric(metric: &Metric, tell: &mut Tell<'_>, verdict: &mut Verdict) -> bool {
    let mut bytes = [0; 8 + 3 * METRIC];
    bytes[..3].copy_from_slice(&[metric.format, u8::try_from(metric.usage).unwrap_or(0), u8::from(metric.valid != 0)]);
    let mut used = 16;
    // SAFETY: the format says which part of the union is set; any bits are a number.
    unsafe {
        match metric.format {
            1 | 4 | 7 => bytes[8..16].copy_from_slice(&i64::from(metric.value.narrow[0]).to_ne_bytes()),
            3 | 6 => {
                bytes[4..8].copy_from_slice(&metric.value.narrow[1].to_ne_bytes());
                bytes[8..16].copy_from_slice(&i64::from(metric.value.narrow[0]).to_ne_bytes());
            }
            2 | 5 | 8 => bytes[8..16].copy_from_slice(&metric.value.wide.to_ne_bytes()),
            10 if metric.slot == SLOTS - 1 => {
                let told = text(metric.value.text, METRIC, verdict).unwrap_or_default();
                used = 8 + told.len();
                bytes[8..used].copy_from_slice(told);
            }
            _ => return false,
        }
    }
    tell(Field::MetricValue, metric.slot, &bytes[..used]);
    true
}
