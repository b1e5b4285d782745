//! The start: what TCP in user space cannot do, and the sockets and the program on the interface.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use language::info;
use sys::socket::is_own;
use sys::xdp::{Claim, Device, Mode, Redirection, XdpSocket};

use super::counts::FrameCounts;
use super::frame::Station;
use crate::address::Address;
use crate::axes::{Refused, Wait};
use crate::fault::Fault;
use crate::server::Host;
use crate::shape::Shape;

/// The queues of an interface, and the program that fills them.
pub struct Queues {
    pub place: Station,
    /// One for each worker.
    pub sockets: Vec<Mutex<XdpSocket>>,
    pub counts: Vec<FrameCounts>,
    _program: Redirection,
}

/// Refuses what the engine cannot do.
///
/// # Errors
/// The refused setting, with one that is possible.
pub fn check_bypass(shape: &Shape, host: &Host<'_>, lent: &[OwnedFd]) -> Result<(), Refused> {
    if shape.wait != Wait::Bypass {
        return Ok(());
    }
    let refuse = |why: &str| Err(Refused(format!("--engine bypass is refused: {why}")));
    if host.handover.is_some() || host.state_fd.is_some() {
        return refuse(
            "its connections cannot be handed over to another process: leave --upgradable out",
        );
    }
    if !lent.is_empty() {
        return refuse("it uses no sockets of a service manager: start it without them");
    }
    if host.addresses.len() > 1 {
        return refuse("it serves one address: leave --listen out");
    }
    match host.addresses.first() {
        Some(Address::Net(SocketAddr::V4(address)))
            if !address.ip().is_loopback() && !address.ip().is_unspecified() =>
        {
            Ok(())
        }
        Some(found) => refuse(&format!(
            "expected the IPv4 address that clients on the interface connect to, found {found}: \
             say, for example, --host 192.0.2.1"
        )),
        None => refuse("expected an address: say --host"),
    }
}

impl Queues {
    /// The queues of a shape that needs them.
    ///
    /// # Errors
    /// As [`Queues::open`].
    pub fn of(shape: &Shape, addresses: &[Address]) -> Result<Option<Queues>, Fault> {
        match shape.wait {
            Wait::Bypass => Queues::open(shape, addresses).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens a socket on each queue of the interface, and puts the program on it.
    ///
    /// # Errors
    /// No interface is named, or there is no such interface; the workers are not as many as its
    /// queues; rights or features of the kernel are missing.
    fn open(shape: &Shape, addresses: &[Address]) -> Result<Queues, Fault> {
        let Some(Address::Net(SocketAddr::V4(address))) = addresses.first() else {
            return Err(refused("expected an IPv4 address: say --host".to_owned()));
        };
        let Some(name) = shape.knobs.loops.interface else {
            return Err(refused(
                "expected the network interface of its clients, found none: say, for example, \
                 --interface eth0"
                    .to_owned(),
            ));
        };
        let device = Device::find(name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused(format!(
                "expected a network interface, found none of the name `{name}`: `ip link` lists \
                 them"
            )),
            io::ErrorKind::InvalidData => refused(format!(
                "expected an interface with Ethernet frames, found `{name}`: say --engine epoll \
                 for clients of this machine"
            )),
            _ => refused(format!("the interface {name} cannot be read: {error}")),
        })?;
        if device.queues != shape.workers {
            return Err(refused(format!(
                "expected a worker for each of the {} receive queues of {name}, found {}: say \
                 --workers {0}",
                device.queues, shape.workers
            )));
        }
        open_queues(&device, *address).map_err(|error| refused(missing(&device, &error)))
    }
}

fn open_queues(device: &Device, address: SocketAddrV4) -> io::Result<Queues> {
    // The kernel answers for its own addresses.
    let claim = Claim { address, with_arp: !is_own(*address.ip()) };
    let program = Redirection::new(device, claim)?;
    let mut sockets = Vec::new();
    let mut is_zero_copy = true;
    for queue in 0..device.queues as u32 {
        let socket = XdpSocket::open(device, queue)?;
        program.give(queue, &socket)?;
        is_zero_copy &= socket.is_zero_copy;
        sockets.push(Mutex::new(socket));
    }
    let copies = if is_zero_copy { "without a copy" } else { "by copying" };
    let mode = if program.mode == Mode::Driver { "in the driver" } else { "in generic mode" };
    let arp = if claim.with_arp { "answered here" } else { "left to the kernel" };
    let name = device.name;
    info!("frames of {name}: {copies}, picked by a program {mode}; ARP {arp}");
    let Device { mac, mtu, is_virtual, .. } = *device;
    let place = Station { mac, address, mtu: mtu.min(1500), is_virtual };
    let counts = sockets.iter().map(|_| FrameCounts::default()).collect();
    Ok(Queues { place, sockets, counts, _program: program })
}

fn refused(why: String) -> Fault {
    Fault::Refused(Refused(format!("--engine bypass is refused: {why}")))
}

/// The missing right or feature, and the remedy.
fn missing(device: &Device, error: &io::Error) -> String {
    let name = device.name;
    match error.raw_os_error() {
        Some(1 | 13) => "expected the rights CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW, found fewer: \
                         start it as root (--run-as gives the rights up afterwards)"
            .to_owned(),
        Some(16) => format!(
            "expected {name} without another program of XDP, found one: `ip link show {name}` \
             names it, `ip link set {name} xdp off` removes it"
        ),
        Some(22 | 38 | 97) => format!(
            "expected a kernel with AF_XDP (CONFIG_XDP_SOCKETS, Linux 5.9), found one without: \
             {error}"
        ),
        _ => format!("the queues of {name} cannot be opened: {error}"),
    }
}
