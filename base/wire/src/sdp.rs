//! Session descriptions (RFC 8866): the answer to `DESCRIBE`, and its interpretation by a player.
//!
//! `describe` turns the tracks of a program into text. `offers` reads a description back into the
//! tracks that a player can set up. The grammar is that of the `sdp_types` crate; this file decides
//! the content, such as the control URLs, the port 0 that means "negotiated by RTSP", and the range
//! of a live presentation. Names come from file names, so line breaks in them are replaced before
//! they can add a line.

use core::net::IpAddr;

use sdp_types::{
    Attribute, Bandwidth, BandwidthType, Connection, Media, MediaType, Origin, Session, Time,
    TransportProto,
};

use crate::containers::{Kind, Program};
use crate::rtsp::seconds;

/// The parts of a description beyond the program itself.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// The name of the presentation.
    pub name: &'a str,
    /// A number that changes when the description does.
    pub version: u64,
    /// The server's address.
    pub server: IpAddr,
    /// The presentation is live: it has no end, and players cannot seek in it.
    pub live: bool,
    /// The group that receives the packets, if there is one: its address, the hop limit, and the
    /// RTP port of the first track; the others follow in steps of two.
    pub group: Option<(IpAddr, u8, u16)>,
}

/// A track's URL relative to that of its program.
pub fn control(track: usize) -> String {
    format!("trackID={track}")
}

/// The description of `program`.
pub fn describe(program: &Program, about: &About<'_>) -> Vec<u8> {
    let origin = Origin::with_ip_addr(about.version.to_string(), about.version, about.server);
    // A name is one line; an empty one is a space (RFC 8866 section 5.3).
    let name = about.name.replace(['\r', '\n', '\0'], " ");
    let mut session = Session::new(origin, if name.is_empty() { " " } else { &name });
    let anywhere: IpAddr =
        if about.server.is_ipv4() { [0; 4].into() } else { IpAddr::from([0_u8; 16]) };
    let connection = match about.group {
        // IPv6 groups carry their scope in the address (RFC 8866 section 5.7).
        Some((group, ttl, _)) if group.is_ipv4() => Connection::from_ip_addr_ttl(group, Some(ttl)),
        Some((group, ..)) => Connection::from_ip_addr(group),
        None => Connection::from_ip_addr(anywhere),
    };
    session.connection = Some(connection);
    if !program.left_out.is_empty() {
        let names = program.left_out.join(", ").replace(['\r', '\n', '\0'], " ");
        session.session_description = Some(format!("left out, because RTP here lacks it: {names}"));
    }
    session.times.push(Time::new(0, 0));
    session.attributes.push(Attribute::with_value("tool", "roundhouse"));
    session.attributes.push(Attribute::with_value("control", "*"));
    let range = if about.live {
        "npt=now-".to_owned()
    } else {
        format!("npt=0-{}", seconds(program.duration_ns))
    };
    session.attributes.push(Attribute::with_value("range", range));
    for (index, track) in program.tracks.iter().enumerate() {
        let kind = match track.kind {
            Kind::Audio => MediaType::Audio,
            Kind::Video => MediaType::Video,
        };
        let port = about.group.map_or(0, |(.., port)| port + 2 * index as u16);
        let proto = TransportProto::RtpAvp;
        let mut media = Media::new(kind, port, proto, track.payload_type.to_string());
        // Kilobits a second, headers included.
        let kilobits = track.bits.div_ceil(1000).max(1);
        media.add_bandwidth(Bandwidth::new(BandwidthType::As, kilobits + kilobits / 20 + 1));
        let map = format!("{} {}", track.payload_type, track.encoding);
        media.add_attribute_with_value("rtpmap", map);
        if let Some(parameters) = &track.parameters {
            let line = format!("{} {parameters}", track.payload_type);
            media.add_attribute_with_value("fmtp", line);
        }
        media.add_attribute_with_value("control", control(index));
        session.medias.push(media);
    }
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let _ = session.write(&mut bytes);
    bytes
}

/// A track that a description offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// `audio`, `video` or another kind.
    pub kind: String,
    /// The payload type of its first format.
    pub payload_type: u8,
    /// The encoding, such as `H264`; empty if not stated.
    pub encoding: String,
    /// The encoding's clock rate in hertz.
    pub clock: u32,
    /// The receiver's port; 0 if RTSP negotiates it.
    pub port: u16,
    /// Its URL, absolute or relative to that of the description; empty if there is none.
    pub control: String,
}

/// The RTP tracks of a description in their order; `None` if it cannot be parsed.
pub fn offers(text: &[u8]) -> Option<Vec<Offer>> {
    let session = Session::parse(text).ok()?;
    let tracks = session.medias.iter().filter_map(|media| {
        let payload_type: u8 = media.fmt.split(' ').next()?.parse().ok()?;
        let value = |name: &'static str| {
            let all = media.attributes.iter().filter(move |it| it.attribute == name);
            all.filter_map(|it| it.value.as_deref())
        };
        let map = value("rtpmap").find_map(|map| {
            let (number, what) = map.split_once(' ')?;
            (number.parse() == Ok(payload_type)).then_some(what)
        });
        let mut parts = map.unwrap_or_default().split('/');
        let encoding = parts.next().unwrap_or_default().to_owned();
        let clock = parts.next().and_then(|clock| clock.trim().parse().ok());
        Some(Offer {
            kind: media.media.to_string(),
            payload_type,
            encoding,
            clock: clock.unwrap_or_else(|| usual_clock(payload_type)),
            port: media.port,
            control: value("control").next().unwrap_or_default().to_owned(),
        })
    });
    Some(tracks.collect())
}

/// The clock rate of a static payload type (RFC 3551 section 6).
pub fn usual_clock(payload_type: u8) -> u32 {
    match payload_type {
        10 | 11 => 44_100,
        6 => 16_000,
        16 => 11_025,
        17 => 22_050,
        14 | 25..=34 => 90_000,
        _ => 8_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn a_description_says_all_that_a_player_asks() {
        let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x07\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\
            \x08\0data\x40\x1f\0\0"
            .to_vec();
        file.resize(file.len() + 8_000, 0);
        let program = crate::containers::open(&mut Cursor::new(file)).expect("a second of sound");
        let mut about = About {
            name: "a\r\nm=video",
            version: 5,
            server: [127, 0, 0, 1].into(),
            live: false,
            group: None,
        };
        let text = String::from_utf8(describe(&program, &about)).expect("text");
        let want = "v=0\r\no=- 5 5 IN IP4 127.0.0.1\r\ns=a  m=video\r\nc=IN IP4 0.0.0.0\r\n\
            t=0 0\r\na=tool:roundhouse\r\na=control:*\r\na=range:npt=0-1.000000\r\n\
            m=audio 0 RTP/AVP 0\r\nb=AS:68\r\na=rtpmap:0 PCMU/8000\r\na=control:trackID=0\r\n";
        assert_eq!(text, want);
        let read = Session::parse(text.as_bytes()).expect("a description");
        assert_eq!(read.medias.len(), 1);
        let wanted = Offer {
            kind: "audio".to_owned(),
            payload_type: 0,
            encoding: "PCMU".to_owned(),
            clock: 8000,
            port: 0,
            control: "trackID=0".to_owned(),
        };
        assert_eq!(offers(text.as_bytes()), Some(vec![wanted]));
        assert_eq!(offers(b"v=1 nonsense"), None);
        let group = Some(([239, 1, 2, 3].into(), 4, 5004));
        about = About { live: true, group, ..about };
        let text = String::from_utf8(describe(&program, &about)).expect("text");
        assert!(text.contains("c=IN IP4 239.1.2.3/4\r\n"), "{text}");
        assert!(text.contains("a=range:npt=now-\r\nm=audio 5004 "), "{text}");
        let part = Program { left_out: vec!["VP9".to_owned()], ..program };
        let text = String::from_utf8(describe(&part, &about)).expect("text");
        assert!(text.contains("\r\ni=left out, ") && text.contains(": VP9\r\n"), "{text}");
    }
}
