//! What the options of a command line say.

use crate::model::{Field, Text};

/// What the options of a request say so far.
#[derive(Default)]
pub(super) struct Said {
    pub(super) method: Option<String>,
    pub(super) headers: Vec<(String, Text)>,
    /// Headers of curl's own that are not sent.
    pub(super) without: Vec<String>,
    pub(super) data: Option<Text>,
    pub(super) is_json: bool,
    pub(super) fields: Vec<Field>,
    pub(super) upload: Option<Text>,
    pub(super) user: Option<Text>,
    pub(super) cookies: Vec<Text>,
    pub(super) urls: Vec<(usize, Text)>,
    pub(super) url_query: Vec<Text>,
    pub(super) follows: bool,
    pub(super) redirects_max: Option<u32>,
    pub(super) is_get: bool,
    pub(super) is_head: bool,
    pub(super) is_compressed: bool,
    pub(super) is_globbed: bool,
    pub(super) timeout: Option<String>,
    /// What the request cannot be made without.
    pub(super) needs: Option<(String, String)>,
}
