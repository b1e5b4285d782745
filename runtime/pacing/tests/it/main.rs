//! Streams without a server, and in a server whose workers are threads. A separate program
//! (`processes`) tests workers that are processes, because a process with threads may not fork.

mod bell;
mod senders;
mod stalls;
