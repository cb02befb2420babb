//! What `arm4.h` declares, as C lays it out on a 64-bit system; the tests compare both.

use std::ffi::c_char;

/// 16 bytes that name something registered.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub struct Id(pub [u8; 16]);

/// Sub-buffers.
#[derive(Debug)]
#[repr(C)]
pub struct Buffer {
    /// How many pointers there are.
    pub count: i32,
    /// Each to a sub-buffer, or null.
    pub array: *const *const Header,
}

/// What each sub-buffer begins with.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// Which one it is: a constant of `format`.
    pub format: i32,
}

/// Numbers of the sub-buffers.
pub mod format {
    /// The user on whose behalf a transaction runs.
    pub const USER: i32 = 3;
    /// When the request arrived.
    pub const ARRIVAL_TIME: i32 = 4;
    /// Values of metrics.
    pub const METRIC_VALUES: i32 = 5;
    /// Where the application's instance runs.
    pub const SYSTEM_ADDRESS: i32 = 6;
    /// Details of a diagnosis.
    pub const DIAG_DETAIL: i32 = 7;
    /// What an application is told by.
    pub const APP_IDENTITY: i32 = 102;
    /// The context of an application's instance.
    pub const APP_CONTEXT: i32 = 103;
    /// What a transaction is told by.
    pub const TRAN_IDENTITY: i32 = 104;
    /// The context of a transaction.
    pub const TRAN_CONTEXT: i32 = 105;
    /// Which metrics a transaction's slots hold.
    pub const METRIC_BINDINGS: i32 = 106;
    /// How the application's texts are encoded.
    pub const CHARSET: i32 = 107;
    /// A message was received (ARM 4.1; this number and those below are ours, see `arm4.h`).
    pub const MESSAGE_RECEIVED: i32 = 0x5701;
    /// A message was sent.
    pub const MESSAGE_SENT: i32 = 0x5702;
    /// Why a transaction blocks.
    pub const BLOCK_CAUSE: i32 = 0x5703;
    /// Time spent before the start.
    pub const PREPARATION_TIME: i32 = 0x5704;
    /// Statistics of that time.
    pub const PREPARATION_STATISTICS: i32 = 0x5705;
    /// When the request arrived, in microseconds since 1970.
    pub const ARRIVAL_TIME_US: i32 = 0x5706;
    /// Properties of a diagnosis.
    pub const DIAG_PROPERTIES: i32 = 0x5707;
    /// How much is recorded of a transaction.
    pub const TRAN_CONTROL: i32 = 0x5708;
    /// How much is recorded of one instance of it.
    pub const INSTANCE_CONTROL: i32 = 0x5709;
}

/// A name and its value.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Property {
    /// Its name.
    pub name: *const c_char,
    /// Its value.
    pub value: *const c_char,
}

/// [`format::USER`].
#[derive(Debug)]
#[repr(C)]
pub struct User {
    header: Header,
    /// The user's name.
    pub name: *const c_char,
    /// Whether the id counts.
    pub id_valid: i32,
    /// The user's id.
    pub id: Id,
}

/// [`format::ARRIVAL_TIME`] and [`format::ARRIVAL_TIME_US`], and [`format::PREPARATION_TIME`].
#[derive(Debug)]
#[repr(C)]
pub struct Time {
    header: Header,
    /// The time.
    pub time: i64,
}

/// A metric's value.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Metric {
    /// 0 to 6.
    pub slot: u8,
    /// How the value is laid out.
    pub format: u8,
    /// What it is used for.
    pub usage: i16,
    /// Whether it counts.
    pub valid: i32,
    /// The value.
    pub value: MetricValue,
}

/// The union in a metric.
#[derive(Clone, Copy)]
#[repr(C)]
pub union MetricValue {
    /// Formats of 32 bits, with a divisor behind in two of them.
    pub narrow: [i32; 2],
    /// Formats of 64 bits.
    pub wide: i64,
    /// A text.
    pub text: *const c_char,
}

impl std::fmt::Debug for MetricValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MetricValue")
    }
}

/// [`format::METRIC_VALUES`].
#[derive(Debug)]
#[repr(C)]
pub struct MetricValues {
    header: Header,
    /// How many there are.
    pub count: i32,
    /// The values.
    pub array: *const Metric,
}

/// [`format::SYSTEM_ADDRESS`].
#[derive(Debug)]
#[repr(C)]
pub struct SystemAddress {
    header: Header,
    /// What sort of address it is.
    pub format: i16,
    /// Its bytes.
    pub length: i16,
    /// The address.
    pub address: *const u8,
    /// Whether the id counts.
    pub id_valid: i32,
    /// The system's id.
    pub id: Id,
}

/// [`format::DIAG_DETAIL`].
#[derive(Debug)]
#[repr(C)]
pub struct DiagDetail {
    header: Header,
    /// The details.
    pub detail: *const c_char,
}

/// [`format::APP_IDENTITY`] and the begin of [`format::TRAN_IDENTITY`].
#[derive(Debug)]
#[repr(C)]
pub struct Identity {
    header: Header,
    /// How many properties there are.
    pub properties: i32,
    /// The properties.
    pub property_array: *const Property,
    /// How many names of a context there are.
    pub names: i32,
    /// The names.
    pub name_array: *const *const c_char,
}

/// [`format::TRAN_IDENTITY`].
#[derive(Debug)]
#[repr(C)]
pub struct TranIdentity {
    /// What applications have as well.
    pub identity: Identity,
    /// The transaction's URI.
    pub uri: *const c_char,
}

/// [`format::APP_CONTEXT`] and the begin of [`format::TRAN_CONTEXT`].
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    header: Header,
    /// How many values there are.
    pub values: i32,
    /// The values.
    pub array: *const *const c_char,
}

/// [`format::TRAN_CONTEXT`].
#[derive(Debug)]
#[repr(C)]
pub struct TranContext {
    /// What applications have as well.
    pub context: Context,
    /// The transaction's URI.
    pub uri: *const c_char,
}

/// Which metric a slot holds.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MetricBinding {
    /// 0 to 6.
    pub slot: u8,
    /// The metric.
    pub id: Id,
}

/// [`format::METRIC_BINDINGS`].
#[derive(Debug)]
#[repr(C)]
pub struct MetricBindings {
    header: Header,
    /// How many there are.
    pub count: i32,
    /// The bindings.
    pub array: *const MetricBinding,
}

/// [`format::CHARSET`].
#[derive(Debug)]
#[repr(C)]
pub struct Charset {
    header: Header,
    /// A MIBenum of IANA.
    pub charset: i32,
    /// None are defined.
    pub flags: i32,
}

/// [`format::MESSAGE_RECEIVED`] and [`format::MESSAGE_SENT`].
#[derive(Debug)]
#[repr(C)]
pub struct Message {
    header: Header,
    /// Bytes of the message.
    pub bytes: i64,
}

/// [`format::BLOCK_CAUSE`], [`format::TRAN_CONTROL`] and [`format::INSTANCE_CONTROL`].
#[derive(Debug)]
#[repr(C)]
pub struct Choice {
    header: Header,
    /// What was chosen.
    pub choice: i32,
}

/// [`format::PREPARATION_STATISTICS`].
#[derive(Debug)]
#[repr(C)]
pub struct PreparationStatistics {
    header: Header,
    /// How many times there were, their sum, the least and the most of them, nanoseconds.
    pub figures: [i64; 4],
}

/// [`format::DIAG_PROPERTIES`].
#[derive(Debug)]
#[repr(C)]
pub struct DiagProperties {
    header: Header,
    /// How many there are.
    pub count: i32,
    /// The properties.
    pub array: *const Property,
}

/// What a request tells at its end (`weir_arm.h`).
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    /// Its method; null = none, as of all texts here.
    pub method: *const c_char,
    /// Its host.
    pub host: *const c_char,
    /// Its path.
    pub path: *const c_char,
    /// On whose behalf it was handled.
    pub user: *const c_char,
    /// What went wrong, in words.
    pub diagnosis: *const c_char,
    /// Its client's address.
    pub address: *const u8,
    /// What sort of address that is, as the standard numbers them.
    pub address_format: i16,
    /// Its bytes; 0 = there is none.
    pub address_length: i16,
    /// The response's status.
    pub code: i32,
    /// Bytes of the response.
    pub bytes: i64,
    /// When it arrived, as its begin said.
    pub arrived_ns: i64,
    /// When the first byte of the response left, by `arm_get_arrival_time`; 0 = that is not known.
    pub answered_ns: i64,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Id>() == 16 && size_of::<Buffer>() == 16 && size_of::<Property>() == 16);
    assert!(size_of::<User>() == 40 && offset_of!(User, id_valid) == 16 && offset_of!(User, id) == 24);
    assert!(size_of::<Time>() == 16 && offset_of!(Time, time) == 8);
    assert!(size_of::<Metric>() == 16 && offset_of!(Metric, value) == 8 && offset_of!(Metric, valid) == 4);
    assert!(size_of::<MetricValues>() == 16 && offset_of!(MetricValues, array) == 8);
    assert!(size_of::<SystemAddress>() == 40 && offset_of!(SystemAddress, address) == 8);
    assert!(offset_of!(SystemAddress, id_valid) == 16 && offset_of!(SystemAddress, id) == 24);
    assert!(size_of::<Identity>() == 32 && offset_of!(Identity, names) == 16);
    assert!(size_of::<TranIdentity>() == 40 && offset_of!(TranIdentity, uri) == 32);
    assert!(size_of::<Context>() == 16 && size_of::<TranContext>() == 24 && offset_of!(TranContext, uri) == 16);
    assert!(size_of::<MetricBinding>() == 24 && offset_of!(MetricBinding, id) == 8);
    assert!(
        size_of::<Request>() == 80 && offset_of!(Request, address_format) == 48 && offset_of!(Request, bytes) == 56
    );
    assert!(offset_of!(Request, code) == 52 && offset_of!(Request, answered_ns) == 72);
    assert!(size_of::<Charset>() == 12 && size_of::<PreparationStatistics>() == 40);
};
