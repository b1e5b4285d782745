//! Streams without a server, and in one whose workers are threads. Where workers are processes they
//! are tried by a program of its own (`processes`), since a process with threads may not fork.

mod bell;
mod senders;
mod server;
mod xdp_run;
