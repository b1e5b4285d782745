//! The engines as a library: a server in this process, told to stop by its control. What needs
//! processes is tried on the real binary, for a process with threads may not fork.

mod library;
mod port;
mod rings;
mod server;
