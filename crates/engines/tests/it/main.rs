//! The engines as a library: a house in this process, told to stop by its control. What needs
//! processes is tried on the real binary, for a process with threads may not fork.

mod bell;
mod casts;
mod frames;
mod house;
mod library;
mod port;
mod rings;
