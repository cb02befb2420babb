//! What clients define: applications, transactions, metrics, instances. Equal ones of many processes are kept once.

use crate::transaction::{MetricSort, Named};
use std::collections::HashMap;
use std::sync::Arc;
use weir_wire::arm::{Definition, Field, Sort};

/// Definitions that are kept of all processes together; beyond, they count as dropped.
pub const MOST_DEFINITIONS_KEPT: usize = 32_768;
/// Bytes of their texts likewise.
pub const MOST_BYTES_KEPT: usize = 16 << 20;
/// Metrics of a transaction.
pub const SLOTS: usize = 7;

/// An application.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Application {
    /// Its name.
    pub name: Arc<str>,
    /// The properties that identify it.
    pub properties: Vec<Named>,
    /// Names of its instances' context, with their indexes.
    pub context_names: Vec<(u8, String)>,
    /// The user of all its transactions.
    pub user: Option<Arc<str>>,
}

/// A transaction of an application.
#[derive(Debug, PartialEq, Eq)]
pub struct Described {
    /// Its application.
    pub application: Arc<Application>,
    /// Its name.
    pub name: Arc<str>,
    /// The standard's version by which it was defined.
    pub standard: u8,
    /// The properties that identify it.
    pub properties: Vec<Named>,
    /// Names of its context, with their indexes.
    pub context_names: Vec<(u8, String)>,
    /// Its URI.
    pub uri: Option<String>,
    /// Its metrics by slot.
    pub metrics: [Option<Arc<MetricDefinition>>; SLOTS],
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDefinition {
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// The standard's number of its format.
    pub format: u8,
    /// The standard's number of its usage.
    pub usage: u8,
}

/// How values of a format become one; `None` for a format that the standard does not have.
#[must_use]
pub fn sort_of_format(format: u8) -> Option<MetricSort> {
    match format {
        1..=3 => Some(MetricSort::Counter),
        4..=6 => Some(MetricSort::Gauge),
        7 | 8 => Some(MetricSort::Identifier),
        10 => Some(MetricSort::Text),
        _ => None,
    }
}

/// A running instance of an application.
#[derive(Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its application.
    pub application: Arc<Application>,
    /// The group that it belongs to.
    pub group: Option<String>,
    /// Its name.
    pub instance: Option<String>,
    /// The user of all its transactions.
    pub user: Option<Arc<str>>,
    /// Values of its context.
    pub context: Vec<Named>,
}

/// What a number of a process stands for.
#[derive(Debug, Clone, Default)]
pub enum Known {
    /// Nothing that is known here, or that there was no room for.
    #[default]
    Nothing,
    /// An application.
    Application(Arc<Application>),
    /// A transaction.
    Transaction(Arc<Described>),
    /// A metric.
    Metric(Arc<MetricDefinition>),
    /// An instance of an application.
    Instance(Arc<Instance>),
}

/// The definitions of one process, by number.
#[derive(Debug, Default)]
pub struct Definitions {
    known: Vec<Known>,
}

impl Definitions {
    /// How many there are; their numbers go from 1 to this.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// What a number stands for.
    #[must_use]
    pub fn get(&self, number: usize) -> &Known {
        number.checked_sub(1).and_then(|at| self.known.get(at)).unwrap_or(&Known::Nothing)
    }

    /// Every number with what it stands for.
    pub fn each(&self) -> impl Iterator<Item = (usize, &Known)> {
        self.known.iter().enumerate().map(|(at, known)| (at + 1, known))
    }

    /// The transaction of a number.
    #[must_use]
    pub fn transaction(&self, number: usize) -> Option<&Arc<Described>> {
        match self.get(number) {
            Known::Transaction(described) => Some(described),
            _ => None,
        }
    }

    /// The instance of a number.
    #[must_use]
    pub fn instance(&self, number: usize) -> Option<&Arc<Instance>> {
        match self.get(number) {
            Known::Instance(instance) => Some(instance),
            _ => None,
        }
    }

    /// Takes the next definition; `false` = there was no room for it, or it means nothing here.
    pub fn take(&mut self, definition: &Definition<'_>, kept: &mut Kept) -> bool {
        let known = kept.known(definition, self);
        let is_known = !matches!(known, Known::Nothing);
        self.known.push(known);
        is_known
    }
}

/// The definitions of all processes: each is kept once.
#[derive(Debug, Default)]
pub struct Kept {
    /// By everything that tells it from others.
    by_content: HashMap<Vec<u8>, Known>,
    bytes: usize,
}

impl Kept {
    /// How many there are, and how many bytes tell them apart.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.by_content.len(), self.bytes)
    }

    fn known(&mut self, definition: &Definition<'_>, of_process: &Definitions) -> Known {
        let key = key(definition, of_process);
        if let Some(known) = self.by_content.get(&key) {
            return known.clone();
        }
        if self.is_full(key.len()) {
            self.forget_unused();
        }
        if self.is_full(key.len()) {
            return Known::Nothing;
        }
        let known = read(definition, of_process);
        self.bytes += key.len();
        self.by_content.insert(key, known.clone());
        known
    }

    fn is_full(&self, more: usize) -> bool {
        self.by_content.len() >= MOST_DEFINITIONS_KEPT || self.bytes + more > MOST_BYTES_KEPT
    }

    /// Forgets what no live process and no transaction refers to.
    fn forget_unused(&mut self) {
        let used = |known: &Known| match known {
            Known::Nothing => false,
            Known::Application(value) => Arc::strong_count(value) > 1,
            Known::Transaction(value) => Arc::strong_count(value) > 1,
            Known::Metric(value) => Arc::strong_count(value) > 1,
            Known::Instance(value) => Arc::strong_count(value) > 1,
        };
        self.by_content.retain(|_, known| used(known));
        self.bytes = self.by_content.keys().map(Vec::len).sum();
    }
}

/// Everything that tells a definition from others: what it refers to by number stands there by its address, which is
/// the same for equal ones as they are kept once, and stays as the definition holds on to it.
fn key(definition: &Definition<'_>, of_process: &Definitions) -> Vec<u8> {
    let mut key = vec![definition.sort, definition.standard];
    key.extend(address(of_process.get(usize::from(definition.belongs_to))).to_ne_bytes());
    for (field, index, piece) in definition.pieces() {
        // Each process has its own command line, and its transactions are no others for that.
        if field == Field::CommandLine {
            continue;
        }
        key.extend([field as u8, index]);
        if field == Field::MetricBinding {
            key.extend(address(of_process.get(bound_number(piece))).to_ne_bytes());
        } else {
            key.extend((piece.len() as u16).to_ne_bytes());
            key.extend(piece);
        }
    }
    key
}

fn address(known: &Known) -> usize {
    match known {
        Known::Nothing => 0,
        Known::Application(value) => Arc::as_ptr(value).addr(),
        Known::Transaction(value) => Arc::as_ptr(value).addr(),
        Known::Metric(value) => Arc::as_ptr(value).addr(),
        Known::Instance(value) => Arc::as_ptr(value).addr(),
    }
}

fn bound_number(piece: &[u8]) -> usize {
    piece.first_chunk().map_or(0, |bytes| usize::from(u16::from_ne_bytes(*bytes)))
}

fn read(definition: &Definition<'_>, of_process: &Definitions) -> Known {
    let application = || match of_process.get(usize::from(definition.belongs_to)) {
        Known::Application(application) => Arc::clone(application),
        _ => Arc::new(Application::default()),
    };
    let text = |field: Field| definition.text(field);
    let name = || text(Field::Name).unwrap_or_default();
    let user = || text(Field::User).map(Arc::from);
    let is = |sort: Sort| definition.sort == sort as u8;
    if is(Sort::Application) {
        Known::Application(Arc::new(Application {
            name: name().into(),
            properties: properties(definition),
            context_names: indexed(definition, Field::ContextName),
            user: user(),
        }))
    } else if is(Sort::Transaction) {
        let mut metrics = [const { None }; SLOTS];
        for (field, slot, piece) in definition.pieces() {
            if let (Field::MetricBinding, Some(place), Known::Metric(metric)) =
                (field, metrics.get_mut(usize::from(slot)), of_process.get(bound_number(piece)))
            {
                place.get_or_insert_with(|| Arc::clone(metric));
            }
        }
        Known::Transaction(Arc::new(Described {
            application: application(),
            name: name().into(),
            standard: definition.standard,
            properties: properties(definition),
            context_names: indexed(definition, Field::ContextName),
            uri: text(Field::Uri),
            metrics,
        }))
    } else if is(Sort::Metric) {
        let format = definition.pieces().find(|piece| piece.0 == Field::MetricFormat).map_or(&[][..], |piece| piece.2);
        Known::Metric(Arc::new(MetricDefinition {
            name: name(),
            unit: text(Field::MetricUnit).unwrap_or_default(),
            format: format.first().copied().unwrap_or(0),
            usage: format.get(1).copied().unwrap_or(0),
        }))
    } else if is(Sort::Instance) {
        let application = application();
        let values = indexed(definition, Field::ContextValue);
        let context = with_names(&application.context_names, values);
        let (group, instance) = (text(Field::Group), text(Field::Instance));
        Known::Instance(Arc::new(Instance { application, group, instance, user: user(), context }))
    } else {
        Known::Nothing
    }
}

/// All pieces of a field, as texts with their indexes.
fn indexed(definition: &Definition<'_>, field: Field) -> Vec<(u8, String)> {
    let pieces = definition.pieces().filter(|piece| piece.0 == field);
    pieces.map(|piece| (piece.1, String::from_utf8_lossy(piece.2).into_owned())).collect()
}

fn properties(definition: &Definition<'_>) -> Vec<Named> {
    let values = indexed(definition, Field::PropertyValue);
    let value = |index: u8| values.iter().find(|value| value.0 == index).map(|value| value.1.clone());
    let names = indexed(definition, Field::PropertyName).into_iter();
    names.map(|(index, name)| Named { name, value: value(index).unwrap_or_default() }).collect()
}

/// Values with the names of the same indexes; those without a name are left out, as the standard says.
#[must_use]
pub fn with_names(names: &[(u8, String)], values: Vec<(u8, String)>) -> Vec<Named> {
    let name = |index: u8| names.iter().find(|name| name.0 == index).map(|name| name.1.clone());
    values.into_iter().filter_map(|(index, value)| Some(Named { name: name(index)?, value })).collect()
}

/// A class's texts: what they are where nothing was defined.
#[must_use]
pub fn unknown_transaction(application: Option<&Arc<Application>>) -> Described {
    Described {
        application: application.map_or_else(Arc::default, Arc::clone),
        name: "(not registered)".into(),
        standard: 4,
        properties: Vec::new(),
        context_names: Vec::new(),
        uri: None,
        metrics: [const { None }; SLOTS],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::arm::DefinitionWriter;

    fn defined(sort: Sort, belongs_to: u16, pieces: &[(Field, u8, &[u8])]) -> Vec<u8> {
        let mut writer = DefinitionWriter::new(sort, 4, belongs_to);
        for (field, index, piece) in pieces {
            assert!(writer.piece(*field, *index, piece));
        }
        writer.finish()
    }

    fn process(definitions: &[Vec<u8>], kept: &mut Kept) -> Definitions {
        let mut process = Definitions::default();
        for bytes in definitions {
            let (definition, _) = Definition::read(bytes).expect("it was just written");
            process.take(&definition, kept);
        }
        process
    }

    #[test]
    fn equal_definitions_of_two_processes_are_kept_once_under_any_numbers() {
        let application = defined(Sort::Application, 0, &[(Field::Name, 0, b"shop"), (Field::CommandLine, 0, b"a")]);
        let same = defined(Sort::Application, 0, &[(Field::Name, 0, b"shop"), (Field::CommandLine, 0, b"b")]);
        let other = defined(Sort::Application, 0, &[(Field::Name, 0, b"bank")]);
        let transaction = |of| {
            let pieces: &[(Field, u8, &[u8])] = &[(Field::Name, 0, b"buy"), (Field::ContextName, 3, b"basket")];
            defined(Sort::Transaction, of, pieces)
        };
        let mut kept = Kept::default();
        let first = process(&[application, transaction(1)], &mut kept);
        let second = process(&[other, same, transaction(2), transaction(1)], &mut kept);
        let (of_first, of_second) = (first.transaction(2).expect("defined"), second.transaction(3).expect("defined"));
        assert!(Arc::ptr_eq(of_first, of_second) && &*of_first.application.name == "shop");
        assert_eq!(&*second.transaction(4).expect("defined").application.name, "bank");
        assert_eq!(kept.size().0, 4);
        assert_eq!(of_first.context_names, [(3, "basket".to_owned())]);
        assert!(second.transaction(1).is_none() && second.transaction(0).is_none() && second.transaction(99).is_none());
    }

    proptest! {
        #[test]
        fn no_definitions_break_it(bytes in proptest::collection::vec((0u8..6, 0u16..9, proptest::collection::vec((1u8..30, 0u8..9, proptest::collection::vec(any::<u8>(), 0..20)), 0..9)), 0..20)) {
            let mut kept = Kept::default();
            let mut process = Definitions::default();
            for (sort, belongs_to, pieces) in bytes {
                let mut writer = DefinitionWriter::new(Sort::Transaction, 4, belongs_to);
                for (field, index, piece) in &pieces {
                    if let Some(field) = Field::from_code(*field) {
                        writer.piece(field, *index, piece);
                    }
                }
                let mut bytes = writer.finish();
                bytes[4] = sort;
                let (definition, _) = Definition::read(&bytes).expect("it was just written");
                process.take(&definition, &mut kept);
            }
            prop_assert!(process.each().count() == process.count());
        }
    }
}
