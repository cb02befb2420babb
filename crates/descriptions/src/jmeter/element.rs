//! Elements of a plan, their properties and their lines.

use roxmltree::Node;

/// The deepest element.
const DEPTH_MAX: usize = 256;

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Source {
    begins: Vec<usize>,
}

impl Source {
    pub(super) fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { begins: std::iter::once(0).chain(ends).collect() }
    }

    fn line(&self, at: usize) -> usize {
        self.begins.partition_point(|begin| *begin <= at)
    }
}

/// The line of the first element that lies too deep, by the tags alone: a reader of XML calls itself for each.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut line) = (0_usize, 1);
    let mut bytes = text.bytes().peekable();
    let mut before = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => line += 1,
            b'<' => match bytes.peek() {
                Some(b'/') => depth = depth.saturating_sub(1),
                Some(b'!' | b'?') => {}
                _ => {
                    depth += 1;
                    if depth > DEPTH_MAX {
                        return Some(line);
                    }
                }
            },
            b'>' if before == b'/' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = byte;
    }
    None
}

/// An element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'x> {
    pub(super) node: Node<'x, 'x>,
    pub(super) source: &'x Source,
}

impl<'x> Element<'x> {
    /// The name of its tag, which says what it is.
    pub(super) fn kind(self) -> &'x str {
        self.node.tag_name().name()
    }

    pub(super) fn line(self) -> usize {
        self.source.line(self.node.range().start)
    }

    /// The name that the author gave it.
    pub(super) fn name(self) -> &'x str {
        self.node.attribute("testname").unwrap_or_default()
    }

    /// How it is told: what it is and its name.
    pub(super) fn shown(self) -> String {
        match self.name() {
            "" => self.kind().to_owned(),
            name => format!("{} {name:?}", self.kind()),
        }
    }

    pub(super) fn is_on(self) -> bool {
        self.node.attribute("enabled") != Some("false")
    }

    pub(super) fn children(self) -> impl Iterator<Item = Self> {
        let source = self.source;
        self.node.children().filter(Node::is_element).map(move |node| Element { node, source })
    }

    /// The first `hashTree` directly within it.
    pub(super) fn tree_within(self) -> Option<Self> {
        self.children().find(|child| child.kind() == "hashTree")
    }

    /// The elements of a `hashTree` that are on, each with the `hashTree` that belongs to it.
    pub(super) fn pairs(self) -> Vec<(Self, Option<Self>)> {
        let all: Vec<Self> = self.children().collect();
        let mut pairs = Vec::new();
        for (place, element) in all.iter().enumerate() {
            if element.kind() == "hashTree" || !element.is_on() {
                continue;
            }
            let below = all.get(place + 1).copied().filter(|next| next.kind() == "hashTree");
            pairs.push((*element, below));
        }
        pairs
    }

    /// The property of a name: a child whose attribute, or whose child `name`, says so.
    pub(super) fn property(self, name: &str) -> Option<Self> {
        self.children().find(|child| {
            child.node.attribute("name") == Some(name)
                || child.children().any(|inner| inner.kind() == "name" && inner.text() == name)
        })
    }

    /// The text of a property, empty if there is none.
    pub(super) fn value(self, name: &str) -> &'x str {
        let Some(property) = self.property(name) else { return "" };
        match property.children().find(|inner| inner.kind() == "value") {
            Some(value) => value.text(),
            None => property.text(),
        }
    }

    pub(super) fn is_true(self, name: &str) -> bool {
        self.value(name).trim() == "true"
    }

    /// The items of a collection that is a property.
    pub(super) fn items(self, name: &str) -> Vec<Self> {
        self.property(name).map_or_else(Vec::new, |property| property.children().collect())
    }

    pub(super) fn text(self) -> &'x str {
        self.node.text().unwrap_or_default()
    }

    /// All elements within it, itself included.
    pub(super) fn descendants(self) -> impl Iterator<Item = Self> {
        let source = self.source;
        self.node.descendants().filter(Node::is_element).map(move |node| Element { node, source })
    }
}
