//! The values of a CTF event's fields.

use super::bits::{signed, unsigned};
use super::types::{Integer, Label, Type};
use crate::fields::Fields;
use std::borrow::Cow;

/// Values of an event that are kept; those beyond are read and passed over.
const VALUES_MAX: usize = 1024;
/// Elements of an array or a sequence.
const ELEMENTS_MAX: u64 = 1 << 24;
const VARINT_BYTES: usize = 10;

/// A value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'m> {
    Number(i64),
    /// A number, with its label.
    Labelled(i64, &'m str),
    /// Where a text lies, bytes of the window.
    Text(usize, usize),
    Fraction(f64),
}

/// Why a value cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It goes on behind the window.
    End,
    /// It cannot be.
    Wrong(&'static str),
}

/// The values of an event, or of a packet's head, in the order in which they were read.
#[derive(Debug, Default)]
pub(crate) struct Values<'m> {
    pub(crate) all: Vec<(&'m str, Value<'m>)>,
    /// The clock's lower bits, and how many, where a field has them.
    pub(crate) clock: Option<(u64, u32)>,
}

impl<'m> Values<'m> {
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.clock = None;
    }

    fn push(&mut self, name: &'m str, value: Value<'m>) {
        if self.all.len() < VALUES_MAX {
            self.all.push((name, value));
        }
    }

    /// The last value of a name.
    pub(crate) fn find(&self, name: &str) -> Option<Value<'m>> {
        self.all.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.find(name)? {
            Value::Number(number) | Value::Labelled(number, _) => Some(number),
            Value::Text(..) | Value::Fraction(_) => None,
        }
    }
}

/// Where reading stands: bits of the window, of which the packet began at one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    /// Alignment counts from here, bits; it may lie before the window.
    pub(crate) packet: i64,
    pub(crate) at: u64,
    /// The packet's content ends here, bits.
    pub(crate) end: u64,
}

impl Cursor<'_> {
    fn align(&mut self, bits: u32) {
        let within = (self.at.cast_signed() - self.packet).cast_unsigned();
        self.at += within.next_multiple_of(u64::from(bits.max(1))) - within;
    }

    fn integer(&mut self, of: &Integer) -> Result<u64, Stop> {
        self.align(of.align);
        let next = self.at + u64::from(of.size);
        if next > self.end {
            return Err(Stop::End);
        }
        let number = unsigned(self.bytes, self.at, of.size, of.order).ok_or(Stop::End)?;
        self.at = next;
        Ok(number)
    }

    fn varint(&mut self) -> Result<(u64, u32), Stop> {
        self.align(8);
        let from = (self.at / 8) as usize;
        let mut number = 0u64;
        for index in 0..VARINT_BYTES {
            let byte = *self.bytes.get(from + index).filter(|_| self.at < self.end).ok_or(Stop::End)?;
            number |= u64::from(byte & 0x7f).checked_shl(7 * index as u32).unwrap_or(0);
            self.at += 8;
            if byte & 0x80 == 0 {
                return Ok((number, 7 * (index as u32 + 1)));
            }
        }
        Err(Stop::Wrong("an integer of variable length has no end"))
    }

    fn string(&mut self) -> Result<(usize, usize), Stop> {
        self.align(8);
        let from = (self.at / 8) as usize;
        let most = ((self.end / 8) as usize).min(self.bytes.len());
        let rest = self.bytes.get(from..most).ok_or(Stop::End)?;
        let length = memchr::memchr(0, rest).ok_or(Stop::End)?;
        self.at += (length as u64 + 1) * 8;
        Ok((from, from + length))
    }

    /// Reads a value of a type and keeps what it holds.
    pub(crate) fn read<'m>(&mut self, of: &'m Type, name: &'m str, values: &mut Values<'m>) -> Result<(), Stop> {
        match of {
            Type::Struct { fields, .. } => {
                self.align(of.align());
                for (name, of) in fields {
                    self.read(of, name, values)?;
                }
                Ok(())
            }
            Type::Variant { tag, options } => {
                let Some(Value::Labelled(_, label)) = values.find(tag) else {
                    return Err(Stop::Wrong("a variant's tag is no enumeration that came before"));
                };
                let option = options.iter().find(|(option, _)| option == label);
                let (_, of) = option.ok_or(Stop::Wrong("a variant has no type for its tag's label"))?;
                self.read(of, name, values)
            }
            Type::Choice { selector, options } => {
                let value = values.number(selector).ok_or(Stop::Wrong("a variant's selector did not come before"))?;
                let has =
                    |ranges: &[(i128, i128)]| ranges.iter().any(|(from, to)| (*from..=*to).contains(&value.into()));
                let option = options.iter().find(|(ranges, _)| has(ranges));
                let (_, of) = option.ok_or(Stop::Wrong("a variant has no type for its selector's value"))?;
                self.read(of, name, values)
            }
            Type::Array { of, length } => self.array(of, *length, name, values),
            Type::Sequence { of, length } => {
                let length = values.number(length).ok_or(Stop::Wrong("a sequence's length did not come before"))?;
                self.array(of, length.cast_unsigned(), name, values)
            }
            Type::Optional { of, selector } => {
                let is_there =
                    values.number(selector).ok_or(Stop::Wrong("an optional field's selector did not come before"))?;
                if is_there == 0 { Ok(()) } else { self.read(of, name, values) }
            }
            _ => {
                let value = self.single(of, values)?;
                values.push(name, value);
                Ok(())
            }
        }
    }

    /// Reads what has no fields of its own.
    fn single<'m>(&mut self, of: &'m Type, values: &mut Values<'m>) -> Result<Value<'m>, Stop> {
        Ok(match of {
            Type::Integer(integer) => {
                let number = self.integer(integer)?;
                if integer.is_clock {
                    values.clock = Some((number, integer.size));
                }
                Value::Number(shown(number, integer))
            }
            Type::Enum { of, labels } => {
                let number = self.integer(of)?;
                labelled(number, shown(number, of), of.is_signed, labels)
            }
            Type::Varint { is_signed, is_clock, labels } => {
                let (number, bits) = self.varint()?;
                if *is_clock {
                    values.clock = Some((number, bits.min(64)));
                }
                let told = if *is_signed { signed(number, bits.min(64)) } else { number.cast_signed() };
                labelled(number, told, *is_signed, labels)
            }
            Type::Float { size, align, order } => {
                let (size, align, order) = (*size, *align, *order);
                let integer = Integer { size, align, is_signed: false, order, is_text: false, is_clock: false };
                let bits = self.integer(&integer)?;
                let is_short = size == 32;
                Value::Fraction(if is_short { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) })
            }
            _ => {
                let (from, to) = self.string()?;
                Value::Text(from, to)
            }
        })
    }

    /// Of characters a text is kept, of others the first.
    fn array<'m>(&mut self, of: &'m Type, length: u64, name: &'m str, values: &mut Values<'m>) -> Result<(), Stop> {
        if length > ELEMENTS_MAX {
            return Err(Stop::Wrong("an array has more than 16,777,216 elements"));
        }
        self.align(of.align());
        if let Type::Integer(Integer { size: 8, align, is_text: true, .. }) = of
            && *align <= 8
            && self.at.is_multiple_of(8)
        {
            let from = (self.at / 8) as usize;
            let next = self.at + length * 8;
            let to = from + length as usize;
            let text = self.bytes.get(from..to).filter(|_| next <= self.end).ok_or(Stop::End)?;
            let end = memchr::memchr(0, text).map_or(to, |end| from + end);
            self.at = next;
            values.push(name, Value::Text(from, end));
            return Ok(());
        }
        for index in 0..length {
            if index > 0 && self.at >= self.end {
                return Err(Stop::End);
            }
            let (before, begun) = (values.all.len(), self.at);
            self.read(of, name, values)?;
            // Further elements of no bits say nothing.
            if self.at == begun {
                break;
            }
            if index > 0 {
                values.all.truncate(before);
            }
        }
        Ok(())
    }
}

fn shown(number: u64, of: &Integer) -> i64 {
    if of.is_signed { signed(number, of.size) } else { number.cast_signed() }
}

fn labelled(number: u64, told: i64, is_signed: bool, labels: &[Label]) -> Value<'_> {
    let value = if is_signed { i128::from(told) } else { i128::from(number) };
    let label = labels.iter().find(|label| (label.from..=label.to).contains(&value));
    label.map_or(Value::Number(told), |label| Value::Labelled(told, &label.name))
}

/// The fields of an event, with the window that its texts lie in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a, 'm> {
    pub(crate) values: &'a Values<'m>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Told<'a, '_> {
    fn text_at(&self, from: usize, to: usize) -> &'a str {
        let bytes = self.bytes.get(from..to).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// A field of any sort as text.
    pub(crate) fn shown(&self, name: &str) -> Option<Cow<'a, str>> {
        Some(match self.values.find(name)? {
            Value::Text(from, to) => Cow::Borrowed(self.text_at(from, to)),
            Value::Labelled(_, label) => Cow::Owned(label.to_owned()),
            Value::Number(number) => Cow::Owned(number.to_string()),
            Value::Fraction(number) => Cow::Owned(number.to_string()),
        })
    }
}

impl<'a> Fields<'a> for Told<'a, '_> {
    fn number(&self, name: &str) -> Option<i64> {
        self.values.number(name)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        match self.values.find(name)? {
            Value::Text(from, to) => Some(self.text_at(from, to)),
            _ => None,
        }
    }
}
