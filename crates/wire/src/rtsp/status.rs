//! Status codes (RFC 2326 section 7.1.1).

/// A status: its code and the words that go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

impl Status {
    /// It was done.
    pub const OK: Status = Status(200, "OK");
    /// The request cannot be understood.
    pub const BAD_REQUEST: Status = Status(400, "Bad Request");
    /// Who asks has to say who he is.
    pub const UNAUTHORIZED: Status = Status(401, "Unauthorized");
    /// It is known, and not given.
    pub const FORBIDDEN: Status = Status(403, "Forbidden");
    /// There is no such thing.
    pub const NOT_FOUND: Status = Status(404, "Not Found");
    /// The thing has no such method.
    pub const METHOD_NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
    /// It was there, and will not be again.
    pub const GONE: Status = Status(410, "Gone");
    /// The description is not to be had in a form that the client reads.
    pub const NOT_ACCEPTABLE: Status = Status(406, "Not Acceptable");
    /// The body is longer than allowed.
    pub const TOO_LARGE: Status = Status(413, "Request Entity Too Large");
    /// The file is of no kind that can be sent.
    pub const UNSUPPORTED_MEDIA: Status = Status(415, "Unsupported Media Type");
    /// The parameter is not understood.
    pub const NOT_UNDERSTOOD: Status = Status(451, "Parameter Not Understood");
    /// There is no room for another transmission.
    pub const NO_BANDWIDTH: Status = Status(453, "Not Enough Bandwidth");
    /// There is no session of that name.
    pub const NO_SESSION: Status = Status(454, "Session Not Found");
    /// Not now: there is nothing to be played yet.
    pub const NOT_VALID_NOW: Status = Status(455, "Method Not Valid in This State");
    /// The range is none, or lies outside.
    pub const INVALID_RANGE: Status = Status(457, "Invalid Range");
    /// Ask for the whole, not for a track of it.
    pub const AGGREGATE_ONLY: Status = Status(460, "Only Aggregate Operation Allowed");
    /// Ask for a track, not for the whole.
    pub const AGGREGATE_NOT_ALLOWED: Status = Status(459, "Aggregate Operation Not Allowed");
    /// None of the transports can be used: what makes players try the next one.
    pub const UNSUPPORTED_TRANSPORT: Status = Status(461, "Unsupported Transport");
    /// The server has failed.
    pub const INTERNAL: Status = Status(500, "Internal Server Error");
    /// The method is not known.
    pub const NOT_IMPLEMENTED: Status = Status(501, "Not Implemented");
    /// The server can do no more for now.
    pub const UNAVAILABLE: Status = Status(503, "Service Unavailable");
    /// Another version is asked for.
    pub const VERSION: Status = Status(505, "RTSP Version Not Supported");
    /// An option that is required is not known.
    pub const OPTION: Status = Status(551, "Option Not Supported");
}
