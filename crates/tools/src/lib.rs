//! The tools around a server: its administration, its clients and its pages of maps.
//!
//! Each command of `roundhouse` that is a program of its own lives here with its arguments, and
//! `cli` calls it. What only starts a server or a measurement stays in `cli`.
//!
//! | module | what |
//! |---|---|
//! | `admin` | the administration of a server: where it is, what it answers |
//! | `top` | a client of the administration that draws what it is told |
//! | `client`, `course` | clients of the stock market, for people and as the course has them |
//! | `walk` | a client of the game |
//! | `play` | a receiver of media that measures instead of playing |
//! | `path` | shortest paths: found, checked, drawn, edited in a browser |
//! | `progress` | the live view of a load |
//! | `screen`, `interrupt` | the terminal and Ctrl-C, for all of them |

pub mod admin;
pub mod client;
pub mod course;
pub mod interrupt;
pub mod path;
pub mod play;
pub mod progress;
pub mod screen;
pub mod top;
pub mod walk;
