//! Servers that run for the length of a test, and how they are started.

pub(crate) mod apache;
pub(crate) mod backend;
pub(crate) mod certificate;
pub(crate) mod faulty;
mod launch;
pub(crate) mod mariadb;
pub(crate) mod nghttpd;
pub(crate) mod nginx;
pub(crate) mod php_fpm;
pub(crate) mod port;
pub(crate) mod postgres;
mod process;
pub(crate) mod program;
pub(crate) mod running;
pub(crate) mod slow_fs;
pub(crate) mod start;
pub(crate) mod uwsgi;
pub(crate) mod weir_serve;
