//! Options of `weir serve` about sites override the settings of a configuration file.
// scripts/test: waits

#[path = "serve_sites/names.rs"]
mod names;
#[path = "sites/php.rs"]
mod php;
#[path = "sites/remote.rs"]
mod remote;
#[path = "sites/script_deaths.rs"]
mod script_deaths;
#[path = "sites/script_owners.rs"]
mod script_owners;
#[path = "sites/script_reloads.rs"]
mod script_reloads;
#[path = "sites/script_steps.rs"]
mod script_steps;
#[path = "sites/scripts.rs"]
mod scripts;
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use support::served::Served;
use support::weir;
use weir_testkit::client::Connection;

fn status(served: &Served, path: &str) -> u16 {
    Connection::open(served.port).expect("connects").get(path).expect("an answer").status
}

fn body(served: &Served, path: &str) -> String {
    let reply = Connection::open(served.port).expect("connects").get(path).expect("an answer");
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// Two sites, each of which says other things than the command line will, and links that leave them.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for site in ["one", "two"] {
        let root = folder.path().join(site);
        fs::create_dir(&root).expect("creates");
        fs::write(root.join(".dot"), "dot").expect("writes");
        fs::write(root.join("page.shtml"), "<!--#echo var=\"none\" -->").expect("writes");
        fs::write(root.join("a.txt"), "plain").expect("writes");
        fs::write(root.join("a.txt.gz"), "packed").expect("writes");
        symlink("a.txt", root.join("link.txt")).expect("links");
        symlink("../secret.txt", root.join("out.txt")).expect("links");
    }
    fs::write(folder.path().join("secret.txt"), "secret").expect("writes");
    let sites = "[[host]]\nroot = \"one\"\nlisting = true\ndot_files = false\nsymlinks = \"within\"\ncompression = true\n\
        includes = true\nmedia_types = { txt = \"a/b\" }\n[[host.path]]\nprefix = \"/two/\"\nroot = \"two\"\n";
    fs::write(folder.path().join("weir.toml"), sites).expect("writes");
    folder
}

#[test]
fn what_the_command_line_says_holds_for_each_site_of_a_file() {
    let folder = folder();
    let as_the_file_says = Served::start(folder.path(), &[], "weir.toml");
    for (path, expected) in [("/", 200), ("/two/", 200), ("/.dot", 404), ("/two/.dot", 404), ("/link.txt", 200)] {
        assert_eq!(status(&as_the_file_says, path), expected, "{path}");
    }
    drop(as_the_file_says);
    let options = ["--no-listing", "--dot-files", "--no-includes", "--no-compression", "--media-type", "txt=c/d"];
    let served = Served::start(folder.path(), &[&options[..], &["--symlinks", "never"]].concat(), "weir.toml");
    // The same after the file was read again.
    for _ in 0..2 {
        for (path, expected) in [("/", 403), ("/two/", 403), ("/.dot", 200), ("/two/.dot", 200), ("/link.txt", 404)] {
            assert_eq!(status(&served, path), expected, "{path}");
        }
        for path in ["/a.txt", "/two/a.txt"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
            let mut connection = Connection::open(served.port).expect("connects");
            let reply = connection.exchange(request.as_bytes()).expect("an answer");
            assert_eq!(reply.body, b"plain", "{path}");
            assert!(reply.headers.iter().any(|line| line.eq_ignore_ascii_case("content-type: c/d")), "{path}");
            assert!(body(&served, &path.replace("a.txt", "page.shtml")).starts_with("<!--"), "{path}");
        }
        served.signal(libc::SIGHUP);
        served.says("was read again and holds");
    }
}

/// With anything in the place of the configuration, or of a file that it names, the server keeps its configuration and
/// says which file it cannot use.
#[test]
fn a_reload_without_one_of_its_files_leaves_everything_as_it_was() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let text = "[limits]\ntarget = \"100 B\"\n[[host]]\nroot = \"one\"\nerror_pages = { 404 = \"page.html\" }\n\
        [[host.path]]\nprefix = \"/two/\"\nroot = \"two\"\nauth = { users = \"users\" }\n";
    fs::write(at("weir.toml"), text).expect("writes");
    fs::write(at("page.html"), "mine").expect("writes");
    fs::write(at("users"), "ann:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n").expect("writes");
    let served = Served::start(folder.path(), &[], "weir.toml");
    let holds = || {
        assert_eq!(status(&served, &format!("/{}", "a".repeat(200))), 414);
        assert_eq!((body(&served, "/none").as_str(), status(&served, "/two/a.txt")), ("mine", 401));
    };
    holds();
    for name in ["weir.toml", "page.html", "users", "two"] {
        fs::rename(at(name), at("elsewhere")).expect("renames");
        served.signal(libc::SIGHUP);
        let said = served.says("No such file or directory");
        assert!(said.contains(name), "{said}");
        served.says("weir.toml was not taken up; all is as before");
        holds();
        if name != "two" {
            // A directory in its place, and then nothing in it.
            fs::create_dir(at(name)).expect("creates");
            served.signal(libc::SIGHUP);
            assert!(served.says("it is no file").contains(name));
            served.says("was not taken up");
            holds();
            fs::remove_dir(at(name)).expect("removes");
        }
        if matches!(name, "weir.toml" | "users") {
            fs::write(at(name), "").expect("writes");
            served.signal(libc::SIGHUP);
            assert!(served.says("there is no").contains(name));
            served.says("was not taken up");
            holds();
        }
        fs::rename(at("elsewhere"), at(name)).expect("renames");
        served.signal(libc::SIGHUP);
        served.says("was read again and holds");
    }
    fs::write(at("weir.toml"), format!("{text}# {}", "x".repeat(4 << 20))).expect("writes");
    served.signal(libc::SIGHUP);
    served.says("it has more than 4 MiB");
    served.says("was not taken up");
    holds();
}

#[test]
fn links_lead_anywhere_only_where_the_server_is_not_confined() {
    let folder = folder();
    let refused = |options: &[&str], what: &str| {
        let output = weir().arg("serve").args(options).arg(what).current_dir(folder.path()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{options:?} {what}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let port = ["--listen", "127.0.0.1:0", "--symlinks"];
    assert!(refused(&[&port[..], &["anywhere"]].concat(), "one").contains("give --no-sandbox"));
    assert!(refused(&[&port[..], &["anywhere"]].concat(), "weir.toml").contains("give --no-sandbox"));
    assert!(refused(&[&port[..], &["everywhere"]].concat(), "one").contains("neither never nor within"));
    let file = folder.path().join("weir.toml");
    let text = fs::read_to_string(&file).expect("reads").replace("within", "anywhere");
    fs::write(&file, &text).expect("writes");
    assert!(refused(&["--listen", "127.0.0.1:0"], "weir.toml").contains("weir.toml:5:12: "));
    fs::write(&file, format!("sandbox = false\n{text}")).expect("writes");
    let out = |served: &Served, path: &str| status(served, path);
    for (options, what, expected) in [
        (&["--symlinks", "anywhere", "--no-sandbox"][..], "one", 200),
        (&["--symlinks", "within"], "one", 404),
        (&[], "weir.toml", 200),
        (&["--symlinks", "owner"], "weir.toml", 404),
    ] {
        let served = Served::start(folder.path(), options, Path::new(what));
        assert_eq!(out(&served, "/out.txt"), expected, "{options:?} {what}");
        assert_eq!(out(&served, "/link.txt"), 200, "{options:?} {what}");
    }
}

#[test]
fn links_by_the_path_of_the_root_are_followed_by_a_confined_server() {
    let folder = folder();
    let root = folder.path().join("one");
    symlink(root.join("a.txt"), root.join("absolute.txt")).expect("links");
    let served = Served::start(folder.path(), &[], "one");
    assert_eq!(body(&served, "/absolute.txt"), "plain");
    // The kernel reports no change by this path, so the server has to look.
    fs::write(root.join("a.txt"), "changed").expect("writes");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(body(&served, "/absolute.txt"), "changed");
}
