//! Frames made and sent by a program in the kernel (BPF_PROG_RUN with live frames, Linux 5.18;
//! Documentation/bpf/bpf_prog_run.rst): one call runs the program once per frame, and its verdict
//! on the frame is carried out. No socket, queue or buffer of the network stack is involved.
//!
//! A call for more than one frame by a program that is attached nowhere takes some twenty
//! milliseconds, because the kernel patches its own code before and after. With the same program
//! attached once, to any device ([`Program::attach`]), a call takes eight microseconds plus a tenth
//! of one per frame.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::bpf::{Assembly, Math, Program, command};

/// The maximum number of frames per batch (`TEST_XDP_MAX_BATCH`).
pub const FRAMES_MAX: u32 = 256;

/// A program's verdict on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Drop it.
    Drop = 1,
    /// Pass it to the network stack.
    Pass = 2,
}

/// A program attached to a device until it is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Verdict {
    /// A program with the same verdict on every frame of a device. Its driver then handles frames,
    /// so that the other end of a `veth` accepts them from programs; with [`Verdict::Drop`] it is a
    /// sink.
    ///
    /// # Errors
    /// As [`Program::attach`].
    pub fn of_all(self, device: u32) -> io::Result<Attached> {
        let mut code = Assembly::default();
        code.math(Math::Mov, 0, self as i32);
        code.exit();
        Program::frames(code)?.attach(device)
    }
}

impl Program {
    /// Loads a program that handles frames (`BPF_PROG_TYPE_XDP`) into the kernel, which verifies
    /// it.
    ///
    /// # Errors
    /// As [`Program::classifier`].
    pub fn frames(assembly: Assembly) -> io::Result<Program> {
        // BPF_XDP
        Program::load(6, 37, assembly)
    }

    /// Attaches a program for frames to a device, in its driver.
    ///
    /// # Errors
    /// `EBUSY` where another program is attached; `EOPNOTSUPP` for a driver without support;
    /// `EPERM`.
    pub fn attach(&self, device: u32) -> io::Result<Attached> {
        // BPF_LINK_CREATE: program, device, BPF_XDP, XDP_FLAGS_DRV_MODE.
        let mut attributes = [0_u64; 2];
        attributes[0] = self.number() | u64::from(device) << 32;
        attributes[1] = 37 | 4 << 32;
        let fd = command(28, &mut attributes)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Attached { _link: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Runs a program `frames` times, `batch` at a time, each time with a frame that begins with
    /// `frame` and seems to have arrived by `device`. Passed frames reach the network stack before
    /// this returns. A reused frame contains what was written to it before.
    ///
    /// # Errors
    /// `EINVAL` before Linux 5.18, or for a frame that does not fit into a page; `ENOMEM` and
    /// `EINTR`, after which fewer frames were made.
    pub fn run(&self, frame: &[u8], device: u32, frames: u32, batch: u32) -> io::Result<()> {
        // An xdp_md: start and end of the frame, no metadata, the device, its queue.
        let context = [0, frame.len() as u32, 0, device, 0, 0];
        let mut attributes = [0_u64; 10];
        attributes[0] = self.number();
        attributes[1] = frame.len() as u64;
        attributes[2] = frame.as_ptr() as u64;
        attributes[4] = u64::from(frames);
        attributes[5] = size_of_val(&context) as u64;
        attributes[6] = context.as_ptr() as u64;
        // BPF_F_TEST_XDP_LIVE_FRAMES; the batch.
        attributes[8] = 2;
        attributes[9] = u64::from(batch.min(FRAMES_MAX));
        command(10, &mut attributes).map(drop)
    }

    fn number(&self) -> u64 {
        u64::from(std::os::fd::AsFd::as_fd(self).as_raw_fd().cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Table, When, Width};
    use crate::netlink::{Netlink, apart};
    use std::sync::atomic::Ordering;

    /// A program that counts in the first row of a table and drops.
    fn counter(table: &Table) -> Assembly {
        let mut code = Assembly::default();
        let end = code.label();
        code.math(Math::Mov, 1, 0);
        code.store(Width::Word, 10, -4, 1);
        code.table(1, table);
        code.math_by(Math::Mov, 2, 10);
        code.math(Math::Add, 2, -4);
        code.call(crate::bpf::Helper::Lookup);
        code.jump_if(When::Equal, 0, 0, end);
        code.load(Width::Word, 1, 0, 0);
        code.math(Math::Add, 1, 1);
        code.store(Width::Word, 0, 0, 1);
        code.here(end);
        code.math(Math::Mov, 0, Verdict::Drop as i32);
        code.exit();
        code
    }

    #[test]
    fn one_call_runs_it_for_every_frame() {
        let ran = apart(|| {
            let netlink = Netlink::open()?;
            let device = netlink.add_pair([c"one", c"two"], [2, 0, 0, 0, 0, 9], None)?;
            let table = Table::new(2, 1)?;
            let program = Program::frames(counter(&table))?;
            let attached = program.attach(device)?;
            program.run(&[0; 60], device, 600, 256)?;
            assert_eq!(table.row(0)[0].load(Ordering::Acquire), 600);
            assert!(program.attach(device).is_err(), "there is one");
            drop(attached);
            Verdict::Drop.of_all(device).map(drop)
        });
        match ran {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                eprintln!(
                    "skipped: queues and programs of the kernel's need CAP_NET_ADMIN, CAP_BPF"
                );
            }
            other => other.expect("it runs"),
        }
    }
}
