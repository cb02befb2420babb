//! What the pieces of ARM records tell.

/// What a piece of a definition or of an [`crate::Kind::ArmDetail`] tells; its index counts the ones of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Field {
    /// The name of what is defined.
    Name = 1,
    /// The 16 bytes of an id that the application gave.
    Id = 2,
    /// The URI of a transaction.
    Uri = 3,
    /// The name of a property that identifies it.
    PropertyName = 4,
    /// The value of the property of the same index.
    PropertyValue = 5,
    /// The name of a value of the context.
    ContextName = 6,
    /// The value of the same index.
    ContextValue = 7,
    /// The group of an application's instance.
    Group = 8,
    /// The name of an application's instance.
    Instance = 9,
    /// The user on whose behalf it runs.
    User = 10,
    /// The 16 bytes of the user's id.
    UserId = 11,
    /// Two bytes of the address's format, then the address of the system.
    Address = 12,
    /// The details of a diagnosis.
    Diagnosis = 13,
    /// A metric's format, usage: a byte each.
    MetricFormat = 14,
    /// A metric's unit.
    MetricUnit = 15,
    /// The metric's definition that a slot (the index) of a transaction is bound to: two bytes.
    MetricBinding = 16,
    /// A metric's value: its format, usage, valid, 0, four bytes of a divisor or 0, then eight bytes or a text; the
    /// index is the slot.
    MetricValue = 17,
    /// The detail of an ARM 2.0 transaction's name.
    Detail = 18,
    /// Bytes that only the application understands (ARM 2.0, format 2).
    Opaque = 19,
    /// A property of the diagnosis: its name, a NUL, its value (ARM 4.1).
    DiagnosisProperty = 20,
    /// The kind of a message event and its bytes (ARM 4.1).
    Message = 21,
    /// Why it blocks: 1 = synchronous, 2 = asynchronous (ARM 4.1).
    BlockCause = 22,
    /// Eight bytes of nanoseconds that were spent before the start (ARM 4.1).
    PreparationTime = 23,
    /// The command line of the process that made the memory.
    CommandLine = 24,
    /// A metric's value that is valid and has no divisor, in few bytes: its format, its usage, then the value without
    /// the zeros in its upper bytes, the lowest first; the index is the slot.
    MetricNumber = 25,
}

pub(super) const FIELDS: [Field; 25] = [
    Field::Name,
    Field::Id,
    Field::Uri,
    Field::PropertyName,
    Field::PropertyValue,
    Field::ContextName,
    Field::ContextValue,
    Field::Group,
    Field::Instance,
    Field::User,
    Field::UserId,
    Field::Address,
    Field::Diagnosis,
    Field::MetricFormat,
    Field::MetricUnit,
    Field::MetricBinding,
    Field::MetricValue,
    Field::Detail,
    Field::Opaque,
    Field::DiagnosisProperty,
    Field::Message,
    Field::BlockCause,
    Field::PreparationTime,
    Field::CommandLine,
    Field::MetricNumber,
];

impl Field {
    /// The field of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        FIELDS.get(usize::from(code).checked_sub(1)?).copied()
    }
}
