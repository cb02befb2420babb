//! The environment of a script: what the configuration gives all scripts, and the variables of its request.

use crate::pool::Pool;
use std::ffi::c_char;

/// Where programs are looked for unless the configuration says otherwise.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Strings `NAME=value` as execve(2) takes them. The memory is used again for each request.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    pointers: Vec<*const c_char>,
    /// Strings that all scripts have: their number and their bytes.
    common: (usize, usize),
}

/// A variable was left away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    Yes,
    /// The configuration says it for all scripts.
    Said,
    /// Its name has other characters than letters, digits and underscores.
    Malformed,
    /// Its value has a byte 0.
    Nul,
}

impl Environment {
    /// The variables that all scripts of a pool have.
    pub(crate) fn of_pool(pool: &Pool) -> Self {
        let mut own = Self::default();
        for (name, value) in &pool.env {
            own.add(name.as_bytes(), value.as_bytes());
        }
        own.common = (own.starts.len(), own.bytes.len());
        for name in pool.pass.iter().map(String::as_str) {
            if let Some(value) = std::env::var_os(name) {
                own.add(name.as_bytes(), std::os::unix::ffi::OsStrExt::as_bytes(value.as_os_str()));
                own.common = (own.starts.len(), own.bytes.len());
            }
        }
        own.add(b"PATH", PATH.as_bytes());
        own.common = (own.starts.len(), own.bytes.len());
        own
    }

    /// Takes the variables of the last request away.
    pub(crate) fn clear(&mut self) {
        self.starts.truncate(self.common.0);
        self.bytes.truncate(self.common.1);
    }

    /// Adds a variable. One that the configuration says for all scripts stays as it is.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) -> Added {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || name[0].is_ascii_digit() || !name.iter().all(is_name) {
            return Added::Malformed;
        }
        if memchr::memchr(0, value).is_some() {
            return Added::Nul;
        }
        let is_said = |start: &usize| {
            let text = &self.bytes[*start..];
            text.starts_with(name) && text.get(name.len()) == Some(&b'=')
        };
        if self.starts[..self.common.0].iter().any(is_said) {
            return Added::Said;
        }
        self.starts.push(self.bytes.len());
        for part in [name, b"=", value, b"\0"] {
            self.bytes.extend_from_slice(part);
        }
        Added::Yes
    }

    /// The strings, ended by a null pointer; they live until the environment is changed.
    pub(crate) fn pointers(&mut self) -> *const *const c_char {
        self.pointers.clear();
        // SAFETY: each start lies within the bytes, and a byte 0 follows.
        let strings = self.starts.iter().map(|&start| unsafe { self.bytes.as_ptr().add(start) }.cast::<c_char>());
        self.pointers.extend(strings);
        self.pointers.push(std::ptr::null());
        self.pointers.as_ptr()
    }

    /// The strings, without the bytes 0 that end them.
    #[cfg(test)]
    pub(crate) fn strings(&self) -> Vec<String> {
        let ends = self.starts.iter().skip(1).copied().chain([self.bytes.len()]);
        let texts = self.starts.iter().zip(ends).map(|(&start, end)| &self.bytes[start..end - 1]);
        texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_says_wins_and_names_are_names() {
        let pool = Pool { env: vec![("A".to_owned(), "1".to_owned())], ..Pool::default() };
        let mut own = Environment::of_pool(&pool);
        let common = own.strings();
        assert_eq!(common, ["A=1".to_owned(), format!("PATH={PATH}")]);
        assert_eq!(own.add(b"A", b"2"), Added::Said);
        assert_eq!(own.add(b"AB", b"2"), Added::Yes);
        assert_eq!(own.add(b"PATH", b"/evil"), Added::Said);
        for name in [&b""[..], b"A=B", b"A B", b"1A", b"A\0", b"A\n", b"BASH_FUNC_x%%", b"\xc3\xa4"] {
            assert_eq!(own.add(name, b""), Added::Malformed, "{name:?}");
        }
        assert_eq!(own.add(b"C", b"a\0b"), Added::Nul);
        assert_eq!(own.strings().last().map(String::as_str), Some("AB=2"));
        own.clear();
        assert_eq!(own.strings(), common);
    }
}
