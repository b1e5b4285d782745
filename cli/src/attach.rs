//! `roundhouse attach`: stands for a server that runs already, so that a race can start and stop it
//! like its own. It announces the server's address and the process whose costs are the server's.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use meter::machine::{LISTENS, tcp_sockets};

/// The arguments of `attach`.
#[derive(clap::Args)]
pub struct Args {
    /// The address on which the server listens, on this machine
    address: SocketAddr,
}

/// Announces the server, then sleeps until it is ended.
pub fn run(args: &Args) -> Result<ExitCode> {
    let watched = owner(args.address)?;
    println!("{}", serde_json::json!({ "listening": args.address, "watched": watched }));
    let stop = tools::interrupt::watch()?;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(ExitCode::SUCCESS)
}

/// The process that listens at `address`, or the one that started all processes that do.
///
/// # Errors
/// None listens, it cannot be seen, or independent processes share the port.
pub fn owner(address: SocketAddr) -> Result<u32> {
    let own = tcp_sockets(LISTENS).filter(|it| it.0[0] == address.port());
    let sockets: BTreeSet<_> = own.map(|it| OsString::from(format!("socket:[{}]", it.1))).collect();
    if sockets.is_empty() {
        bail!("expected a server that listens on {address}, found none on this machine");
    }
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes of other users cannot be read, and some end meanwhile.
        let Ok(files) = fs::read_dir(entry.path().join("fd")) else { continue };
        let is_listener = |file: fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|link| sockets.contains(link.as_os_str()))
        };
        if files.flatten().any(is_listener) {
            parents.insert(pid, meter::proc::stat(pid).map_or(0, |it| it[4] as u32));
        }
    }
    let roots = parents.iter().filter(|(_, parent)| !parents.contains_key(parent));
    let roots: Vec<u32> = roots.map(|(pid, _)| *pid).collect();
    match roots[..] {
        [root] => Ok(root),
        [] => bail!(
            "the process that listens on {address} belongs to another user: run this as that user, \
             or give the server's command in place of its address"
        ),
        _ => bail!("expected one server on {address}, found the processes {roots:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_belongs_to_its_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens");
        assert_eq!(owner(address).expect("this process"), std::process::id());
        drop(listener);
        assert!(owner(address).expect_err("closed").to_string().contains("found none"));
    }
}
