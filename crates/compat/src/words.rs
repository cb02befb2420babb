//! The words of a command line.

use std::ffi::OsString;

/// The arguments as text, which all of these programs take them for.
pub(crate) fn words_as_text(words: Vec<OsString>) -> anyhow::Result<Vec<String>> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| anyhow::anyhow!("{}: an argument is no UTF-8 text", word.display()))
    };
    words.into_iter().map(text).collect()
}
