//! Settings of both sides of a connection, and the windows.

use wire::http2::{Code, Frame, Setting, WINDOW, WINDOW_MAX, put_settings, put_window_update};

use super::{CONNECTION_WINDOW, HEAD_MAX, STREAMS_MAX};

/// Appends our settings, which never change, and widens the window of the connection.
pub fn put_ours(out: &mut Vec<u8>) {
    put_settings(
        &[(Setting::Streams, STREAMS_MAX as u32), (Setting::HeadMax, HEAD_MAX as u32)],
        out,
    );
    put_window_update(0, CONNECTION_WINDOW - WINDOW, out);
}

/// Takes a SETTINGS frame of the peer, of which the `window` of a stream at its start concerns us.
/// Returns by how much the windows of open streams change.
///
/// # Errors
/// A value that section 6.5.2 forbids.
pub fn take(window: &mut i64, frame: &Frame<'_>) -> Result<i64, Code> {
    let before = *window;
    for (setting, value) in frame.settings() {
        match setting {
            it if it == Setting::Push as u16 && value > 1 => return Err(Code::Protocol),
            it if it == Setting::FrameMax as u16 && !(1 << 14..1 << 24).contains(&value) => {
                return Err(Code::Protocol);
            }
            it if it == Setting::Window as u16 => {
                *window = i64::from(value);
                if *window > WINDOW_MAX {
                    return Err(Code::FlowControl);
                }
            }
            _ => {}
        }
    }
    Ok(*window - before)
}

/// Widens a window for output.
///
/// # Errors
/// [`Code::FlowControl`] beyond [`WINDOW_MAX`].
pub fn widen(window: &mut i64, more: i64) -> Result<(), Code> {
    *window += more;
    if *window > WINDOW_MAX { Err(Code::FlowControl) } else { Ok(()) }
}
