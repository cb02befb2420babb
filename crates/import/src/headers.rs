//! Fields of responses that weir lets a configuration set.

/// Fields that weir makes itself.
const OWN: [&str; 23] = [
    "accept-ranges",
    "age",
    "allow",
    "authentication-info",
    "connection",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "http2-settings",
];
const REMOVABLE: [&str; 4] = ["accept-ranges", "age", "etag", "last-modified"];

/// Why a field cannot be set; none if it can.
pub(crate) fn problem(name: &str, value: &str) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some("it is no name of a field");
    }
    if OWN.contains(&name.to_ascii_lowercase().as_str()) {
        return Some("weir makes this field itself");
    }
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || value.trim() != value {
        return Some("its value is not ASCII");
    }
    None
}

/// Whether a field can be taken out.
pub(crate) fn is_removable(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower != "vary" && (REMOVABLE.contains(&lower.as_str()) || problem(name, "").is_none())
}

/// Fields to set and to take out; of one name the later counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) set: Vec<(String, String)>,
    pub(crate) of_errors: Vec<(String, String)>,
    pub(crate) removed: Vec<String>,
}

impl Fields {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.removed.retain(|own| !own.eq_ignore_ascii_case(name));
        put(&mut self.set, name, value);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.set.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self.of_errors.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        if !self.removed.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            self.removed.push(name.to_owned());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.of_errors.is_empty() && self.removed.is_empty()
    }

    /// Adds the keys to a table.
    pub(crate) fn write(&self, table: &mut crate::document::Table) {
        table.fields("set_headers", &self.set);
        table.fields("set_error_headers", &self.of_errors);
        if !self.removed.is_empty() {
            table.list("remove_headers", &self.removed);
        }
    }
}

fn put(fields: &mut Vec<(String, String)>, name: &str, value: &str) {
    match fields.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
        Some((_, own)) if name.eq_ignore_ascii_case("cache-control") && !own.contains(value) => {
            // `expires` and a field of one's own are two lines, which are one list (RFC 9110 section 5.3).
            *own = format!("{own}, {value}");
        }
        Some((_, own)) => value.clone_into(own),
        None => fields.push((name.to_owned(), value.to_owned())),
    }
}
