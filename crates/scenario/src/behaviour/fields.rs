//! The header lines of an answer.

/// The header lines of an answer, in their order, names as they came. They are taken apart only when they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(String);

impl Fields {
    /// Those of a head, whose first line is apart. What is no UTF-8 is replaced.
    pub(crate) fn of_head(head: &[u8]) -> Self {
        let first = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1);
        Self(String::from_utf8_lossy(&head[first..]).into_owned())
    }

    /// Names and values, without the spaces around them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.trim_ascii(), value.trim_ascii()))
    }

    /// The values of a field, the first first.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The lines as they came.
    #[must_use]
    pub fn lines(&self) -> &str {
        &self.0
    }
}

impl<N: std::fmt::Display, V: std::fmt::Display> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| format!("{name}: {value}\n")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_taken_apart() {
        let fields = Fields::of_head(b"HTTP/1.1 200 OK\r\nA:  b \r\nnone\r\na: c:d\r\n\r\n");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("A", "b"), ("a", "c:d")]);
        assert_eq!(fields.values("a").collect::<Vec<_>>(), ["b", "c:d"]);
        assert_eq!(Fields::of_head(b"HTTP/1.1 200 OK"), Fields::default());
    }

    proptest! {
        #[test]
        fn any_head_is_read(head: Vec<u8>) {
            prop_assert!(Fields::of_head(&head).iter().all(|(name, _)| !name.contains(':')));
        }
    }
}
