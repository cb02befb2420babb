//! Who listens at a port, from `/proc`: for the message when it is not the one that should.
use std::fs;
use std::path::Path;

/// The processes that listen at a TCP port of this host, each as `name (pid)`; none where they are out of sight (another
/// user's, or in another namespace).
pub(crate) fn listeners(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets: Vec<String> = tables.iter().flat_map(|table| inodes(table, port)).collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter(|process| holds(&process.path(), &sockets)).filter_map(|process| name(&process.path())).collect()
}

/// The listening sockets of a table as links name them: its lines are `sl local_address rem_address st ... inode` with
/// the port in hexadecimal, and state 0A is LISTEN.
fn inodes(table: &str, port: u16) -> Vec<String> {
    let local = format!(":{port:04X}");
    let lines = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<&str>>());
    let ours = lines.filter(|fields| {
        fields.get(1).is_some_and(|address| address.ends_with(&local)) && fields.get(3) == Some(&"0A")
    });
    ours.filter_map(|fields| Some(format!("socket:[{}]", fields.get(9)?))).collect()
}

fn holds(process: &Path, sockets: &[String]) -> bool {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let mut targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

fn name(process: &Path) -> Option<String> {
    let pid = process.file_name()?.to_str()?.to_owned();
    let name = fs::read_to_string(process.join("comm")).ok()?;
    Some(format!("{} (process {pid})", name.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_listen_at_the_port_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n\
             1: 0100007F:1F90 0100007F:8001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n\
             2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n";
        assert_eq!(inodes(table, 8080), ["socket:[4711]"]);
        assert_eq!(inodes(table, 80), ["socket:[4713]"]);
        assert_eq!(inodes("what", 80), Vec::<String>::new());
    }
}
