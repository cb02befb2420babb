//! What operators write to choose the requests that they watch.

use weir_server::{RequestFilter, WatchCategories};

/// Filters and lists of categories: what is read is the same when it is written and read again, and what is refused is
/// refused in words that a terminal does not obey.
pub fn watch_filter(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<RequestFilter>() {
        Ok(filter) => assert_eq!(filter.to_string().parse(), Ok(filter)),
        Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error:?}"),
    }
    if let Ok(categories) = text.parse::<WatchCategories>() {
        let written = categories.to_string();
        assert_eq!(written.parse(), Ok(categories));
    }
}
