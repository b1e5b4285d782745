//! The tools around a server: its administration, its clients, and path searches on maps.
//!
//! Each command of `roundhouse` that is a program of its own lives here with its arguments, and
//! `cli` calls it. Commands that only start a server or a measurement are in `cli`.
//!
//! | module | what |
//! |---|---|
//! | `admin` | the administration of a server: its place, its answers |
//! | `top` | a client of the administration, as a screen |
//! | `client`, `course` | clients of the stock market, for people and as the course has them |
//! | `walk` | a client of the game |
//! | `play` | a receiver of media that measures instead of playing |
//! | `path` | shortest paths: found, checked, drawn, edited in a browser |
//! | `progress` | the live view of a load |
//! | `serve` | files, access log, keys and Apache configurations for servers |
//! | `screen`, `interrupt` | the terminal and Ctrl-C, for all of them |

pub mod admin;
pub mod client;
pub mod course;
pub mod interrupt;
pub mod path;
pub mod play;
pub mod progress;
pub mod screen;
pub mod serve;
pub mod top;
pub mod walk;
