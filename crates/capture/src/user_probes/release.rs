//! Versions of the kernel.

/// A kernel's version, as far as it decides anything here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32);

impl Release {
    /// The running kernel's.
    #[must_use]
    pub fn running() -> Self {
        Self::of(&crate::bound::release())
    }

    /// Of a text such as `6.18.4-amd64`; what is missing is 0.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut numbers = text.split(|symbol: char| !symbol.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        Self(numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_by_their_numbers() {
        assert_eq!(Release::of("6.18.44-fc-v595"), Release(6, 18));
        assert!(Release::of("6.6") > Release::of("6.1.0-13-amd64"));
        assert_eq!(Release::of("odd"), Release(0, 0));
    }
}
