//! A server that an option names: by its command, or a ready-made one by its name.
use anyhow::Context;
use weir_compare::{CommandLine, Filling, Ports, ReadyMade, ServerSpec, Target};

/// What is asked for of ready-made servers where nothing else is said: a file of the sample site.
const PATH: &str = "/index.html";

/// What all servers of an experiment have in common.
pub(super) struct Surroundings<'a> {
    /// What is asked for of ready-made ones.
    pub(super) path: Option<&'a str>,
    /// Whether ready-made ones speak TLS.
    pub(super) tls: bool,
    /// Connections that the load opens.
    pub(super) connections: u32,
    /// How many CPUs each may use.
    pub(super) cpus: usize,
    /// The path of this program.
    pub(super) weir: &'a str,
}

/// A server and where it is reached.
pub(super) struct Side {
    pub(super) server: ServerSpec,
    pub(super) url: Target,
    /// The ready-made one that it is.
    pub(super) from: Option<&'static ReadyMade>,
}

/// The ready-made server that a command is the name of. A program of that name without arguments could not
/// be measured: all of them need a configuration, or an option to stay in the foreground.
fn ready_made(command: &CommandLine) -> Option<&'static ReadyMade> {
    match command.words() {
        [name] => ReadyMade::named(name),
        _ => None,
    }
}

impl Side {
    /// The server of an option, such as `--a`; `url` is where a command listens, `other` where the server beside it does.
    pub(super) fn of(
        (option, command): (&str, CommandLine),
        (url, other): (Option<&Target>, Option<&Target>),
        around: &Surroundings<'_>,
        ports: &mut Ports,
    ) -> anyhow::Result<Self> {
        let name = match option {
            "--server" => "the server".to_owned(),
            option => format!("server {}", option.trim_start_matches('-').to_uppercase()),
        };
        let Some(from) = ready_made(&command) else {
            let url = url.cloned().with_context(|| {
                let own = if option == "--b" { "--url-b" } else { "--url-a" };
                format!("{own} is needed, or --url for both: where the command of {option} is reached")
            })?;
            return Ok(Self { server: ServerSpec::new(&name, command), url, from: None });
        };
        anyhow::ensure!(
            url.is_none(),
            "{option} {} is a ready-made server, which gets a free port: give the URL of a command as --url-a or --url-b, \
             and what is asked for as --path; the program of that name is meant by its whole path",
            from.name
        );
        let filling = Filling {
            port: ports.take(None).map_err(anyhow::Error::msg)?,
            cpus: around.cpus,
            connections: around.connections,
            settings: "",
            weir: around.weir,
            // SAFETY: has no preconditions.
            is_root: unsafe { libc::geteuid() } == 0,
            tls: around.tls,
            upstream: None,
        };
        // Both are asked for the same where only one of them has a URL.
        let path = around.path.or_else(|| other.map(path_of)).unwrap_or(PATH);
        anyhow::ensure!(path.starts_with('/'), "--path {path} does not begin with /, as paths of URLs do");
        let url = format!("{}{path}", filling.url()).parse()?;
        let server = from.server(&name, &filling).map_err(anyhow::Error::msg)?;
        Ok(Self { server, url, from: Some(from) })
    }
}

/// What follows the host and the port.
fn path_of(target: &Target) -> &str {
    let after = target.url().find("://").map_or(0, |at| at + 3);
    let path = target.url()[after..].find(['/', '?', '#']).map_or("", |at| &target.url()[after + at..]);
    if path.starts_with('/') { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_url_is_what_follows_its_host() {
        for (url, path) in [
            ("http://h", "/"),
            ("http://h/", "/"),
            ("https://[::1]:1/a/b?c", "/a/b?c"),
            ("http://h?x", "/"),
            ("http://127.0.0.1:80/1k.txt", "/1k.txt"),
        ] {
            assert_eq!(path_of(&url.parse().expect("a target")), path, "{url}");
        }
    }
}
