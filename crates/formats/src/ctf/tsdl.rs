//! CTF 1.8's metadata: TSDL (Common Trace Format 1.8.3, sections 4 to 7).

use super::tokens::{Kind, Token, tokens};
use super::types::{EventClass, Integer, Label, Metadata, Order, Type};
use crate::ReadError;
use std::collections::HashMap;

/// Types within types; more are damage.
const DEPTH_MAX: usize = 32;
/// Fields of all types, labels of all enumerations, each alias counted as often as it is used.
const MEMBERS_MAX: usize = 1 << 20;
/// An event that names no stream or id has 0.
const DEFAULT_ID: u64 = 0;

/// Reads metadata; what of it has no meaning here is passed over.
pub(crate) fn metadata(text: &str) -> Result<Metadata, ReadError> {
    let order = native_order(text);
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        aliases: HashMap::new(),
        metadata: Metadata { order, ..Metadata::default() },
        depth: 0,
        members: 0,
    };
    while *parser.peek() != Kind::End {
        parser.declaration()?;
    }
    Ok(parser.metadata)
}

/// The trace's own order of bytes, which types may be told before.
fn native_order(text: &str) -> Order {
    let trace = text.find("trace {").or_else(|| text.find("trace{")).map_or("", |at| &text[at..]);
    let value = trace.split_once("byte_order").map_or("", |(_, rest)| rest);
    let value = value.trim_start_matches([' ', '\t', '=']);
    if value.starts_with("be") || value.starts_with("network") { Order::Big } else { Order::Little }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    aliases: HashMap<String, Type>,
    metadata: Metadata,
    depth: usize,
    members: usize,
}

/// What stands behind an attribute's name.
enum Value {
    Number(i128),
    Text(String),
}

impl Value {
    fn number(&self) -> i128 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => i128::from(text.eq_ignore_ascii_case("true")),
        }
    }

    fn id(&self) -> u64 {
        u64::try_from(self.number()).unwrap_or(u64::MAX)
    }

    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

impl Parser {
    fn peek(&self) -> &Kind {
        self.tokens.get(self.next).map_or(&Kind::End, |token| &token.kind)
    }

    fn at(&self) -> u64 {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |token| token.at)
    }

    fn take(&mut self) -> Kind {
        let kind = self.peek().clone();
        self.next += 1;
        kind
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Kind::Sign(one) if *one == sign)
    }

    fn passes(&mut self, sign: &str) -> bool {
        let is = self.is_sign(sign);
        self.next += usize::from(is);
        is
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Word(one) if one == word)
    }

    fn expect(&mut self, sign: &str) -> Result<(), ReadError> {
        if self.passes(sign) { Ok(()) } else { Err(self.wrong(&format!("{sign:?} is missing"))) }
    }

    fn wrong(&self, what: &str) -> ReadError {
        ReadError::wrong(self.at(), format!("{what}; is metadata a description in TSDL of CTF 1.8?"))
    }

    fn word(&mut self) -> Result<String, ReadError> {
        match self.peek().clone() {
            Kind::Word(word) | Kind::Text(word) => {
                self.next += 1;
                Ok(word)
            }
            _ => Err(self.wrong("a name is missing")),
        }
    }

    fn member(&mut self, count: usize) -> Result<(), ReadError> {
        self.members = self.members.saturating_add(count);
        if self.members > MEMBERS_MAX {
            return Err(self.wrong(&format!("it has more than {MEMBERS_MAX} fields and labels")));
        }
        Ok(())
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, ReadError>) -> Result<T, ReadError> {
        if self.depth >= DEPTH_MAX {
            return Err(self.wrong(&format!("its types are more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let outcome = read(self);
        self.depth -= 1;
        outcome
    }

    fn declaration(&mut self) -> Result<(), ReadError> {
        if self.passes(";") {
            return Ok(());
        }
        let Kind::Word(word) = self.peek().clone() else { return Err(self.wrong("a declaration is missing")) };
        match word.as_str() {
            "trace" => self.trace()?,
            "env" => self.environment()?,
            "clock" => self.clock()?,
            "stream" => self.stream()?,
            "event" => self.event()?,
            "callsite" => {
                self.next += 1;
                self.pass_block()?;
            }
            _ => self.type_declaration()?,
        }
        self.expect(";")
    }

    /// `typealias TYPE := NAME`, `typedef TYPE NAME`, or a type that has a name of its own.
    fn type_declaration(&mut self) -> Result<(), ReadError> {
        if self.is_word("typealias") {
            self.next += 1;
            let of = self.of_type()?;
            self.expect(":=")?;
            let mut name = Vec::new();
            while let Kind::Word(word) = self.peek().clone() {
                self.next += 1;
                name.push(word);
            }
            self.aliases.insert(name.join(" "), of);
        } else if self.is_word("typedef") {
            self.next += 1;
            let of = self.of_type()?;
            let (name, of) = self.declarator(of)?;
            self.aliases.insert(name, of);
        } else {
            self.of_type()?;
        }
        Ok(())
    }

    /// `NAME = VALUE;` or `NAME := TYPE;` within a block, which `each` gets.
    fn block(
        &mut self,
        mut each: impl FnMut(&mut Self, &str, Result<Value, Type>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        self.next += 1;
        self.expect("{")?;
        while !self.passes("}") {
            if self.passes(";") {
                continue;
            }
            if ["typealias", "typedef", "struct", "enum", "variant"].iter().any(|word| self.is_word(word)) {
                self.type_declaration()?;
                self.expect(";")?;
                continue;
            }
            let mut name = self.word()?;
            while self.passes(".") {
                name = format!("{name}.{}", self.word()?);
            }
            let value = if self.passes(":=") {
                Err(self.of_type()?)
            } else {
                self.expect("=")?;
                Ok(self.value()?)
            };
            each(self, &name, value)?;
            self.expect(";")?;
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value, ReadError> {
        let is_negative = self.passes("-");
        match self.take() {
            Kind::Number(number) => Ok(Value::Number(if is_negative { -number } else { number })),
            Kind::Text(text) => Ok(Value::Text(text)),
            Kind::Word(mut word) => {
                // `clock.monotonic.value`
                while self.passes(".") {
                    word = format!("{word}.{}", self.word()?);
                }
                Ok(Value::Text(word))
            }
            _ => Err(self.wrong("a value is missing")),
        }
    }

    fn pass_block(&mut self) -> Result<(), ReadError> {
        self.expect("{")?;
        let mut open = 1;
        while open > 0 {
            match self.take() {
                Kind::Sign("{") => open += 1,
                Kind::Sign("}") => open -= 1,
                Kind::End => return Err(self.wrong("a block has no end")),
                _ => {}
            }
        }
        Ok(())
    }

    fn trace(&mut self) -> Result<(), ReadError> {
        self.block(|parser, name, value| {
            if let ("packet.header", Err(of)) = (name, value) {
                parser.metadata.packet_header = Some(of);
            }
            Ok(())
        })
    }

    fn environment(&mut self) -> Result<(), ReadError> {
        self.block(|parser, name, value| {
            if let ("hostname" | "host", Ok(value)) = (name, value) {
                parser.metadata.host = Some(value.text());
            }
            Ok(())
        })
    }

    fn clock(&mut self) -> Result<(), ReadError> {
        // Of several clocks the first is the one that is named; times of others are not told apart.
        let is_first = self.metadata.clock.is_none();
        self.block(|parser, name, value| {
            match (name, value) {
                ("name", Ok(value)) if is_first => parser.metadata.clock = Some(value.text()),
                ("freq", Ok(value)) if is_first => parser.metadata.frequency_hz = value.id().max(1),
                _ => {}
            }
            Ok(())
        })
    }

    fn stream(&mut self) -> Result<(), ReadError> {
        let (mut id, mut header, mut packet, mut event) = (DEFAULT_ID, None, None, None);
        self.block(|_, name, value| {
            match (name, value) {
                ("id", Ok(value)) => id = value.id(),
                ("event.header", Err(of)) => header = Some(of),
                ("packet.context", Err(of)) => packet = Some(of),
                ("event.context", Err(of)) => event = Some(of),
                _ => {}
            }
            Ok(())
        })?;
        let stream = self.metadata.stream(id);
        (stream.event_header, stream.packet_context, stream.event_context) = (header, packet, event);
        Ok(())
    }

    fn event(&mut self) -> Result<(), ReadError> {
        let (mut id, mut stream) = (DEFAULT_ID, DEFAULT_ID);
        let mut class = EventClass { name: String::new(), context: None, fields: None };
        self.block(|_, name, value| {
            match (name, value) {
                ("id", Ok(value)) => id = value.id(),
                ("stream_id", Ok(value)) => stream = value.id(),
                ("name", Ok(value)) => class.name = value.text(),
                ("context", Err(of)) => class.context = Some(of),
                ("fields", Err(of)) => class.fields = Some(of),
                _ => {}
            }
            Ok(())
        })?;
        self.metadata.stream(stream).events.insert(id, class);
        Ok(())
    }

    /// A type, by its description or by its name.
    fn of_type(&mut self) -> Result<Type, ReadError> {
        self.deeper(|parser| {
            let Kind::Word(word) = parser.peek().clone() else { return Err(parser.wrong("a type is missing")) };
            parser.next += 1;
            match word.as_str() {
                "integer" => parser.integer(),
                "floating_point" => parser.float(),
                "string" => {
                    if parser.is_sign("{") {
                        parser.pass_block()?;
                    }
                    Ok(Type::String)
                }
                "struct" => parser.structure(),
                "enum" => parser.enumeration(),
                "variant" => parser.variant(),
                _ => parser.alias(word),
            }
        })
    }

    /// A name of several words, such as `unsigned long`: the longest that is known.
    fn alias(&mut self, first: String) -> Result<Type, ReadError> {
        let mut name = first;
        while let Kind::Word(next) = self.peek() {
            let longer = format!("{name} {next}");
            let is_begin = |known: &String| *known == longer || known.starts_with(&format!("{longer} "));
            if !self.aliases.keys().any(is_begin) {
                break;
            }
            (name, self.next) = (longer, self.next + 1);
        }
        let of = self.aliases.get(&name).cloned().ok_or_else(|| self.wrong(&format!("no type is called {name:?}")))?;
        self.member(of.members())?;
        Ok(of)
    }

    fn integer(&mut self) -> Result<Type, ReadError> {
        let at = self.at();
        let order = self.metadata.order;
        let mut integer = Integer { size: 0, align: 0, is_signed: false, order, is_text: false, is_clock: false };
        // The block's own name was taken, which `block` passes over.
        self.next -= 1;
        self.block(|_, name, value| {
            match (name, value) {
                ("size", Ok(value)) => integer.size = u32::try_from(value.number()).unwrap_or(0),
                ("align", Ok(value)) => integer.align = u32::try_from(value.number()).unwrap_or(0),
                ("signed", Ok(value)) => integer.is_signed = value.number() != 0,
                ("byte_order", Ok(value)) => integer.order = order_of(&value.text(), order),
                ("encoding", Ok(value)) => {
                    let encoding = value.text();
                    integer.is_text = ["UTF8", "utf8", "UTF-8", "ASCII", "ascii"].contains(&encoding.as_str());
                }
                ("map", Ok(_)) => integer.is_clock = true,
                _ => {}
            }
            Ok(())
        })?;
        if integer.align == 0 {
            integer.align = if integer.size.is_multiple_of(8) { 8 } else { 1 };
        }
        check_size(integer.size, integer.align, at)?;
        Ok(Type::Integer(integer))
    }

    fn float(&mut self) -> Result<Type, ReadError> {
        let at = self.at();
        let (mut size, mut align, mut order) = (0, 8, self.metadata.order);
        self.next -= 1;
        self.block(|_, name, value| {
            match (name, value) {
                ("exp_dig" | "mant_dig", Ok(value)) => size += u32::try_from(value.number()).unwrap_or(0),
                ("align", Ok(value)) => align = u32::try_from(value.number()).unwrap_or(0),
                ("byte_order", Ok(value)) => order = order_of(&value.text(), order),
                _ => {}
            }
            Ok(())
        })?;
        if size != 32 && size != 64 {
            return Err(ReadError::wrong(at, format!("a floating-point number has {size} bits; 32 and 64 are read")));
        }
        check_size(size, align, at)?;
        Ok(Type::Float { size, align, order })
    }

    /// `struct NAME { … } align(N)`, or `struct NAME`.
    fn structure(&mut self) -> Result<Type, ReadError> {
        let name = self.own_name("struct");
        if !self.is_sign("{") {
            return self.named(name);
        }
        let fields = self.fields()?;
        let mut align = 1;
        if self.is_word("align") {
            self.next += 1;
            self.expect("(")?;
            let at = self.at();
            align = u32::try_from(self.value()?.number()).unwrap_or(0);
            check_size(1, align, at)?;
            self.expect(")")?;
        }
        Ok(self.known_as(name, Type::Struct { align, fields }))
    }

    /// `variant NAME <TAG> { … }`
    fn variant(&mut self) -> Result<Type, ReadError> {
        let name = self.own_name("variant");
        let mut tag = String::new();
        if self.passes("<") {
            while !self.passes(">") {
                // Of a path the last name counts.
                match self.take() {
                    Kind::Word(word) => tag = word,
                    Kind::Sign(".") => {}
                    _ => return Err(self.wrong("a variant's tag is missing")),
                }
            }
        }
        if !self.is_sign("{") {
            let Type::Variant { options, .. } = self.named(name)? else {
                return Err(self.wrong("that is no variant"));
            };
            return Ok(Type::Variant { tag, options });
        }
        let options = self.fields()?;
        Ok(self.known_as(name, Type::Variant { tag, options }))
    }

    fn own_name(&mut self, sort: &str) -> Option<String> {
        let Kind::Word(word) = self.peek().clone() else { return None };
        if word == "align" {
            return None;
        }
        self.next += 1;
        Some(format!("{sort} {word}"))
    }

    fn named(&mut self, name: Option<String>) -> Result<Type, ReadError> {
        let name = name.ok_or_else(|| self.wrong("a type's name is missing"))?;
        let of = self.aliases.get(&name).cloned().ok_or_else(|| self.wrong(&format!("there is no {name}")))?;
        self.member(of.members())?;
        Ok(of)
    }

    fn known_as(&mut self, name: Option<String>, of: Type) -> Type {
        if let Some(name) = name {
            self.aliases.insert(name, of.clone());
        }
        of
    }

    fn fields(&mut self) -> Result<Vec<(String, Type)>, ReadError> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.passes("}") {
            if self.is_word("typealias") || self.is_word("typedef") {
                self.type_declaration()?;
                self.expect(";")?;
                continue;
            }
            let of = self.of_type()?;
            let (name, of) = self.declarator(of)?;
            self.member(1)?;
            fields.push((name, of));
            self.expect(";")?;
        }
        Ok(fields)
    }

    /// A field's name, with lengths of arrays behind it; a leading `_` is not its own.
    fn declarator(&mut self, of: Type) -> Result<(String, Type), ReadError> {
        let name = self.word()?;
        let mut lengths = Vec::new();
        while self.passes("[") {
            lengths.push(match self.take() {
                Kind::Number(number) => Ok(u64::try_from(number).unwrap_or(u64::MAX)),
                Kind::Word(mut word) => {
                    while self.passes(".") {
                        word = self.word()?;
                    }
                    Err(bare(&word))
                }
                _ => return Err(self.wrong("an array's length is missing")),
            });
            self.expect("]")?;
        }
        // The last length is that of the innermost array.
        let of = lengths.into_iter().rev().fold(of, |of, length| match length {
            Ok(length) => Type::Array { of: Box::new(of), length },
            Err(length) => Type::Sequence { of: Box::new(of), length },
        });
        Ok((bare(&name), of))
    }

    /// `enum NAME : TYPE { A, B = 2, C = 3 ... 5 }`
    fn enumeration(&mut self) -> Result<Type, ReadError> {
        let name = self.own_name("enum");
        let of = if self.passes(":") {
            match self.of_type()? {
                Type::Integer(of) => of,
                _ => return Err(self.wrong("an enumeration is no integer's")),
            }
        } else if self.is_sign("{") {
            match self.aliases.get("int") {
                Some(Type::Integer(of)) => *of,
                _ => return Err(self.wrong("an enumeration has no type, and none is called int")),
            }
        } else {
            return self.named(name);
        };
        let labels = self.labels()?;
        Ok(self.known_as(name, Type::Enum { of, labels }))
    }

    fn labels(&mut self) -> Result<Vec<Label>, ReadError> {
        self.expect("{")?;
        let (mut labels, mut next) = (Vec::new(), 0i128);
        while !self.passes("}") {
            let name = bare(&self.word()?);
            let (mut from, mut to) = (next, next);
            if self.passes("=") {
                from = self.value()?.number();
                to = if self.passes("...") { self.value()?.number() } else { from };
            }
            next = to.saturating_add(1);
            self.member(1)?;
            labels.push(Label { name, from, to });
            if !self.passes(",") && !self.is_sign("}") {
                return Err(self.wrong("a comma is missing"));
            }
        }
        Ok(labels)
    }
}

fn order_of(word: &str, native: Order) -> Order {
    match word {
        "be" | "network" => Order::Big,
        "le" => Order::Little,
        _ => native,
    }
}

fn check_size(size: u32, align: u32, at: u64) -> Result<(), ReadError> {
    if !(1..=64).contains(&size) {
        return Err(ReadError::wrong(at, format!("a number has {size} bits; 1 to 64 are read")));
    }
    if !align.is_power_of_two() || align > 4096 {
        return Err(ReadError::wrong(at, format!("an alignment of {align} bits is no power of two")));
    }
    Ok(())
}

/// A name as it is shown: writers set `_` before names that could be words of the language.
pub(crate) fn bare(name: &str) -> String {
    name.strip_prefix('_').unwrap_or(name).to_owned()
}
