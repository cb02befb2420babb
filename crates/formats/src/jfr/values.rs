//! Values of the flight recorder's events, by the classes that a chunk describes.

use crate::ReadError;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Classes within classes.
const DEPTH_MAX: usize = 16;
/// Elements of an array.
const ELEMENTS_MAX: u64 = 1 << 16;

/// How a class's values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    Text,
    /// One field after the other.
    Fields,
}

impl Sort {
    /// By the class's name.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "boolean" | "byte" => Self::Byte,
            "char" | "short" => Self::Short,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "java.lang.String" => Self::Text,
            _ => Self::Fields,
        }
    }
}

/// A class.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) name: Rc<str>,
    pub(crate) sort: Sort,
    pub(crate) fields: Vec<ClassField>,
}

/// A field of a class.
#[derive(Debug, Clone)]
pub(crate) struct ClassField {
    pub(crate) name: Rc<str>,
    pub(crate) class: u64,
    /// How its class is written; as fields where that is not described.
    pub(crate) sort: Sort,
    pub(crate) is_array: bool,
    /// Its value is a number in the class's pool of constants.
    pub(crate) is_constant: bool,
}

pub(crate) type Classes = FxHashMap<u64, Class>;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Number(i64),
    Fraction(f64),
    Text(String),
    /// A number in a class's pool.
    Constant(u64, u64),
    Object(Vec<(Rc<str>, Value)>),
    Array(Vec<Value>),
    Null,
}

impl Value {
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.iter().find(|(known, _)| **known == *name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// The bytes of a chunk, from a place on.
#[derive(Debug, Clone)]
pub(crate) struct Bytes<'a> {
    chunk: &'a [u8],
    pub(crate) at: usize,
    /// Where the chunk lies in the file, for errors.
    base: u64,
    is_compressed: bool,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(chunk: &'a [u8], at: usize, base: u64, is_compressed: bool) -> Self {
        Self { chunk, at, base, is_compressed }
    }

    /// The same bytes from another place on.
    pub(crate) fn from(&self, at: usize) -> Self {
        Self { at, ..self.clone() }
    }

    pub(crate) fn place(&self) -> u64 {
        self.base + self.at as u64
    }

    fn cut(&self) -> ReadError {
        ReadError::Cut { at: self.place(), within: "a chunk of the flight recorder's" }
    }

    pub(crate) fn wrong(&self, what: impl Into<String>) -> ReadError {
        ReadError::wrong(self.place(), what)
    }

    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], ReadError> {
        let taken = usize::try_from(count).ok().and_then(|count| self.chunk.get(self.at..self.at.checked_add(count)?));
        let taken = taken.ok_or_else(|| self.cut())?;
        self.at += taken.len();
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ReadError> {
        Ok(self.take(1)?[0])
    }

    fn big_endian(&mut self, count: u64) -> Result<u64, ReadError> {
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A whole number: seven bits a byte, of the ninth all eight; or, where a chunk is not compressed, all its bytes.
    pub(crate) fn whole(&mut self, plain_bytes: u64) -> Result<u64, ReadError> {
        if !self.is_compressed {
            return self.big_endian(plain_bytes);
        }
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        let mut number = 0u64;
        for (index, byte) in rest.iter().take(9).enumerate() {
            if index == 8 || byte & 0x80 == 0 {
                self.at += index + 1;
                return Ok(number | u64::from(*byte) << (7 * index));
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
        }
        Err(self.cut())
    }

    pub(crate) fn int(&mut self) -> Result<u64, ReadError> {
        self.whole(4)
    }

    pub(crate) fn long(&mut self) -> Result<u64, ReadError> {
        self.whole(8)
    }

    /// A text, or its number in the pool of texts.
    pub(crate) fn text(&mut self) -> Result<Result<String, u64>, ReadError> {
        Ok(Ok(match self.byte()? {
            0 | 1 => String::new(),
            2 => return Ok(Err(self.long()?)),
            3 => {
                let length = self.int()?;
                String::from_utf8_lossy(self.take(length)?).into_owned()
            }
            4 => {
                let length = self.int()?;
                let mut units = Vec::new();
                for _ in 0..length {
                    units.push(self.whole(2)? as u16);
                }
                String::from_utf16_lossy(&units)
            }
            5 => {
                let length = self.int()?;
                self.take(length)?.iter().map(|byte| char::from(*byte)).collect()
            }
            other => return Err(self.wrong(format!("a text has the form {other}, which is none"))),
        }))
    }

    /// A value of a class.
    pub(crate) fn value(&mut self, class: u64, classes: &Classes, depth: usize) -> Result<Value, ReadError> {
        let known = classes.get(&class);
        let known = known.ok_or_else(|| self.wrong(format!("the chunk does not describe the class {class}")))?;
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!("its classes are more than {DEPTH_MAX} deep")));
        }
        if known.sort != Sort::Fields {
            return self.simple(known.sort, class);
        }
        let mut fields = Vec::with_capacity(known.fields.len());
        for field in &known.fields {
            fields.push((Rc::clone(&field.name), self.field(field, classes, depth)?));
        }
        Ok(Value::Object(fields))
    }

    /// A value that has no fields.
    fn simple(&mut self, sort: Sort, class: u64) -> Result<Value, ReadError> {
        Ok(match sort {
            Sort::Byte => Value::Number(i64::from(self.byte()?)),
            Sort::Short => Value::Number(i64::from((self.whole(2)? as u16).cast_signed())),
            Sort::Int => Value::Number(i64::from((self.int()? as u32).cast_signed())),
            Sort::Long => Value::Number(self.long()?.cast_signed()),
            Sort::Float => Value::Fraction(f64::from(f32::from_bits(self.big_endian(4)? as u32))),
            Sort::Double => Value::Fraction(f64::from_bits(self.big_endian(8)?)),
            Sort::Text => self.text()?.map_or_else(|number| Value::Constant(class, number), Value::Text),
            Sort::Fields => Value::Null,
        })
    }

    pub(crate) fn field(&mut self, field: &ClassField, classes: &Classes, depth: usize) -> Result<Value, ReadError> {
        if !field.is_array {
            return self.single(field, classes, depth);
        }
        let mut elements = Vec::new();
        self.elements(|bytes| bytes.single(field, classes, depth).map(|value| elements.push(value)))?;
        Ok(Value::Array(elements))
    }

    /// Reads each element of an array.
    fn elements(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), ReadError>) -> Result<(), ReadError> {
        let length = self.int()?;
        if length > ELEMENTS_MAX {
            return Err(self.wrong(format!("an array has {length} elements; at most {ELEMENTS_MAX} are read")));
        }
        for _ in 0..length {
            let before = self.at;
            read(self)?;
            if self.at == before {
                return Err(self.wrong("an array's elements have no bytes"));
            }
        }
        Ok(())
    }

    fn single(&mut self, field: &ClassField, classes: &Classes, depth: usize) -> Result<Value, ReadError> {
        if field.is_constant {
            return Ok(Value::Constant(field.class, self.long()?));
        }
        // What it is, the field knows: to look for its class takes longer than to read it.
        if field.sort != Sort::Fields && depth < DEPTH_MAX {
            return self.simple(field.sort, field.class);
        }
        self.value(field.class, classes, depth + 1)
    }

    /// Passes over a field: what is not asked for takes no memory.
    pub(crate) fn pass(&mut self, field: &ClassField, classes: &Classes, depth: usize) -> Result<(), ReadError> {
        if field.is_array {
            return self.elements(|bytes| bytes.pass_single(field, classes, depth));
        }
        self.pass_single(field, classes, depth)
    }

    fn pass_single(&mut self, field: &ClassField, classes: &Classes, depth: usize) -> Result<(), ReadError> {
        if field.is_constant {
            return self.long().map(drop);
        }
        if field.sort != Sort::Fields && depth < DEPTH_MAX {
            return self.simple(field.sort, field.class).map(drop);
        }
        self.pass_value(field.class, classes, depth + 1)
    }

    /// Passes over a value of a class.
    pub(crate) fn pass_value(&mut self, class: u64, classes: &Classes, depth: usize) -> Result<(), ReadError> {
        match classes.get(&class).filter(|_| depth <= DEPTH_MAX) {
            Some(known) if known.sort == Sort::Fields => {
                known.fields.iter().try_for_each(|field| self.pass(field, classes, depth))
            }
            // Of the others a value takes no memory, but for a text that stands here itself.
            _ => self.value(class, classes, depth).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Classes of each sort, and one that has fields of all of them, arrays and constants among them.
    fn classes() -> Classes {
        let names = ["boolean", "short", "int", "long", "float", "double", "java.lang.String", "Own", "Whole"];
        let field = |class: u64| ClassField {
            name: Rc::from("field"),
            class,
            sort: names.get(class as usize - 1).map_or(Sort::Fields, |name| Sort::of(name)),
            is_array: class.is_multiple_of(3),
            is_constant: class == 4,
        };
        let of = |number: u64| match number {
            8 => vec![field(2), field(3), field(7)],
            9 => (1..9).map(field).collect(),
            _ => Vec::new(),
        };
        let class = |(number, name): (u64, &str)| {
            (number, Class { name: name.into(), sort: Sort::of(name), fields: of(number) })
        };
        (1..).zip(names).map(class).collect()
    }

    proptest! {
        #[test]
        fn what_is_passed_over_ends_where_its_value_ends(
            bytes in proptest::collection::vec(0u8..8, 0..80),
            is_compressed: bool,
        ) {
            let classes = classes();
            let whole = ClassField {
                name: Rc::from("whole"),
                class: 9,
                sort: Sort::Fields,
                is_array: false,
                is_constant: false,
            };
            let begin = Bytes::new(&bytes, 0, 0, is_compressed);
            let (mut made, mut passed) = (begin.clone(), begin);
            let outcomes = (made.field(&whole, &classes, 0).is_ok(), passed.pass(&whole, &classes, 0).is_ok());
            prop_assert_eq!(outcomes.0, outcomes.1);
            prop_assert_eq!(made.at, passed.at);
        }

        #[test]
        fn whole_numbers_are_read_as_they_are_written(number: u64) {
            let mut bytes = Vec::new();
            for index in 0..9 {
                let rest = number >> (7 * index);
                let is_last = index == 8 || rest < 0x80;
                bytes.push(if is_last { rest as u8 } else { rest as u8 | 0x80 });
                if is_last {
                    break;
                }
            }
            let mut read = Bytes::new(&bytes, 0, 0, true);
            prop_assert_eq!((read.long().expect("it is whole"), read.at), (number, bytes.len()));
            prop_assert!(Bytes::new(&bytes[..bytes.len() - 1], 0, 0, true).long().is_err());
        }
    }
}
