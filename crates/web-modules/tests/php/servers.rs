//! Within Apache, and in php-fpm's processes that serve many requests.

use crate::{built, required};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use weir_agent::protocol::{Answer, Ask, Switch};
use weir_agent::transaction::Status;
use weir_testkit::{Apache, Nginx, PhpFpm, RunningBackend, require};
use weir_web_modules::{Told, arm_directory, tree};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// The same as ARM_CORRELATOR has it.
const PARENT_HEX: &str = "001cd7400af7651916cd43dd8448eb211c80319cb7ad6b7169203331";
const PARENT_SPAN: u64 = 0xb7ad_6b71_6920_3331;

/// Pages, which as root other users may read.
pub(crate) fn pages(files: &[(&str, &str)]) -> TempDir {
    let folder = arm_directory();
    for (name, code) in files {
        fs::write(folder.path().join(name), format!("<?php {code}")).expect("it is ours");
    }
    folder
}

/// The page that most ask for: a transaction of the server's application with one within it.
pub(crate) const PAGE: &str = r#"
    $outer = arm_start(arm_getid(arm_application(), "outer"));
    $inner = arm_start(arm_getid(arm_application(), "inner"));
    if (isset($_GET["exit"])) { echo getmypid(); exit; }
    if (isset($_GET["throw"])) { throw new Exception("it is not caught"); }
    arm_stop($inner);
    arm_stop($outer);
    echo getmypid();
"#;

pub(crate) fn fpm(told: &Told, processes: u32, ini: &[(&str, &str)]) -> RunningBackend {
    fpm_with_arm(told.arm(), processes, ini).start().expect("it starts")
}

pub(crate) fn fpm_with_arm(arm: &Path, processes: u32, ini: &[(&str, &str)]) -> PhpFpm {
    let (extension, library) = built();
    let mut fpm = PhpFpm::new().processes(processes).environment("LD_LIBRARY_PATH", &library);
    // The pool clears the environment of its processes.
    fpm = fpm.env("WEIR_ARM_DIR", &arm.display().to_string());
    fpm = fpm.ini("extension", &extension.display().to_string());
    for (name, value) in ini {
        fpm = fpm.ini(name, value);
    }
    fpm
}

/// Asks for a page by a connection of its own; gives the status and the body.
pub(crate) fn get(port: u16, path: &str, field: &str) -> (u16, String) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it is open");
    // Of HTTP/1.0, so that the body is as it is.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{field}\r\n").as_bytes()).expect("it takes it");
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole).expect("it answers");
    let whole = String::from_utf8_lossy(&whole).into_owned();
    let status = whole.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{whole}"));
    (status, whole.split_once("\r\n\r\n").map(|parts| parts.1.to_owned()).unwrap_or_default())
}

#[test]
fn behind_nginx_a_page_goes_on_with_its_clients_trace() {
    let Some(()) = required("opcache").and_then(|()| require::nginx()) else { return };
    let told = Told::new();
    let fpm = fpm(&told, 2, &[]);
    let pages = pages(&[("page.php", PAGE)]);
    let nginx = Nginx::new().root(pages.path()).php_fpm(&fpm).start().expect("it starts");
    let parents = |field: &str| {
        assert_eq!(get(nginx.port, "/page.php", field).0, 200);
        let all = told.next(2);
        assert_eq!(tree(&all), [("outer", Status::Good, None), ("inner", Status::Good, Some("outer"))]);
        all[0].parent.map(|parent| parent.span)
    };
    assert_eq!(parents(&format!("traceparent: {PARENT}\r\n")), Some(PARENT_SPAN));
    assert_eq!(parents(&format!("ARM-Correlator: {PARENT_HEX}\r\n")), Some(PARENT_SPAN));
    assert_eq!(parents("traceparent: 00-nonsense\r\n"), None);
    assert_eq!(parents(""), None, "nothing is left of the request before");
}

#[test]
fn processes_that_serve_many_requests_keep_nothing_of_them() {
    let Some(()) = required("opcache").and_then(|()| require::nginx()) else { return };
    let told = Told::new();
    let fpm = fpm(&told, 2, &[("display_errors", "0"), ("log_errors", "0")]);
    let pages = pages(&[("page.php", PAGE)]);
    let nginx = Nginx::new().root(pages.path()).php_fpm(&fpm).start().expect("it starts");
    let mut pids = BTreeSet::new();
    for round in 0..60 {
        let path = ["/page.php", "/page.php?exit", "/page.php?throw"][round % 3];
        pids.insert(get(nginx.port, path, "").1);
        let expected = if round % 3 == 0 { Status::Good } else { Status::Aborted };
        let all = told.next(2);
        assert_eq!(tree(&all), [("outer", expected, None), ("inner", expected, Some("outer"))], "{path}");
    }
    assert!(pids.len() <= 3, "the same processes: {pids:?}");
    // One word in memory, and the running processes record nothing more, or again.
    let switch =
        |to| Ask::Switch { application: "PHP".to_owned(), transaction: Some("outer".to_owned()), to: Some(to) };
    assert!(matches!(told.agent.ask(switch(Switch::Off)), Answer::Switched { .. }));
    get(nginx.port, "/page.php", &format!("traceparent: {PARENT}\r\n"));
    let all = told.next(1);
    // The child of one that is not recorded is a child of what is around that.
    assert_eq!((all[0].name.as_str(), all[0].parent.map(|parent| parent.span)), ("inner", Some(PARENT_SPAN)));
    assert!(matches!(told.agent.ask(switch(Switch::On)), Answer::Switched { .. }));
    get(nginx.port, "/page.php", "");
    assert_eq!(told.next(2).len(), 2);
}

#[test]
fn a_server_with_arm_says_whose_child_a_page_is_or_that_it_is_off() {
    let Some(()) = required("").and_then(|()| require::apache_module("proxy_fcgi")) else { return };
    let told = Told::new();
    let fpm = fpm(&told, 1, &[("arm.require_server", "1")]);
    let pages = pages(&[("page.php", PAGE)]);
    let given = format!(
        "<Location /page.php>\nSetEnvIf Request_URI . ARM_APPLICATION=shop\nSetEnvIf Request_URI . ARM_CORRELATOR={PARENT_HEX}\n</Location>"
    );
    let apache = Apache::event().workers(4).processes(1).root(pages.path()).php_fpm(&fpm).module("setenvif");
    let on = apache.clone().directive(&given).start().expect("it starts");
    assert_eq!(get(on.port, "/page.php", "").0, 200);
    let all = told.next(2);
    assert_eq!(tree(&all), [("outer", Status::Good, None), ("inner", Status::Good, Some("outer"))]);
    assert_eq!((all[0].application.as_str(), all[0].parent.map(|parent| parent.span)), ("shop", Some(PARENT_SPAN)));
    let off = apache.start().expect("it starts");
    assert_eq!(get(off.port, "/page.php", &format!("traceparent: {PARENT}\r\n")).0, 200);
    assert!(told.rest().is_empty(), "the server says nothing of it: off");
}

/// Apache with PHP within it, the extension, and what mod_arm would say by its environment.
pub(crate) fn within_apache(told: &Told, pages: &Path, dir: &Path, own: &[(&'static str, &Path)]) -> Apache {
    let (extension, library) = built();
    let ini = format!("extension={}\nzend_extension=opcache\nopcache.enable=1\n", extension.display());
    fs::write(dir.join("php.ini"), ini).expect("it is ours");
    let load = format!(
        "LoadModule php_module /usr/lib/apache2/modules/libphp8.2.so\nPHPIniDir {}\n<FilesMatch \"\\.php$\">\nSetHandler \
         application/x-httpd-php\n</FilesMatch>",
        dir.display()
    );
    let mut apache = Apache::prefork().workers(3).root(pages).module("setenvif").directive(&load);
    apache = apache.environment("LD_LIBRARY_PATH", &library).environment("WEIR_ARM_DIR", told.arm());
    // Nothing of Debian's configuration of PHP.
    apache = apache.environment("PHP_INI_SCAN_DIR", Path::new(""));
    own.iter().fold(apache, |apache, (name, value)| apache.environment(name, value))
}

#[test]
fn within_apache_the_request_and_the_servers_switch_are_obeyed() {
    let Some(()) = required("").and_then(|()| require::apache()).and_then(|()| libphp()) else { return };
    let told = Told::new();
    let (pages, dir) = (pages(&[("page.php", PAGE), ("other.php", PAGE)]), arm_directory());
    // mod_arm's word that it is in this process: what it does not name is off.
    let apache = within_apache(&told, pages.path(), dir.path(), &[("ARM_SERVER", Path::new("mod_arm"))]);
    let given = format!(
        "SetEnvIf Request_URI ^/page ARM_APPLICATION=shop\nSetEnvIf Request_URI ^/page ARM_CORRELATOR={PARENT_HEX}"
    );
    let apache = apache.directive(&given).start().expect("it starts");
    for round in 0..9 {
        let (path, status) = match round % 3 {
            0 => ("/page.php", Some(Status::Good)),
            1 => ("/page.php?exit", Some(Status::Aborted)),
            _ => ("/other.php", None),
        };
        assert_eq!(get(apache.port, path, "").0, 200, "{}", apache.log());
        let all = told.next(if status.is_some() { 2 } else { 0 });
        for one in &all {
            assert_eq!((one.application.as_str(), Some(one.status)), ("shop", status));
        }
        assert!(all.first().is_none_or(|one| one.parent.is_some_and(|parent| parent.span == PARENT_SPAN)));
    }
    assert!(told.rest().is_empty());
    // Graceful reloads unload the extension and load it again.
    for _ in 0..3 {
        // SAFETY: the process is this test's own.
        unsafe { libc::kill(apache.pid() as i32, libc::SIGUSR1) };
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(get(apache.port, "/page.php", "").0, 200, "{}", apache.log());
        assert_eq!(told.next(2)[0].application, "shop");
    }
}

/// Debian calls the file of PHP's module otherwise.
pub(crate) fn libphp() -> Option<()> {
    let file = Path::new("/usr/lib/apache2/modules/libphp8.2.so");
    require::or_skip(file.exists(), "libapache2-mod-php8.2 is not installed (make deps)")
}
