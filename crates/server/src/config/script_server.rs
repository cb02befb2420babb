//! The configuration of `weir script-server`: scripts of this host that web servers of other hosts ask for.

use super::reading::ConfigurationError;
use super::scripts;
use super::table::{Reader, Table, Value};
use crate::upstream::script_pool::{ScriptPool, ScriptWay};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;
use weir_diagnostic::Mistake;

/// Tables of scripts, names of certificates, and variables.
const LIST_MAX: usize = 64;
const CONNECTIONS: u64 = 256;
const CONNECTIONS_MAX: u64 = 4096;
/// Longer than web servers keep a connection, so that they close it.
const IDLE: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(86_400);
/// Keys of scripts of which the web server alone knows something, with the remedy.
const OF_THE_WEB_SERVER: [(&str, &str); 5] = [
    ("name", "name the upstream in the web server's own configuration"),
    ("workers_max", "no rules run here: write `workers`"),
    ("authorization", "write it into `fastcgi` of the web server"),
    ("accel", "write it into `fastcgi` of the web server"),
    ("send_from", "write it into `fastcgi` of the web server"),
];
const KEYS_OF_TLS: [&str; 4] = ["certificate", "key", "ca", "names"];

/// What a script server is to do, as its configuration says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptServerOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// How TLS is spoken; none if it is not.
    pub tls: Option<ScriptServerTls>,
    /// Its user if it was started as root, and that of scripts whose table has none.
    pub user: Option<String>,
    /// Connections at once.
    pub connections: usize,
    /// How long a connection is kept without a request.
    pub idle: Duration,
    /// Names of variables that scripts get from web servers besides those that say something of a request.
    pub accept: Vec<String>,
    /// Where scripts lie, and how they are run.
    pub mounts: Vec<ScriptMount>,
    /// What is accepted, and seldom meant.
    pub warnings: Vec<Mistake>,
}

/// Files in PEM, and whose certificates are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptServerTls {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of the web servers' certificates.
    pub ca: PathBuf,
    /// Names of which a web server's certificate has at least one; none for all certificates of the authorities.
    pub names: Vec<String>,
}

/// A directory with scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptMount {
    /// What of a path stands for the directory, with a slash at its end.
    pub prefix: String,
    /// How names of scripts end; each file is one if there are none.
    pub endings: Vec<String>,
    /// How they are run; its root is the directory.
    pub pool: ScriptPool,
}

/// Reads the configuration of a script server; relative paths start at its own directory.
///
/// # Errors
///
/// The file cannot be read, or it has mistakes: the error lists all of them.
pub fn read_script_server(path: &Path) -> Result<ScriptServerOptions, ConfigurationError> {
    let text = super::reading::text_of(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    parse_script_server(&text, folder)
        .map_err(|mistakes| ConfigurationError::Mistaken { path: path.to_owned(), mistakes })
}

/// The same of a text whose relative paths start at `folder`.
///
/// # Errors
///
/// All mistakes, in the order of the lines.
pub fn parse_script_server(text: &str, folder: &Path) -> Result<ScriptServerOptions, Vec<Mistake>> {
    let reader = Reader::new(text, folder);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            reader.wrong(at, error.message().replace('\n', ", "), "mend the TOML here first");
        }
        return Err(reader.into_mistakes().0);
    }
    let table = Table::new(&reader, document.get_ref(), 0..0, "");
    let listen = listen(&table);
    let tls = tls(&table, listen);
    let user = table.get("user").and_then(|value| value.string()).map(str::to_owned);
    let connections = table.get("connections").and_then(|value| value.integer(1..=CONNECTIONS_MAX));
    let idle = table.get("idle").and_then(|value| value.duration(Duration::from_secs(1)..=DAY));
    let accept = accept(&table);
    let mounts = mounts(&table);
    for key in ["host", "tls"] {
        if let Some(value) = table.misplaced(key) {
            let remedy = "write [[scripts]] with prefix, root and cgi = true; certificate, key and ca at the top";
            value.wrong(format!("`{key}` is of weir serve, and a script server has none"), remedy);
        }
    }
    table.finish();
    let (mistakes, warnings) = reader.into_mistakes();
    let Some(listen) = listen.filter(|_| mistakes.is_empty()) else { return Err(mistakes) };
    let connections = connections.unwrap_or(CONNECTIONS) as usize;
    Ok(ScriptServerOptions { listen, tls, user, connections, idle: idle.unwrap_or(IDLE), accept, mounts, warnings })
}

fn listen(table: &Table<'_, '_>) -> Option<SocketAddr> {
    const REMEDY: &str = "write listen = \"ADDRESS:PORT\", such as \"0.0.0.0:9443\" or \"[::]:9443\"";
    let Some(value) = table.get("listen") else {
        table.wrong("it does not say where to listen", REMEDY);
        return None;
    };
    let text = value.string()?;
    let address = text.parse().ok();
    if address.is_none() {
        value.wrong(format!("\"{text}\" is no address with a port"), REMEDY);
    }
    address
}

/// TLS; none in the clear, which is refused unless it is on this host or asked for.
fn tls(table: &Table<'_, '_>, listen: Option<SocketAddr>) -> Option<ScriptServerTls> {
    let clear = table.get("clear");
    let is_clear = clear.as_ref().and_then(Value::boolean) == Some(true);
    let given: Vec<_> = KEYS_OF_TLS.into_iter().filter_map(|key| Some((key, table.get(key)?))).collect();
    if given.is_empty() {
        let is_here = listen.is_some_and(|address| address.ip().is_loopback());
        if !is_clear && !is_here && listen.is_some() {
            let what = "everyone who reaches this address could run the scripts, and read what they are told";
            table
                .wrong(what, "add certificate, key and ca; or clear = true where the network itself keeps others away");
        }
        if let Some(value) = clear.filter(|_| is_clear && is_here) {
            value.wrong("`clear` means nothing for an address of this host", "leave it away");
        }
        return None;
    }
    if let Some(value) = clear.filter(|_| is_clear) {
        value.wrong("`clear` and certificates do not go together", "keep one of them");
    }
    let [certificate, key, ca] = ["certificate", "key", "ca"].map(|key| {
        let value = table.get(key);
        if value.is_none() {
            let what = format!("there is no `{key}`: both sides show certificates");
            table.wrong(what, "give certificate, key and ca, each the name of a file in PEM");
        }
        value.and_then(|value| value.path())
    });
    let items = table.get("names").map(|value| value.strings()).unwrap_or_default();
    let mut names = Vec::new();
    for item in items.iter().take(LIST_MAX) {
        if crate::upstream::trust::server_name(item.text()).is_none() {
            let what = format!("\"{}\" is no name of a certificate", item.text());
            item.wrong(what, "write one such as \"web.example.org\"");
        }
        names.push(item.text().to_owned());
    }
    if let Some(value) = table.get("names").filter(|_| names.is_empty() || items.len() > LIST_MAX) {
        value.wrong(format!("there are {} names", items.len()), format!("write 1 to {LIST_MAX}, or leave it away"));
    }
    Some(ScriptServerTls { certificate: certificate?, key: key?, ca: ca?, names })
}

/// Variables that are taken from web servers.
fn accept(table: &Table<'_, '_>) -> Vec<String> {
    let mut accept = Vec::new();
    for item in table.get("accept").map(|value| value.strings()).unwrap_or_default().iter().take(LIST_MAX) {
        let name = item.text();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            item.wrong(format!("\"{name}\" is no name of a variable"), "write one such as \"APP_ENV\"");
        } else if scripts::is_of_requests(name) {
            item.wrong(format!("{name} says something of a request, or is this host's to say"), "leave it away");
        }
        accept.push(name.to_owned());
    }
    accept
}

fn mounts(table: &Table<'_, '_>) -> Vec<ScriptMount> {
    let Some(value) = table.get("scripts") else {
        table.wrong(
            "there are no scripts",
            "add [[scripts]] with prefix = \"/cgi-bin/\", root = \"DIRECTORY\" and cgi = true",
        );
        return Vec::new();
    };
    let mut mounts = Vec::<ScriptMount>::new();
    for table in value.tables("[[scripts]]").iter().take(LIST_MAX) {
        let Some(mount) = mount(table) else {
            table.finish();
            continue;
        };
        if mounts.iter().any(|other| other.prefix == mount.prefix) {
            table.wrong(format!("{} is there twice", mount.prefix), "give each table its own prefix");
        }
        table.finish();
        mounts.push(mount);
    }
    mounts
}

fn mount(table: &Table<'_, '_>) -> Option<ScriptMount> {
    let given: Vec<_> = ScriptWay::ALL.into_iter().filter_map(|way| Some((way, table.get(way.key())?))).collect();
    let (prefix, root) = (table.get("prefix"), table.get("root"));
    if prefix.is_none() || root.is_none() {
        table.wrong("scripts have a prefix and a root", "add prefix = \"/cgi-bin/\" and root = \"DIRECTORY\"");
    }
    let prefix = prefix.and_then(|value| self::prefix(&value));
    let root = root.and_then(|value| {
        let path = value.path()?;
        if !path.is_dir() {
            value.wrong(format!("{} is no directory", path.display()), "give the one with the scripts");
        }
        Some(path)
    });
    let [(way, value)] = given.as_slice() else {
        let what =
            if given.is_empty() { "it does not say how scripts are run" } else { "it says twice how scripts are run" };
        table.wrong(what, "write one of cgi, cgiplus, rte and isapi, such as cgi = true");
        return None;
    };
    if value.is_false() {
        value.wrong(format!("`{} = false` takes nothing back here", way.key()), "leave the table away");
        return None;
    }
    if value.is_table()
        && let Some(own) = value.table(way.key())
    {
        for (key, remedy) in OF_THE_WEB_SERVER {
            if let Some(value) = own.misplaced(key) {
                value.wrong(format!("`{key}` has no effect in a script server"), remedy);
            }
        }
    }
    let (pool, endings) = scripts::alone(*way, value, &root?)?;
    Some(ScriptMount { prefix: prefix?, endings, pool })
}

fn prefix(value: &Value<'_, '_>) -> Option<String> {
    let text = value.string()?;
    let is_plain = |part: &str| !matches!(part, "." | "..") && !part.contains('\0');
    let is_prefix =
        text.starts_with('/') && text.ends_with('/') && !text.contains("//") && text.split('/').all(is_plain);
    if !is_prefix {
        value.wrong(format!("\"{text}\" is no prefix"), "write one with a slash at both ends, such as \"/cgi-bin/\"");
    }
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A directory with `cgi/a`, which this process may run.
    fn folder() -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(folder.path().join("cgi")).expect("creates");
        let script = folder.path().join("cgi/a");
        std::fs::write(&script, "#!/bin/sh\n").expect("writes");
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("sets");
        folder
    }

    const SCRIPTS: &str = "[[scripts]]\nprefix = \"/cgi-bin/\"\nroot = \"cgi\"\n";

    #[test]
    fn a_configuration_says_where_scripts_are() {
        let folder = folder();
        let text = "listen = \"0.0.0.0:9443\"\ncertificate = \"a.pem\"\nkey = \"a.key\"\nca = \"ca.pem\"\n\
                    names = [\"web.example.org\"]\naccept = [\"APP_ENV\"]\nconnections = 9\nidle = \"5 s\"\nuser = \"x\"\n\
                    [[scripts]]\nprefix = \"/cgi-bin/\"\nroot = \"cgi\"\ncgi = { workers = 3, queue = 5, timeout = \"2 s\" }\n\
                    [[scripts]]\nprefix = \"/old/\"\nroot = \"cgi\"\nrte = true\n";
        let read = parse_script_server(text, folder.path()).expect("no mistakes");
        let tls = read.tls.expect("TLS");
        assert_eq!((tls.ca, tls.names.len()), (folder.path().join("ca.pem"), 1));
        assert_eq!((read.connections, read.idle, read.mounts.len()), (9, Duration::from_secs(5), 2));
        let first = &read.mounts[0];
        assert_eq!((first.pool.workers, first.pool.queue, first.pool.root.clone()), (3, 5, folder.path().join("cgi")));
        assert_eq!(read.mounts[1].endings, [".pl", ".cgi", ".py"]);
        let here = format!("listen = \"127.0.0.1:9000\"\n{SCRIPTS}cgi = true\n");
        assert_eq!(parse_script_server(&here, folder.path()).expect("no mistakes").tls, None);
        let there = format!("listen = \"10.0.0.1:9000\"\nclear = true\n{SCRIPTS}cgi = true\n");
        assert_eq!(parse_script_server(&there, folder.path()).expect("no mistakes").tls, None);
    }

    #[test]
    fn mistakes_name_place_and_remedy() {
        let folder = folder();
        let here = "listen = \"127.0.0.1:9000\"\n";
        for (text, expected) in [
            (format!("{SCRIPTS}cgi = true"), "it does not say where to listen"),
            (format!("listen = \"a:1\"\n{SCRIPTS}cgi = true"), "1:10: \"a:1\" is no address with a port"),
            (here.to_owned(), "there are no scripts"),
            (format!("listen = \"10.0.0.1:9000\"\n{SCRIPTS}cgi = true"), "could run the scripts"),
            (format!("{here}clear = true\n{SCRIPTS}cgi = true"), "2:9: `clear` means nothing"),
            (format!("{here}key = \"a\"\ncertificate = \"b\"\n{SCRIPTS}cgi = true"), "there is no `ca`"),
            (
                format!("{here}key = \"a\"\ncertificate = \"b\"\nca = \"c\"\nclear = true\n{SCRIPTS}cgi = true"),
                "do not go together",
            ),
            (
                format!("{here}names = [\"a b\"]\nkey = \"a\"\ncertificate = \"b\"\nca = \"c\"\n{SCRIPTS}cgi = true"),
                "is no name of a certificate",
            ),
            (
                format!("{here}names = []\nkey = \"a\"\ncertificate = \"b\"\nca = \"c\"\n{SCRIPTS}cgi = true"),
                "there are 0 names",
            ),
            (
                format!("{here}accept = [\"SCRIPT_NAME\"]\n{SCRIPTS}cgi = true"),
                "2:11: SCRIPT_NAME says something of a request",
            ),
            (format!("{here}accept = [\"A=B\"]\n{SCRIPTS}cgi = true"), "is no name of a variable"),
            (format!("{here}{SCRIPTS}"), "it does not say how scripts are run"),
            (format!("{here}{SCRIPTS}cgi = true\nrte = true"), "it says twice how scripts are run"),
            (format!("{here}{SCRIPTS}cgi = false"), "takes nothing back here"),
            (format!("{here}{SCRIPTS}cgi = {{ accel = true }}"), "5:17: `accel` has no effect in a script server"),
            (format!("{here}{SCRIPTS}cgi = {{ renew = 3 }}"), "`renew` means nothing for `cgi`"),
            (format!("{here}{SCRIPTS}cgi = true\n{SCRIPTS}cgi = true"), "/cgi-bin/ is there twice"),
            (format!("{here}[[scripts]]\nprefix = \"/a\"\nroot = \"cgi\"\ncgi = true"), "\"/a\" is no prefix"),
            (format!("{here}[[scripts]]\nprefix = \"/a/\"\nroot = \"none\"\ncgi = true"), "none is no directory"),
            (format!("{here}[[scripts]]\nroot = \"cgi\"\ncgi = true"), "scripts have a prefix and a root"),
            (format!("{here}lissten = 1\n{SCRIPTS}cgi = true"), "did you mean `listen`?"),
            (format!("{here}{SCRIPTS}cgi = true\n[[host]]\nroot = \"cgi\""), "`host` is of weir serve"),
        ] {
            let told = parse_script_server(&text, folder.path()).err().unwrap_or_default();
            let told: Vec<_> = told.iter().map(ToString::to_string).collect();
            assert!(told.len() == 1 && told[0].contains(expected), "{text} {told:#?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(listen|ca|key|names|accept|\\[\\[scripts\\]\\]|prefix|root|cgi|=|\"/a/\"|\"127.0.0.1:1\"|true|\\{|\\}|\n| ){0,40}") {
            let _ = parse_script_server(&text, Path::new("/nonexistent"));
        }
    }
}
