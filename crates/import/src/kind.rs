//! Which server a configuration is for.

use std::fmt;

/// A dialect of configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `nginx.conf`, or a file of `sites-available`.
    Nginx,
    /// A Caddyfile.
    Caddy,
    /// Apache's `.htaccess`.
    Htaccess,
}

/// Words that begin a line of one dialect only.
const OF_NGINX: [&str; 9] =
    ["server {", "server{", "http {", "http{", "events {", "server_name ", "proxy_pass ", "fastcgi_pass ", "location "];
const OF_APACHE: [&str; 13] = [
    "RewriteEngine",
    "RewriteRule",
    "RewriteCond",
    "<IfModule",
    "<Files",
    "Order ",
    "Require ",
    "DirectoryIndex",
    "ErrorDocument",
    "AuthType",
    "Options ",
    "Redirect",
    "ExpiresActive",
];
const OF_CADDY: [&str; 8] =
    ["file_server", "reverse_proxy", "php_fastcgi", "respond ", "handle", "encode ", "root * ", "redir "];

impl Kind {
    /// Tells the dialect by the name of the file, otherwise by what stands in it.
    pub fn recognise(name: &str, text: &str) -> Option<Self> {
        let own = name.rsplit('/').next().unwrap_or(name);
        if own.starts_with("Caddyfile") || own.ends_with(".caddyfile") || own.ends_with(".caddy") {
            return Some(Self::Caddy);
        }
        if own.starts_with(".htaccess") || own == "htaccess" {
            return Some(Self::Htaccess);
        }
        let lines = || text.lines().map(str::trim_start).filter(|line| !line.starts_with('#')).take(10_000);
        let count = |words: &[&str], is_caseless: bool| {
            let begins = |line: &str, word: &str| match line.get(..word.len()) {
                Some(begin) => begin == word || is_caseless && begin.eq_ignore_ascii_case(word),
                None => false,
            };
            lines().filter(|line| words.iter().any(|word| begins(line, word))).count()
        };
        let (nginx, apache, caddy) = (count(&OF_NGINX, false), count(&OF_APACHE, true), count(&OF_CADDY, false));
        let most = nginx.max(apache).max(caddy);
        if most == 0 {
            return None;
        }
        Some(if nginx == most {
            Self::Nginx
        } else if apache == most {
            Self::Htaccess
        } else {
            Self::Caddy
        })
    }

    /// What is called so on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Htaccess => "htaccess",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nginx => "nginx",
            Self::Caddy => "Caddy",
            Self::Htaccess => "Apache's .htaccess",
        })
    }
}
