//! Where the administration of a server listens: by default at a Unix socket named after the
//! process, in a folder that only its user can enter. There `roundhouse top` finds it without
//! arguments.
//!
//! The administration can stop the server, so the question is who may reach it. The folder is made
//! with mode 0700; a TCP address must be loopback unless `--admin-anywhere` is given. The default
//! socket is a convenience: if it cannot be opened, the server runs without administration and says
//! so, whereas a place that was asked for is an error. `sweep` removes sockets of processes that no
//! longer exist, because a killed server cannot.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use engines::Door;

/// The value of `--admin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere.
    None,
    /// A socket at this path.
    Path(PathBuf),
    /// A TCP address.
    Address(SocketAddr),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(word: &str) -> Result<Place, String> {
        if word == "none" {
            return Ok(Place::None);
        }
        if let Ok(address) = word.parse() {
            return Ok(Place::Address(address));
        }
        let local = |port: &str| port.parse().ok().map(|port| (Ipv4Addr::LOCALHOST, port).into());
        if let Some(address) =
            word.strip_prefix("localhost:").or(word.strip_prefix(':')).and_then(local)
        {
            return Ok(Place::Address(address));
        }
        let path = word.strip_prefix("unix:").unwrap_or(word);
        if path.contains('/') {
            return Ok(Place::Path(path.into()));
        }
        Err(format!(
            "expected `none`, a path with a slash such as ./admin.sock, or an address such as \
             127.0.0.1:9901, found `{word}`"
        ))
    }
}

/// The folder of our servers' sockets: in `$XDG_RUNTIME_DIR`, else in the temporary directory.
pub fn folder() -> PathBuf {
    let user = sys::own::user();
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir()) {
        Some(dir) => dir.join("roundhouse"),
        None => std::env::temp_dir().join(format!("roundhouse-{user}")),
    }
}

/// Opens the socket that `wish` names. Without a wish it opens the default socket; if that fails,
/// it prints the reason and the server runs without administration. `anywhere` allows an address
/// that other machines can reach.
///
/// # Errors
/// Why the socket cannot be opened, for the user.
pub fn open(
    wish: Option<&Place>,
    anywhere: bool,
    is_successor: bool,
) -> Result<Option<Door>, String> {
    match wish {
        Some(Place::None) => Ok(None),
        Some(Place::Path(path)) => Door::at_path(path, is_successor).map(Some).map_err(|error| {
            format!("cannot open the administration at {}: {error}", path.display())
        }),
        Some(Place::Address(address)) => at_address(*address, anywhere, is_successor),
        None => match usual() {
            Ok(door) => Ok(Some(door)),
            Err(reason) => {
                language::eprintln!(
                    "serving without administration: {reason}; use --admin PATH, or --admin none"
                );
                Ok(None)
            }
        },
    }
}

fn at_address(
    address: SocketAddr,
    anywhere: bool,
    is_successor: bool,
) -> Result<Option<Door>, String> {
    if !address.ip().is_loopback() && !anywhere {
        return Err(format!(
            "expected a loopback address for the administration, found {address}: every client \
             that reaches it can stop the server; say --admin-anywhere if that is intended"
        ));
    }
    match Door::at_address(address) {
        Ok(door) => Ok(Some(door)),
        Err(error) if is_successor && error.kind() == io::ErrorKind::AddrInUse => {
            language::info!(
                "serving without administration: the predecessor has {address} until it leaves"
            );
            Ok(None)
        }
        Err(error) => Err(format!("cannot open the administration at {address}: {error}")),
    }
}

fn usual() -> Result<Door, String> {
    let folder = folder();
    let name = folder.display();
    sys::own::make(&folder).map_err(|error| format!("cannot use the folder {name}: {error}"))?;
    sweep(&folder);
    let path = folder.join(format!("{}.sock", std::process::id()));
    Door::at_path(&path, true).map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes the sockets of servers that were killed.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.rsplit('.').find_map(|it| it.parse().ok()));
        let Some(owner): Option<u32> = owner else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Place {
    /// The name of a socket for messages and JSON.
    pub fn of(door: &Door) -> String {
        match (door.path(), door.address()) {
            (Some(path), _) => format!("unix:{}", path.display()),
            (None, Some(SocketAddr::V6(address))) if address.ip().is_unspecified() => {
                format!("http://{}/", SocketAddr::new(IpAddr::from([0; 16]), address.port()))
            }
            (None, address) => {
                address.map_or_else(String::new, |address| format!("http://{address}/"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn words_name_places() {
        let check = |word: &str, want: Place| assert_eq!(word.parse(), Ok(want), "{word}");
        check("none", Place::None);
        check("./none", Place::Path("./none".into()));
        check("unix:/run/x.sock", Place::Path("/run/x.sock".into()));
        for word in ["127.0.0.1:9901", "localhost:9901", ":9901"] {
            check(word, Place::Address(([127, 0, 0, 1], 9901).into()));
        }
        check("[::1]:80", Place::Address("[::1]:80".parse().expect("an address")));
        for word in ["", "yes", "localhost", ":70000", "127.0.0.1"] {
            let said = word.parse::<Place>().expect_err("no place");
            assert!(said.contains("expected `none`"), "{said}");
        }
    }

    #[test]
    fn only_this_machine_is_let_in_unless_that_is_meant() {
        let wide = Place::Address(([0, 0, 0, 0], 0).into());
        let said = open(Some(&wide), false, false).expect_err("not meant");
        assert!(said.contains("--admin-anywhere"), "{said}");
        let door = open(Some(&wide), true, false).expect("meant").expect("a door");
        assert!(door.address().is_some_and(|address| address.port() != 0));
        assert!(matches!(open(Some(&Place::None), false, false), Ok(None)));
    }

    #[test]
    fn what_the_dead_have_left_is_swept_and_a_living_server_is_not_replaced() {
        let room = testkit::Folder::new();
        let folder = room.path();
        let (dead, ours) = (folder.join("4194999.sock"), folder.join("admin.sock"));
        fs::write(&dead, "").expect("a file");
        sweep(folder);
        assert!(!dead.exists(), "no process has that number");
        let open_here = || open(Some(&Place::Path(ours.clone())), false, false);
        let door = open_here().expect("nobody is here").expect("a door");
        let mode = fs::symlink_metadata(&ours).expect("a socket").mode();
        assert_eq!((mode & 0o777, fs::read_dir(folder).expect("ours").count()), (0o600, 1));
        assert_eq!(Place::of(&door), format!("unix:{}", ours.display()));
        assert!(open_here().expect_err("it is there").contains("another server answers"));
        drop(door);
        assert!(open_here().expect("it is gone").is_some(), "what it left is replaced");
        fs::write(folder.join("file"), "data").expect("a file");
        let file = Place::Path(folder.join("file"));
        assert!(open(Some(&file), false, true).is_err(), "a file is not a socket of ours");
    }
}
