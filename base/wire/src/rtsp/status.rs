//! Status codes (RFC 2326 section 7.1.1).

/// A status code with its reason phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

impl Status {
    /// Success.
    pub const OK: Status = Status(200, "OK");
    /// The request cannot be understood.
    pub const BAD_REQUEST: Status = Status(400, "Bad Request");
    /// The client must authenticate.
    pub const UNAUTHORIZED: Status = Status(401, "Unauthorized");
    /// The resource is known but not granted.
    pub const FORBIDDEN: Status = Status(403, "Forbidden");
    /// There is no such resource.
    pub const NOT_FOUND: Status = Status(404, "Not Found");
    /// The resource does not support the method.
    pub const METHOD_NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
    /// No description in a format that the client accepts.
    pub const NOT_ACCEPTABLE: Status = Status(406, "Not Acceptable");
    /// The body is longer than allowed.
    pub const TOO_LARGE: Status = Status(413, "Request Entity Too Large");
    /// The file's format cannot be streamed.
    pub const UNSUPPORTED_MEDIA: Status = Status(415, "Unsupported Media Type");
    /// The parameter is not understood.
    pub const NOT_UNDERSTOOD: Status = Status(451, "Parameter Not Understood");
    /// There is no capacity for another stream.
    pub const NO_BANDWIDTH: Status = Status(453, "Not Enough Bandwidth");
    /// There is no session with this id.
    pub const NO_SESSION: Status = Status(454, "Session Not Found");
    /// Not in this state: there is nothing to play yet.
    pub const NOT_VALID_NOW: Status = Status(455, "Method Not Valid in This State");
    /// The range is malformed or outside the recording.
    pub const INVALID_RANGE: Status = Status(457, "Invalid Range");
    /// The request must name the presentation, not a track.
    pub const AGGREGATE_ONLY: Status = Status(460, "Only Aggregate Operation Allowed");
    /// The request must name a track, not the presentation.
    pub const AGGREGATE_NOT_ALLOWED: Status = Status(459, "Aggregate Operation Not Allowed");
    /// No offered transport is usable; players then try the next one.
    pub const UNSUPPORTED_TRANSPORT: Status = Status(461, "Unsupported Transport");
    /// The server has failed.
    pub const INTERNAL: Status = Status(500, "Internal Server Error");
    /// The method is unknown.
    pub const NOT_IMPLEMENTED: Status = Status(501, "Not Implemented");
    /// The server is at capacity.
    pub const UNAVAILABLE: Status = Status(503, "Service Unavailable");
    /// The version is not supported.
    pub const VERSION: Status = Status(505, "RTSP Version Not Supported");
    /// A required option is unknown.
    pub const OPTION: Status = Status(551, "Option Not Supported");
}
