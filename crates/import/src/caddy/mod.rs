//! Caddyfiles.
use crate::document::Document;
use crate::files::Files;
use crate::report::Report;
use crate::{ImportError, Wanted};
pub(crate) fn import(name: &str, _text: &str, _wanted: &Wanted, _files: &dyn Files) -> Result<(Document, Report), ImportError> {
    Err(ImportError::Empty { name: name.to_owned(), expected: "x" })
}
