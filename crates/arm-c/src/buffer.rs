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
use weir_arm::{Field, Sort, Telling};

/// Sub-buffers, and entries of their lists, that are looked at.
const MOST_ENTRIES: usize = 64;
/// Properties, and values of a context, that the standard allows.
const MOST_PROPERTIES: usize = 20;
/// Slots of metrics; only the last may hold a text.
const SLOTS: u8 = 7;

/// Takes a piece of a definition: what it is, its place in a list, its bytes.
pub(crate) type Tell<'a> = dyn FnMut(Field, u8, &[u8]) + 'a;

/// Takes a property: its place in the list, its name, its value.
type TellPair<'a> = dyn FnMut(u8, &[u8], &[u8]) + 'a;

/// Takes what is told with a transaction, or of one.
trait Take {
    fn piece(&mut self, field: Field, index: u8, bytes: &[u8]);

    fn number(&mut self, slot: u8, metric: weir_arm::Metric) {
        self.piece(Field::MetricValue, slot, &metric.to_value());
    }
}

impl<F: FnMut(Field, u8, &[u8]) + ?Sized> Take for F {
    fn piece(&mut self, field: Field, index: u8, bytes: &[u8]) {
        self(field, index, bytes);
    }
}

impl Take for Telling<'_> {
    #[inline(always)]
    fn piece(&mut self, field: Field, index: u8, bytes: &[u8]) {
        Telling::piece(self, field, index, bytes);
    }

    #[inline(always)]
    fn number(&mut self, slot: u8, metric: weir_arm::Metric) {
        Telling::number(self, slot, metric);
    }
}

/// Sub-buffers that are told with a running transaction, the first of each.
#[derive(Default)]
struct Details<'a> {
    user: Option<&'a User>,
    context: Option<&'a TranContext>,
    metrics: Option<&'a MetricValues>,
    diagnosis: Option<&'a DiagDetail>,
    address: Option<&'a SystemAddress>,
    /// There are others, which ARM 4.1 brought.
    has_later: bool,
}

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
    #[inline(always)]
    pub(crate) fn details(self, tell: &mut Telling<'_>, verdict: &mut Verdict) {
        if self.0.is_empty() {
            return;
        }
        let found = self.find_details();
        if let Some(user) = found.user {
            tell_text(Field::User, 0, user.name, NAME, tell, verdict);
            if user.id_valid != 0 {
                tell.piece(Field::UserId, 0, &user.id.0);
            }
        }
        if let Some(told) = found.context {
            tell_context(&told.context, tell, verdict);
            tell_text(Field::Uri, 0, told.uri, LONG, tell, verdict);
        }
        if let Some(metrics) = found.metrics {
            tell_metrics(metrics, tell, verdict);
        }
        if let Some(diagnosis) = found.diagnosis {
            tell_text(Field::Diagnosis, 0, diagnosis.detail, LONG, tell, verdict);
        }
        // The standard has it for an application's system; with a transaction it is its client's.
        if let Some(client) = found.address {
            tell_address(client, tell, verdict);
        }
        if found.has_later {
            self.later_details(tell, verdict);
        }
    }

    /// All entries are looked at once: this is done for every request of a web server.
    #[inline(always)]
    fn find_details(self) -> Details<'a> {
        let mut found = Details::default();
        for entry in self.0 {
            // SAFETY: entries are null or point to sub-buffers, which begin with their format, and that names their type.
            unsafe {
                let Some(header) = entry.as_ref() else { continue };
                match header.format {
                    format::USER => found.user = found.user.or(entry.cast::<User>().as_ref()),
                    format::TRAN_CONTEXT => found.context = found.context.or(entry.cast::<TranContext>().as_ref()),
                    format::METRIC_VALUES => found.metrics = found.metrics.or(entry.cast::<MetricValues>().as_ref()),
                    format::DIAG_DETAIL => found.diagnosis = found.diagnosis.or(entry.cast::<DiagDetail>().as_ref()),
                    format::SYSTEM_ADDRESS => found.address = found.address.or(entry.cast::<SystemAddress>().as_ref()),
                    format::MESSAGE_RECEIVED..=format::PREPARATION_STATISTICS | format::DIAG_PROPERTIES => {
                        found.has_later = true;
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// What ARM 4.1 adds to that.
    #[cold]
    #[inline(never)]
    fn later_details(self, tell: &mut Telling<'_>, verdict: &mut Verdict) {
        for (number, kind) in [(format::MESSAGE_RECEIVED, 1), (format::MESSAGE_SENT, 2)] {
            if let Some(message) = self.first::<Message>(number) {
                let mut bytes = [kind; 9];
                bytes[1..].copy_from_slice(&message.bytes.to_ne_bytes());
                tell.piece(Field::Message, kind, &bytes);
            }
        }
        if let Some(cause) = self.first::<Choice>(format::BLOCK_CAUSE) {
            match cause.choice {
                1 | 2 => tell.piece(Field::BlockCause, 0, &[cause.choice as u8]),
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
            tell.piece(Field::PreparationTime, index, &figure.to_ne_bytes());
        }
        if let Some(diagnosis) = self.first::<DiagProperties>(format::DIAG_PROPERTIES) {
            // SAFETY: a list of C.
            let properties = unsafe { list(diagnosis.array, diagnosis.count, MOST_PROPERTIES, verdict) };
            tell_properties(properties, verdict, &mut |index, name, value| {
                tell.piece(Field::DiagnosisProperty, index, &[name, &[0], value].concat());
            });
        }
    }

    /// When the request arrived, on the clock of the records; 0 = it does not say.
    pub(crate) fn arrival_ns(self) -> u64 {
        if let Some(arrival) = self.first::<Time>(format::ARRIVAL_TIME) {
            return u64::try_from(arrival.time).unwrap_or(0);
        }
        let arrival = self.first::<Time>(format::ARRIVAL_TIME_US);
        arrival.map_or(0, |arrival| weir_arm::at_unix_ns(arrival.time.saturating_mul(1000)))
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

#[inline(always)]
fn tell_text(
    field: Field,
    index: u8,
    told: *const c_char,
    most: usize,
    tell: &mut (impl Take + ?Sized),
    verdict: &mut Verdict,
) {
    // SAFETY: a text of C.
    if let Some(bytes) = unsafe { text(told, most, verdict) } {
        tell.piece(field, index, bytes);
    }
}

#[inline(always)]
fn tell_address(system: &SystemAddress, tell: &mut (impl Take + ?Sized), verdict: &mut Verdict) {
    // SAFETY: a list of C.
    let address = unsafe { list(system.address, i32::from(system.length), 253, verdict) };
    let format = system.format.to_ne_bytes();
    // An address of IPv4 with its port, or of IPv6, as nearly all are.
    let mut short = [0; 20];
    match short.get_mut(2..2 + address.len()) {
        Some(room) => {
            room.copy_from_slice(address);
            short[..2].copy_from_slice(&format);
            tell.piece(Field::Address, 0, &short[..2 + address.len()]);
        }
        None => tell.piece(Field::Address, 0, &[&format[..], address].concat()),
    }
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

#[inline(always)]
fn tell_context(context: &Context, tell: &mut (impl Take + ?Sized), verdict: &mut Verdict) {
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

#[inline(always)]
fn tell_metrics(metrics: &MetricValues, tell: &mut (impl Take + ?Sized), verdict: &mut Verdict) {
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
#[inline(always)]
fn tell_metric(metric: &Metric, tell: &mut (impl Take + ?Sized), verdict: &mut Verdict) -> bool {
    let (format, usage) = (metric.format, u8::try_from(metric.usage).unwrap_or(0));
    let mut head = [format, usage, u8::from(metric.valid != 0), 0, 0, 0, 0, 0];
    // SAFETY: the format says which part of the union is set; any bits are a number.
    let value = unsafe {
        match format {
            1 | 4 | 7 => i64::from(metric.value.narrow[0]),
            3 | 6 => {
                head[4..].copy_from_slice(&metric.value.narrow[1].to_ne_bytes());
                i64::from(metric.value.narrow[0])
            }
            2 | 5 | 8 => metric.value.wide,
            10 if metric.slot == SLOTS - 1 => {
                let told = text(metric.value.text, METRIC, verdict).unwrap_or_default();
                tell.piece(Field::MetricValue, metric.slot, &[&head[..], told].concat());
                return true;
            }
            _ => return false,
        }
    };
    if metric.valid != 0 && !matches!(format, 3 | 6) {
        tell.number(metric.slot, weir_arm::Metric { format, usage, value: value as u64 });
    } else {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&head);
        bytes[8..].copy_from_slice(&value.to_ne_bytes());
        tell.piece(Field::MetricValue, metric.slot, &bytes);
    }
    true
}
