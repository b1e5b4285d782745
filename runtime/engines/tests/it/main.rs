//! The engines as a library: a server in this process, stopped by its control. Tests that need
//! processes use the real binary, because a process with threads may not fork.

mod port;
mod rings;
