//! Status codes (RFC 2326 section 7.1.1).

/// A status code with its reason phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal $($note:literal)?)+) => {
        impl Status {$(
            #[doc = concat!(stringify!($code), $(": ", $note,)? ".")]
            pub const $name: Status = Status($code, $reason);
        )+}
    };
}

statuses! {
    OK 200 "OK"
    BAD_REQUEST 400 "Bad Request"
    UNAUTHORIZED 401 "Unauthorized"
    FORBIDDEN 403 "Forbidden"
    NOT_FOUND 404 "Not Found"
    METHOD_NOT_ALLOWED 405 "Method Not Allowed"
    NOT_ACCEPTABLE 406 "Not Acceptable" "no description in a format that the client accepts"
    TOO_LARGE 413 "Request Entity Too Large"
    UNSUPPORTED_MEDIA 415 "Unsupported Media Type" "the file's format cannot be streamed"
    NOT_UNDERSTOOD 451 "Parameter Not Understood"
    NO_BANDWIDTH 453 "Not Enough Bandwidth" "there is no capacity for another stream"
    NO_SESSION 454 "Session Not Found"
    NOT_VALID_NOW 455 "Method Not Valid in This State" "there is nothing to play yet"
    INVALID_RANGE 457 "Invalid Range" "the range is malformed or outside the recording"
    AGGREGATE_NOT_ALLOWED 459 "Aggregate Operation Not Allowed"
        "the request must name a track, not the presentation"
    AGGREGATE_ONLY 460 "Only Aggregate Operation Allowed"
        "the request must name the presentation, not a track"
    UNSUPPORTED_TRANSPORT 461 "Unsupported Transport"
        "no offered transport is usable; players then try the next one"
    INTERNAL 500 "Internal Server Error"
    NOT_IMPLEMENTED 501 "Not Implemented"
    UNAVAILABLE 503 "Service Unavailable"
    VERSION 505 "RTSP Version Not Supported"
    OPTION 551 "Option Not Supported"
}
