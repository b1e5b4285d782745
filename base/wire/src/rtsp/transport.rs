//! The header field `Transport` (RFC 2326 section 12.39): the transports that a client offers, best
//! first, and the one that it gets.

use core::net::IpAddr;
use std::fmt;

/// The protocol beneath RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// UDP.
    Udp,
    /// The RTSP connection itself.
    Tcp,
}

/// One transport. Transports with unknown profiles are dropped; unknown parameters are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// The protocol beneath RTP; UDP by default.
    pub lower: Option<Lower>,
    /// Packets go to a multicast group instead of to one client.
    pub multicast: bool,
    /// The receiver of the packets, if not the client.
    pub destination: Option<String>,
    /// The address that packets come from.
    pub source: Option<IpAddr>,
    /// The channels of RTP and RTCP in the connection.
    pub interleaved: Option<(u8, u8)>,
    /// The client's ports for RTP and RTCP.
    pub client_port: Option<(u16, u16)>,
    /// The server's ports for RTP and RTCP.
    pub server_port: Option<(u16, u16)>,
    /// The group's ports for RTP and RTCP.
    pub port: Option<(u16, u16)>,
    /// The hop limit of packets to the group.
    pub ttl: Option<u8>,
    /// The sender's SSRC.
    pub ssrc: Option<u32>,
    /// The mode is `RECORD` instead of the default `PLAY`.
    pub record: bool,
}

/// The transports of a header field in their order.
pub fn transports(value: &str) -> Vec<Transport> {
    value.split(',').filter_map(|way| read(way.trim())).collect()
}

fn read(way: &str) -> Option<Transport> {
    let mut parts = way.split(';').map(str::trim);
    let lower = match parts.next()?.to_ascii_uppercase().as_str() {
        "RTP/AVP" | "RTP/AVP/UDP" => Lower::Udp,
        "RTP/AVP/TCP" => Lower::Tcp,
        _ => return None,
    };
    // RFC 2326 makes multicast the default, but no player does; ports tell which is meant.
    let mut transport = Transport { lower: Some(lower), ..Transport::default() };
    for part in parts.take(32) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim_matches('"');
        match name.to_ascii_lowercase().as_str() {
            "multicast" => transport.multicast = true,
            "destination" => transport.destination = Some(value.to_owned()),
            "source" => transport.source = value.parse().ok(),
            "interleaved" => transport.interleaved = Some(pair(value)?),
            "client_port" => transport.client_port = Some(pair(value)?),
            "server_port" => transport.server_port = Some(pair(value)?),
            "port" => transport.port = Some(pair(value)?),
            "ttl" => transport.ttl = value.parse().ok(),
            "ssrc" => transport.ssrc = u32::from_str_radix(value, 16).ok(),
            "mode" => transport.record = value.eq_ignore_ascii_case("record"),
            _ => {}
        }
    }
    Some(transport)
}

/// `first-second`, or `first` alone, which implies the next one.
fn pair<T: std::str::FromStr + Copy + Into<u32> + TryFrom<u32>>(value: &str) -> Option<(T, T)> {
    match value.split_once('-') {
        Some((first, second)) => Some((first.parse().ok()?, second.parse().ok()?)),
        None => {
            let first: T = value.parse().ok()?;
            Some((first, T::try_from(first.into() + 1).ok()?))
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.lower == Some(Lower::Tcp) { "RTP/AVP/TCP" } else { "RTP/AVP" })?;
        f.write_str(if self.multicast { ";multicast" } else { ";unicast" })?;
        if let Some(destination) = &self.destination {
            write!(f, ";destination={destination}")?;
        }
        if let Some(source) = self.source {
            write!(f, ";source={source}")?;
        }
        if let Some((media, control)) = self.interleaved {
            write!(f, ";interleaved={media}-{control}")?;
        }
        let ports = [
            ("client_port", self.client_port),
            ("server_port", self.server_port),
            ("port", self.port),
        ];
        for (name, pair) in ports {
            if let Some((media, control)) = pair {
                write!(f, ";{name}={media}-{control}")?;
            }
        }
        if let Some(ttl) = self.ttl {
            write!(f, ";ttl={ttl}")?;
        }
        if let Some(ssrc) = self.ssrc {
            write!(f, ";ssrc={ssrc:08X}")?;
        }
        f.write_str(if self.record { ";mode=\"RECORD\"" } else { ";mode=\"PLAY\"" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_of_the_players_are_read() {
        let ffmpeg = transports("RTP/AVP/UDP;unicast;client_port=5000-5001");
        assert_eq!(ffmpeg.len(), 1);
        assert_eq!(ffmpeg[0].client_port, Some((5000, 5001)));
        assert_eq!((ffmpeg[0].lower, ffmpeg[0].multicast), (Some(Lower::Udp), false));
        let gstreamer = transports(
            "RTP/SAVPF;unicast,RTP/AVP/TCP;unicast;interleaved=2-3, RTP/AVP;multicast;ttl=3",
        );
        assert_eq!(gstreamer.len(), 2, "a profile that is not known is passed over");
        assert_eq!(gstreamer[0].interleaved, Some((2, 3)));
        assert_eq!((gstreamer[1].multicast, gstreamer[1].ttl), (true, Some(3)));
        assert_eq!(transports("RTP/AVP;client_port=7000")[0].client_port, Some((7000, 7001)));
        assert!(transports("RTP/AVP;client_port=65535").is_empty());
        assert!(transports("RTP/AVP;client_port=-").is_empty());
        assert!(transports("RTP/AVP/TCP;interleaved=255").is_empty());
        assert!(transports("").is_empty());
        assert!(transports("RTP/AVP;mode=record")[0].record);
    }

    #[test]
    fn what_is_told_can_be_read_again() {
        let told = Transport {
            lower: Some(Lower::Tcp),
            interleaved: Some((0, 1)),
            source: Some([127, 0, 0, 1].into()),
            ssrc: Some(0xab),
            ..Transport::default()
        };
        let words = told.to_string();
        assert_eq!(
            words,
            "RTP/AVP/TCP;unicast;source=127.0.0.1;interleaved=0-1;ssrc=000000AB;mode=\"PLAY\""
        );
        assert_eq!(transports(&words), [told]);
    }
}
