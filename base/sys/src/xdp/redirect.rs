//! The program on a device that gives the frames of one address and port to AF_XDP sockets.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsFd;

use super::{Device, XdpSocket};
use crate::bpf::{Assembly, FrameLink, Helper, Math, Program, QueueTable, When, Width};

/// The frames that leave the kernel's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// TCP to this address and port.
    pub address: SocketAddrV4,
    /// ARP for the address too, because the kernel does not have it.
    pub with_arp: bool,
}

/// The place of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes a packet of the frame.
    Driver,
    /// After that: slower, with any device.
    Generic,
}

/// A program on a device; it goes with this value, or with the process.
#[derive(Debug)]
pub struct Redirection {
    table: QueueTable,
    /// The place of the program.
    pub mode: Mode,
    _link: FrameLink,
}

impl Redirection {
    /// Puts the program on a device. Until a queue has a socket, its frames go to the kernel.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN` and `CAP_BPF`; `EBUSY` where the device has a program; with
    /// the kernel's reasons where it refuses this one.
    pub fn new(device: &Device, claim: Claim) -> io::Result<Redirection> {
        let table = QueueTable::new(device.queues as u32)?;
        let program = Program::frames(picking(&table, claim))?;
        let link = |mode| FrameLink::new(&program, device.index, mode == Mode::Generic);
        let (link, mode) = match link(Mode::Driver) {
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                (link(Mode::Generic)?, Mode::Generic)
            }
            other => (other?, Mode::Driver),
        };
        Ok(Redirection { table, mode, _link: link })
    }

    /// Gives the frames of a queue to its socket.
    ///
    /// # Errors
    /// `E2BIG` for a queue that the device does not have.
    pub fn give(&self, queue: u32, socket: &XdpSocket) -> io::Result<()> {
        self.table.put(queue, socket.as_fd())
    }
}

/// `XDP_PASS`: the kernel goes on with the frame.
const PASS: i32 = 2;

/// The program. A frame without options before its ports, unfragmented, is enough: others pass.
fn picking(table: &QueueTable, claim: Claim) -> Assembly {
    let (context, data, end, limit, found) = (6, 2, 3, 4, 0);
    let mut code = Assembly::default();
    let (pass, take, arp) = (code.label(), code.label(), code.label());
    let half = |bytes: [u8; 2]| i32::from(u16::from_ne_bytes(bytes));
    let [a, b, c, d] = claim.address.ip().octets();
    let address = [half([a, b]), half([c, d])];
    code.math_by(Math::Mov, context, 1);
    // The frame's start and end are the first words of an xdp_md; an ARP frame has 42 bytes.
    code.load(Width::Word, data, 1, 0);
    code.load(Width::Word, end, 1, 4);
    code.math_by(Math::Mov, limit, data);
    code.math(Math::Add, limit, 42);
    code.jump_if_by(When::Above, limit, end, pass);
    let expect = |code: &mut Assembly, at: i16, bytes: i32| {
        code.load(Width::Half, found, data, at);
        code.jump_if(When::Differs, found, bytes, pass);
    };
    code.load(Width::Half, found, data, 12);
    if claim.with_arp {
        code.jump_if(When::Equal, found, half([0x08, 0x06]), arp);
    }
    code.jump_if(When::Differs, found, half([0x08, 0x00]), pass);
    // IPv4 with a head of 20 bytes, TCP, to our address and port.
    code.load(Width::Byte, found, data, 14);
    code.jump_if(When::Differs, found, 0x45, pass);
    code.load(Width::Byte, found, data, 23);
    code.jump_if(When::Differs, found, 6, pass);
    expect(&mut code, 30, address[0]);
    expect(&mut code, 32, address[1]);
    expect(&mut code, 36, half(claim.address.port().to_be_bytes()));
    // More fragments, or not the first one.
    code.load(Width::Half, found, data, 20);
    code.math(Math::And, found, half([0x3f, 0xff]));
    code.jump_if(When::Differs, found, 0, pass);
    if claim.with_arp {
        code.jump(take);
        code.here(arp);
        expect(&mut code, 38, address[0]);
        expect(&mut code, 40, address[1]);
    }
    code.here(take);
    code.table(1, table);
    code.load(Width::Word, 2, context, 16);
    code.math(Math::Mov, 3, PASS);
    code.call(Helper::RedirectMap);
    code.exit();
    code.here(pass);
    code.math(Math::Mov, 0, PASS);
    code.exit();
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_kernel_accepts_the_program() {
        let address = SocketAddrV4::new(Ipv4Addr::new(192, 168, 255, 254), 65535);
        for with_arp in [false, true] {
            let table = match QueueTable::new(4) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                    eprintln!(
                        "skipped: queues and programs of the kernel's need CAP_NET_ADMIN, CAP_BPF"
                    );
                    return;
                }
                table => table.expect("a table"),
            };
            let loaded = Program::frames(picking(&table, Claim { address, with_arp }));
            assert!(loaded.is_ok(), "{loaded:?}");
        }
    }
}
