//! The joint to smoltcp: one packet in, any number of frames out.

use seam::Instant;
use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::time::Instant as Moment;

use super::frame::{ETHERNET, Mac, Station};

/// The way out for frames.
pub trait Outlet {
    /// Whether a frame can leave now.
    fn has_room(&mut self) -> bool;

    /// Writes a frame of `len` bytes and sends it; false if there is no room.
    fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool;
}

impl Outlet for sys::xdp::FrameSender {
    fn has_room(&mut self) -> bool {
        self.is_free()
    }

    fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        self.send(len, write)
    }
}

/// The device of one call of smoltcp: packets to one neighbour.
pub struct Port<'p, O> {
    pub place: &'p Station,
    pub outlet: &'p mut O,
    /// The neighbour that gets the packets.
    pub mac: Mac,
    /// The packet that has come.
    pub packet: Option<&'p [u8]>,
    /// No frame was free for a packet.
    pub is_full: bool,
}

impl<'p, O: Outlet> Port<'p, O> {
    pub fn new(place: &'p Station, outlet: &'p mut O, mac: Mac) -> Port<'p, O> {
        Port { place, outlet, mac, packet: None, is_full: false }
    }
}

/// A packet that has come.
pub struct Came<'p>(&'p [u8]);

/// The right to send a packet.
pub struct Leave<'t, O> {
    place: &'t Station,
    outlet: &'t mut O,
    mac: Mac,
}

impl<O: Outlet> phy::Device for Port<'_, O> {
    type RxToken<'t>
        = Came<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Leave<'t, O>
    where
        Self: 't;

    fn receive(&mut self, _now: Moment) -> Option<(Came<'_>, Leave<'_, O>)> {
        let packet = self.packet.take()?;
        Some((Came(packet), Leave { place: self.place, outlet: self.outlet, mac: self.mac }))
    }

    fn transmit(&mut self, _now: Moment) -> Option<Leave<'_, O>> {
        self.is_full = !self.outlet.has_room();
        let Port { place, outlet, mac, is_full, .. } = self;
        (!*is_full).then_some(Leave { place, outlet, mac: *mac })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        (all.medium, all.max_transmission_unit) = (Medium::Ip, self.place.mtu);
        // A segment is checked before smoltcp sees it.
        all.checksum.tcp = Checksum::Tx;
        all
    }
}

impl phy::RxToken for Came<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl<O: Outlet> phy::TxToken for Leave<'_, O> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let (mut write, mut result) = (Some(write), None);
        self.outlet.send(ETHERNET + len, |frame| {
            self.place.write_head(frame, self.mac);
            result = write.take().map(|write| write(&mut frame[ETHERNET..]));
        });
        match (result, write) {
            (Some(result), _) => result,
            // No room: the packet is lost, as on any wire.
            (None, Some(write)) => write(&mut vec![0; len]),
            (None, None) => unreachable!("a packet that was written has a result"),
        }
    }
}

/// A time of ours as one of smoltcp's.
pub fn moment(now: Instant) -> Moment {
    Moment::from_micros(i64::try_from(now.ns() / 1000).unwrap_or(i64::MAX))
}

/// A time of smoltcp's as one of ours.
pub fn back(moment: Moment) -> Instant {
    Instant::from_ns(u64::try_from(moment.total_micros()).unwrap_or(0).saturating_mul(1000))
}

/// No way out: the making of an interface sends nothing.
pub struct NoOutlet;

impl Outlet for NoOutlet {
    fn has_room(&mut self) -> bool {
        false
    }

    fn send(&mut self, _len: usize, _write: impl FnOnce(&mut [u8])) -> bool {
        false
    }
}
