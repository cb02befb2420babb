//! A server on io_uring whose calls a thread of the kernel's does, which polls the ring without a pause (SQPOLL).

use crate::support;

use io_uring::{IoUring, opcode, squeue, types};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use support::planted::{Beside, explained, names_first, said, share, undisturbed, wait_for};
use weir_testkit::{Site, require};

/// Set for the process that is the server: the file to which it writes its port.
const ROLE: &str = "WEIR_TEST_RING_SERVER";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// What is done for a connection, in the upper half of a completion's word; the descriptor is the lower one.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SLEEP: u64 = 2;
const SEND: u64 = 3;

/// Answers each request after 8 ms. Its poller sleeps after 2 ms without work, so that it is woken by the server as well.
fn serve(port_file: &Path) -> std::io::Result<()> {
    let mut ring: IoUring = IoUring::builder().setup_sqpoll(2).build(64)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    std::fs::write(port_file, listener.local_addr()?.port().to_string())?;
    let pause = types::Timespec::new().nsec(8_000_000);
    let mut buffers = vec![[0u8; 4096]; 256];
    let on = |descriptor: i32, what: u64| what << 32 | descriptor as u64;
    let accept = |listener: &TcpListener| {
        let listener = types::Fd(listener.as_raw_fd());
        opcode::Accept::new(listener, std::ptr::null_mut(), std::ptr::null_mut()).build().user_data(on(0, ACCEPT))
    };
    let mut next: Vec<squeue::Entry> = vec![accept(&listener)];
    loop {
        for entry in next.drain(..) {
            // SAFETY: buffers, response and pause outlive the ring; a buffer is its descriptor's alone.
            unsafe { ring.submission().push(&entry) }.map_err(std::io::Error::other)?;
        }
        ring.submit_and_wait(1)?;
        let done: Vec<(u64, i32)> = ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (word, result) in done {
            let (what, descriptor) = (word >> 32, word as u32 as i32);
            let socket = types::Fd(if what == ACCEPT { result } else { descriptor });
            match what {
                RECEIVE if result <= 0 => {
                    // SAFETY: the descriptor is a connection's that ends here.
                    unsafe { libc::close(descriptor) };
                }
                ACCEPT | SEND => {
                    let buffer = &mut buffers[socket.0 as usize % 256];
                    let receive = opcode::Recv::new(socket, buffer.as_mut_ptr(), buffer.len() as u32);
                    next.push(receive.build().user_data(on(socket.0, RECEIVE)));
                    next.extend((what == ACCEPT).then(|| accept(&listener)));
                }
                RECEIVE => next.push(opcode::Timeout::new(&raw const pause).build().user_data(on(descriptor, SLEEP))),
                _ => {
                    let send = opcode::Send::new(socket, RESPONSE.as_ptr(), RESPONSE.len() as u32);
                    next.push(send.build().user_data(on(descriptor, SEND)));
                }
            }
        }
    }
}

#[test]
fn a_server_whose_ring_is_polled_sleeps() {
    if let Some(port_file) = std::env::var_os(ROLE) {
        return serve(Path::new(&port_file)).expect("a ring that is polled");
    }
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() {
        return;
    }
    let site = Site::empty().expect("a directory");
    let port_file = site.path().join("port");
    let test = std::env::current_exe().expect("this program");
    let mut server = Command::new(test);
    server.args(["--exact", "planted_rings::a_server_whose_ring_is_polled_sleeps", "--test-threads=1"]);
    server.env(ROLE, &port_file).stdout(Stdio::null());
    let _server = Beside::spawn(server);
    let port = wait_for(|| std::fs::read_to_string(&port_file).ok()?.trim().parse::<u16>().ok()).to_string();
    let report = explained(&format!("http://127.0.0.1:{port}/"), &["--port", &port, "-c", "1", "-d", "1500ms"]);
    names_first(&report, "wait_timer", "");
    assert!(share(&report, "wait_timer") > 0.7 && share(&report, "unattributed") < 0.05, "{}", said(&report));
    assert!(report["joined_fraction"].as_f64().is_some_and(|joined| joined > 0.99), "{}", said(&report));
}
