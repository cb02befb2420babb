//! Values of the flight recorder's events, by the classes that a chunk describes.

use crate::ReadError;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Classes within classes.
const DEPTH_MAX: usize = 16;
/// Elements of an array.
const ELEMENTS_MAX: u64 = 1 << 16;

/// A class.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) name: Rc<str>,
    pub(crate) fields: Vec<ClassField>,
}

/// A field of a class.
#[derive(Debug, Clone)]
pub(crate) struct ClassField {
    pub(crate) name: Rc<str>,
    pub(crate) class: u64,
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
        let mut number = 0u64;
        for index in 0..9 {
            let byte = self.byte()?;
            if index == 8 {
                return Ok(number | u64::from(byte) << 56);
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(number)
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
        Ok(match &*known.name {
            "boolean" | "byte" => Value::Number(i64::from(self.byte()?)),
            "char" | "short" => Value::Number(i64::from((self.whole(2)? as u16).cast_signed())),
            "int" => Value::Number(i64::from((self.int()? as u32).cast_signed())),
            "long" => Value::Number(self.long()?.cast_signed()),
            "float" => Value::Fraction(f64::from(f32::from_bits(self.big_endian(4)? as u32))),
            "double" => Value::Fraction(f64::from_bits(self.big_endian(8)?)),
            "java.lang.String" => self.text()?.map_or_else(|number| Value::Constant(class, number), Value::Text),
            _ => {
                let mut fields = Vec::with_capacity(known.fields.len());
                for field in &known.fields {
                    fields.push((Rc::clone(&field.name), self.field(field, classes, depth)?));
                }
                Value::Object(fields)
            }
        })
    }

    pub(crate) fn field(&mut self, field: &ClassField, classes: &Classes, depth: usize) -> Result<Value, ReadError> {
        if !field.is_array {
            return self.single(field, classes, depth);
        }
        let length = self.int()?;
        if length > ELEMENTS_MAX {
            return Err(self.wrong(format!("an array has {length} elements; at most {ELEMENTS_MAX} are read")));
        }
        let mut elements = Vec::new();
        for _ in 0..length {
            let before = self.at;
            elements.push(self.single(field, classes, depth)?);
            if self.at == before {
                return Err(self.wrong("an array's elements have no bytes"));
            }
        }
        Ok(Value::Array(elements))
    }

    fn single(&mut self, field: &ClassField, classes: &Classes, depth: usize) -> Result<Value, ReadError> {
        if field.is_constant {
            return Ok(Value::Constant(field.class, self.long()?));
        }
        self.value(field.class, classes, depth + 1)
    }
}
