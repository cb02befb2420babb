//! nginx's configuration for a copy.

use super::change::add;
use super::copy::{Side, is_one_of};
use super::ports;
use crate::configuration::{Configuration, Entry};
use crate::servers::Server;
use std::path::Path;

impl Side {
    /// Gives it ports, sockets and files of its own.
    pub(super) fn own_nginx(&mut self, server: &Server, configuration: &mut Configuration, number: usize) {
        let folder = self.folder.display().to_string();
        const TEMPORARY: [&str; 5] =
            ["client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path"];
        configuration
            .entries
            .retain(|entry| !is_one_of(entry, &["pid", "daemon", "lock_file"]) && !is_one_of(entry, &TEMPORARY));
        let base =
            server.configuration.files.first().and_then(|file| file.parent()).unwrap_or(Path::new("/")).to_owned();
        let mut entries = std::mem::take(&mut configuration.entries);
        let mut in_block: Vec<String> = Vec::new();
        let mut others = 0;
        entries.retain_mut(|entry| {
            let directive = match entry {
                Entry::Open(_) => {
                    in_block.clear();
                    return true;
                }
                Entry::Close => return true,
                Entry::Set(directive) => directive,
            };
            let words = configuration.syntax.words(&directive.raw);
            let first = words.first().map_or("", String::as_str);
            match directive.name.as_str() {
                "listen" => {
                    let Some(port) = ports::of_listen(first).and_then(|port| self.ports.get(&port)) else {
                        return false;
                    };
                    let address =
                        if first.starts_with('[') { format!("[::1]:{port}") } else { format!("127.0.0.1:{port}") };
                    let rest: Vec<&str> =
                        words.iter().skip(1).map(String::as_str).filter(|word| !word.starts_with("ipv6only")).collect();
                    directive.raw = format!("{address} {}", rest.join(" ")).trim().to_owned();
                    let fresh = !in_block.contains(&address);
                    in_block.push(address);
                    return fresh;
                }
                "access_log" | "error_log" => {
                    others += 1;
                    self.own_log(directive, &format!("{number}-{others}.log"), configuration);
                }
                name if name.ends_with("_cache_path") => {
                    others += 1;
                    directive.raw = directive.raw.replacen(first, &format!("{folder}/cache-{number}-{others}"), 1);
                }
                name if is_relative_to_the_file(name)
                    && !first.is_empty()
                    && !first.starts_with('/')
                    && base.join(first).exists() =>
                {
                    directive.raw = directive.raw.replacen(first, &base.join(first).display().to_string(), 1);
                }
                _ => directive.raw = self.moved(&directive.raw),
            }
            true
        });
        configuration.entries = entries;
        add(configuration, &[], "daemon", "off");
        add(configuration, &[], "pid", &format!("{folder}/{number}.pid"));
        for name in TEMPORARY {
            // A build may lack one of these modules; all builds of distributions have them.
            add(configuration, &["http".to_owned()], name, &format!("{folder}/{number}-{name}"));
        }
    }
}

/// nginx reads these relative to the configuration's folder, which the copy is not in.
fn is_relative_to_the_file(name: &str) -> bool {
    [
        "ssl_certificate",
        "ssl_certificate_key",
        "ssl_dhparam",
        "ssl_trusted_certificate",
        "ssl_client_certificate",
        "ssl_crl",
        "auth_basic_user_file",
    ]
    .contains(&name)
}
