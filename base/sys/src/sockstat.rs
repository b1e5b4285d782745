//! The memory that the kernel holds for sockets (`/proc/net/sockstat`).

use std::fs;

/// Bytes that the kernel has charged to TCP sockets of this network namespace: their send and
/// receive queues, in whole pages. `None` where the file is missing.
pub fn tcp_bytes() -> Option<u64> {
    tcp_pages(&fs::read_to_string("/proc/net/sockstat").ok()?)
        .map(|pages| pages * rustix::param::page_size() as u64)
}

/// The pages in `TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 3`.
fn tcp_pages(text: &str) -> Option<u64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("TCP: "))?.split(' ');
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_tcp_are_read() {
        let text =
            "sockets: used 52\nTCP: inuse 1 orphan 0 tw 9 alloc 1 mem 3\nUDP: inuse 0 mem 7\n";
        assert_eq!((tcp_pages(text), tcp_pages("UDP: mem 7\n")), (Some(3), None));
        assert!(tcp_bytes().is_some_and(|bytes| bytes % 4096 == 0));
    }
}
