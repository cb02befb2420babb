//! Where and when it was measured: lines of `name: value` that the study's script writes.

/// The lines, in their order.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    lines: Vec<(String, String)>,
}

impl Surroundings {
    /// Reads them; what is no such line is passed over.
    pub(crate) fn read(text: &str) -> Self {
        let line = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Self { lines: text.lines().filter_map(line).collect() }
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a name.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
