//! Where packets go. Each sink suits one question and misleads about another.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A destination of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sink {
    /// The loopback device and a receiver on another core, whose kernel timestamps packets within
    /// the sender's call.
    #[default]
    Heard,
    /// An `ifb` device, which frees its packets, segmented or not, as a network card with UDP
    /// segmentation does.
    Freed,
}

impl Sink {
    /// Whether this machine can create it.
    ///
    /// # Errors
    /// The reason: `ip` is not installed, or may not create devices.
    pub fn can_be_made(self) -> Result<(), String> {
        Device::make(self).map(drop)
    }

    /// Its name next to a figure.
    pub fn words(self) -> &'static str {
        match self {
            Sink::Heard => "loopback, heard",
            Sink::Freed => "ifb, which frees packets",
        }
    }
}

/// A device that was made for a trial.
pub(super) struct Device {
    name: String,
    /// An unused address reached through the device.
    pub(super) to: SocketAddr,
}

impl Device {
    /// Makes the device, with a name and a network of its own, so that several can exist.
    pub(super) fn make(sink: Sink) -> Result<Option<Device>, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if sink == Sink::Heard {
            return Ok(None);
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let name = format!("rh{pid:x}s{number:x}");
        let net = format!("198.18.{}", (pid + number) % 256);
        let to = format!("{net}.2:9").parse().map_err(|why| format!("{net}.2:9: {why}"))?;
        let device = Device { to, name };
        let name = &device.name;
        run("ip", &["link", "add", name, "type", "ifb"])?;
        run("ip", &["addr", "add", &format!("{net}.1/24"), "dev", name])?;
        // Long frames, so that a packet is never fragmented; short packets cost the same.
        run("ip", &["link", "set", name, "mtu", "65535", "up"])?;
        Ok(Some(device))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The device may not exist.
        let _ = run("ip", &["link", "del", &self.name]);
    }
}

/// Runs a program that changes the network.
fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    let ended = command.output().map_err(|why| format!("cannot start `{program}`: {why}"))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("`{program} {}`: {}", args.join(" "), said.trim())),
    }
}
