//! Workers that listen, and the certificates by which they are reached.

use super::weir;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A certificate authority and two certificates of it, made by openssl.
pub(crate) fn certificates(folder: &Path) {
    let ran = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(folder).output().expect("openssl is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let ca = ["req", "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"];
    ran(&[&ca[..], &key].concat());
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("written");
    for name in ["worker", "me"] {
        let (key_file, request, file) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        ran(&[&["req", "-subj", "/CN=x", "-keyout", &key_file, "-out", &request][..], &key].concat());
        let sign = ["x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"];
        ran(&[&sign[..], &["-extfile", "names", "-out", &file]].concat());
    }
}

/// A `weir worker` that listens, and its port.
pub(crate) struct Listening {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Listening {
    /// Starts one, whose clock may be shifted by some seconds.
    pub(crate) fn start(folder: &Path, shift_s: Option<i64>, more: &[&str]) -> Self {
        let program = PathBuf::from(weir().get_program());
        let mut command = match shift_s {
            None => Command::new(&program),
            Some(shift_s) => {
                let mut command = Command::new("unshare");
                command.args(["--time", "--kill-child", "--fork", "--monotonic", &shift_s.to_string()]).arg(&program);
                command
            }
        };
        command.args(["worker", "--listen", "127.0.0.1:0", "--cert", "worker.pem", "--key", "worker.key"]);
        command.args(["--ca", "ca.pem"]).args(more).current_dir(folder).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("listens at")).expect("it listens");
        let port = line.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port }
    }
}

pub(crate) fn by_tls(folder: &Path, workers: &[&Listening], more: &[&str]) -> Output {
    let mut command = weir();
    command.args([
        "load",
        "-q",
        "--json",
        "--worker-cert",
        "me.pem",
        "--worker-key",
        "me.key",
        "--worker-ca",
        "ca.pem",
    ]);
    for worker in workers {
        command.args(["--workers", &format!("tls:localhost:{}", worker.port)]);
    }
    command.args(more).current_dir(folder).output().expect("it starts")
}
