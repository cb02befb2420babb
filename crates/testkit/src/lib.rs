//! Real servers with a planted fault, and launchers for the web servers that the tests load.
//!
//! Everything here is for tests: servers start in a directory of their own on a free port of the
//! loopback interface, and end with the value that stands for them, also when the test panics.
//!
//! ```no_run
//! use weir_testkit::{Apache, Faulty, Nginx, require};
//!
//! if require::apache().is_none() {
//!     return; // The reason has been printed and counted.
//! }
//! let server = Apache::prefork().workers(16).start().unwrap();
//! println!("{} is served by {:?}", server.url("/1k.txt"), server.pids());
//!
//! let nginx = Nginx::new().pin(0).start().unwrap();
//! let slow = Faulty::new("sleep").args(["--ms", "5"]).start().unwrap();
//! # drop((nginx, slow));
//! ```

pub mod browser;
pub mod client;
pub mod clock;
pub mod counts;
pub mod namespace;
pub mod require;
pub mod seeded;
mod server;
mod site;
pub mod slow_link;
mod small_disk;
pub mod tap;
pub mod websocket;

pub use server::apache::{Apache, Cgi};
pub use server::backend::{RunningBackend, RunningDatabase};
pub use server::certificate::Certificate;
pub use server::faulty::Faulty;
pub use server::mariadb::MariaDb;
pub use server::nghttpd::Nghttpd;
pub use server::nginx::Nginx;
pub use server::php_fpm::PhpFpm;
pub use server::port::free_port;
pub use server::postgres::Postgres;
pub use server::program::{Place, Program};
pub use server::running::RunningServer;
pub use server::slow_fs::SlowFs;
pub use server::start::StartError;
pub use server::uwsgi::Uwsgi;
pub use server::weir_serve::WeirServe;
pub use site::Site;
pub use small_disk::SmallDisk;
