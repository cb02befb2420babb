//! Configurations of other web servers.

use weir_import::{Kind, NoFiles, Wanted, import};

/// Any text of a dialect is translated or refused, and what is written has a form that cannot be broken from within.
fn imported(kind: Kind, input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let wanted = Wanted { folder: "/srv".to_owned(), ..Wanted::default() };
    let Ok(imported) = import(kind, "file", &text, &wanted, &NoFiles) else { return };
    for line in imported.text.lines() {
        let is_key = |key: &str| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let is_known = line.is_empty()
            || line.starts_with('#')
            || line.starts_with('[') && line.ends_with(']')
            || line.split_once(" = ").is_some_and(|(key, _)| is_key(key));
        assert!(is_known, "{line:?} of {text:?}");
    }
    assert!(imported.losses.iter().all(|loss| loss.place.line > 0 && loss.place.column > 0));
}

/// nginx's configurations.
pub fn nginx_configuration(input: &[u8]) {
    imported(Kind::Nginx, input);
}

/// Caddyfiles.
pub fn caddyfile(input: &[u8]) {
    imported(Kind::Caddy, input);
}

/// Apache's `.htaccess`.
pub fn htaccess(input: &[u8]) {
    imported(Kind::Htaccess, input);
}
