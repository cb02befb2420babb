//! Kinds of servers.

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Apache's httpd.
    Apache,
    /// nginx.
    Nginx,
    /// PHP's process manager.
    PhpFpm,
    /// PostgreSQL.
    Postgres,
    /// MariaDB or MySQL.
    Mariadb,
}

impl Kind {
    /// The kind of a program or task, by its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let begins = |list: &[&str]| list.iter().any(|begin| name.starts_with(begin));
        if begins(&["apache2", "httpd"]) {
            Some(Self::Apache)
        } else if begins(&["nginx", "openresty"]) {
            Some(Self::Nginx)
        } else if begins(&["php-fpm"]) {
            Some(Self::PhpFpm)
        } else if begins(&["postgres", "postmaster"]) {
            Some(Self::Postgres)
        } else if begins(&["mariadb", "mysqld"]) {
            Some(Self::Mariadb)
        } else {
            None
        }
    }

    /// For reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apache => "Apache",
            Self::Nginx => "nginx",
            Self::PhpFpm => "php-fpm",
            Self::Postgres => "PostgreSQL",
            Self::Mariadb => "MariaDB",
        }
    }
}
