//! gRPC at a real server, in the clear and over TLS: methods and statuses. `make test-grpc` builds the server and its client
//! beside the tests (google.golang.org/grpc with its own health service).

use crate::check;
use crate::servers::{certificate, watched};
use crate::support::{alone, number};
use std::path::PathBuf;
use std::process::Command;
use weir_testkit::{Certificate, Place, Program, require};

const CALLS: u32 = 1600;
const METHOD: &str = "gRPC /grpc.health.v1.Health/Check";

fn built() -> Option<PathBuf> {
    require::root_and_bpf()?;
    require::program("openssl")?;
    let tests = std::env::current_exe().ok()?;
    let built = tests.ancestors().nth(1)?.join("streams-grpc");
    require::or_skip(built.is_file(), "the server of gRPC is not built (make test-grpc)")?;
    Some(built)
}

#[test]
fn methods_and_statuses_of_grpc_are_told() {
    let _turn = alone();
    let Some(built) = built() else { return };
    let made = certificate();
    for tls in [None, Some(made.clone())] {
        let what = if tls.is_some() { "gRPC over TLS" } else { "gRPC in the clear" };
        let files = |tls: &Option<Certificate>| tls.as_ref().map(|made| [made.certificate(), made.key()]);
        let (program, of_server) = (built.clone(), files(&tls));
        let server = Program::new(move |Place { port, .. }| {
            let mut command = Command::new(&program);
            command.arg("serve").arg(port.to_string()).args(of_server.iter().flatten());
            Ok(command)
        });
        let server = server.start().expect("the server starts");
        let mut load = Command::new(&built);
        load.arg("ask").arg(server.port.to_string()).arg(CALLS.to_string());
        load.args(tls.iter().map(Certificate::certificate));
        let report = watched(server.port, &mut load);
        check(&report, f64::from(CALLS), &[METHOD], what);
        // Half of the calls are about a service that it does not know.
        let [calls, failed] = ["grpc", "grpc_failed"].map(|name| number(&report, &format!("/exchanges/{name}")));
        assert!(calls >= f64::from(CALLS) * 0.999, "{what}: {calls} calls");
        assert!((failed - calls / 2.0).abs() <= 2.0, "{what}: {failed} of {calls} failed");
    }
}
