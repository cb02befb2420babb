//! Gives up rights, files and system calls.

use super::filter;
use crate::config::options::Options;
use crate::io::user::User;
use crate::process::confine::landlock;
use crate::process::confine::paths::{Connects, Paths, RESOLVER};
use crate::process::confine::privileges::no_new_privileges;
use std::io;
use std::path::{Path, PathBuf};

/// What holds since, in words.
#[derive(Debug, Default)]
pub(crate) struct Confinement {
    said: Vec<String>,
}

impl Confinement {
    /// Takes on the user's rights in place of root's.
    ///
    /// # Errors
    ///
    /// The system's refusal: then the server must not run.
    pub(crate) fn drop_rights(&mut self, user: Option<&User>) -> io::Result<()> {
        // SAFETY: the calls take no pointers.
        let is_root = unsafe { libc::geteuid() } == 0;
        match user {
            Some(user) => {
                user.become_it()?;
                self.said.push(format!("runs as {}", user.name));
            }
            None if is_root => self.said.push("runs as root (--user NAME takes its rights away)".to_owned()),
            None => {}
        }
        Ok(())
    }

    /// Gives up all files but those that are needed, and all system calls but those of a server, if that is wanted, and
    /// tells what holds. What the kernel lacks is told, and no reason not to serve.
    pub(crate) fn take_hold(&mut self, options: &Options, has_ring: bool) {
        match options.sandbox {
            Some(true) => {
                let paths = Paths::of(options);
                tracing::debug!(?paths, "confines itself to these paths");
                self.confine(&paths, options.arm.is_some(), has_ring);
            }
            Some(false) => self.said.push("is not confined (--no-sandbox)".to_owned()),
            None => return,
        }
        (options.notice)(&format!("the server {}", self.said.join("; ")));
    }

    /// The same for a program beside a server, which neither tells of transactions nor uses io_uring; what holds since.
    pub(super) fn of_paths(paths: &Paths) -> String {
        let mut own = Self::default();
        own.confine(paths, false, false);
        own.said.join("; ")
    }

    fn confine(&mut self, paths: &Paths, has_arm: bool, has_ring: bool) {
        match no_new_privileges().and_then(|()| landlock::restrict(paths)) {
            Ok(()) => {
                let list = |paths: &[PathBuf]| {
                    let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                    if all.len() > 4 {
                        format!("{} and {} more", all[..3].join(" "), all.len() - 3)
                    } else {
                        all.join(" ")
                    }
                };
                let read: Vec<PathBuf> = paths
                    .read
                    .iter()
                    .filter(|path| !RESOLVER.iter().any(|of| path == &Path::new(of)))
                    .cloned()
                    .collect();
                self.said.push(match paths.serve.as_slice() {
                    [] => "serves no file".to_owned(),
                    serve => format!("serves only {}", list(serve)),
                });
                match &paths.connects {
                    Connects::Nowhere => {}
                    Connects::Unix => self.said.push("connects with Unix sockets".to_owned()),
                    Connects::Ports(ports) => {
                        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                        self.said.push(format!("connects with TCP ports {}", ports.join(" ")));
                    }
                }
                for (what, paths) in [
                    ("finds releases in", &paths.releases),
                    ("reads", &read),
                    ("writes in", &paths.write),
                    ("keeps responses in", &paths.store),
                ] {
                    if !paths.is_empty() {
                        self.said.push(format!("{what} {}", list(paths)));
                    }
                }
            }
            Err(error) => self.said.push(format!("is not confined to its files: Landlock: {error}")),
        }
        match no_new_privileges().and_then(|()| filter::install(has_arm, has_ring, &paths.connects)) {
            Ok(calls) => {
                let by_ring = if has_ring { ", receives, sends, polls and cancels by io_uring" } else { "" };
                self.said.push(format!("makes {calls} system calls{by_ring}, and starts no program"));
            }
            Err(error) => self.said.push(format!("makes any system call: seccomp: {error}")),
        }
    }
}
