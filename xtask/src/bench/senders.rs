//! `cargo xtask bench senders`: the cost of a packet by each way to send, its lateness, alone and
//! with competition for the core, and the distance from the goals.
//!
//! The rows derive from the registry (`roundhouse senders --json`), so a new sender has its rows at
//! once. In each group every arm runs once in a block, in random order; a figure is the median over
//! blocks of the ratio of two arms of the same block. Every run is `roundhouse senders cast`, which
//! creates its own sink and competing processes.
//!
//! The surprising thing: only the rows labelled "as fast as it can" measure throughput. A stream
//! has its rate; a sender can only save CPU time, or spoil the timing.

mod group;
mod rows;

use super::goals::{self, Figure};
use super::{Ask, prepare, record};
use anyhow::bail;
use group::{Arm, Taken, Tools};
use rows::{Group, groups};

const NOTE: &str = "Each row is the left arm divided by the right one, the median over \
    blocks; every block runs every arm once, in an order of its own. CPU is that of the \
    sender's process, or (soak) of the whole core on both sides, as a loop that takes only \
    what is left over has lost it, for senders whose work the kernel does on its own account. \
    Lateness runs from a packet's moment to the receiver's kernel. Freed: an `ifb` device, \
    which frees packets as a network card that cuts UDP would take them; cut: one that cannot \
    cut; heard: the loopback device and a receiver on the other core. `bare` are the loops of \
    `bare/udp.c`.";

const FLAGS: &[&str] = &["--save", "--quick", "--blocks N", "--only GROUP,…"];

fn wanted(ask: &Ask) -> anyhow::Result<Vec<Group>> {
    let all = groups(ask.quick);
    let names: Vec<&str> = all.iter().map(|it| it.name).collect();
    if let Some(unknown) = ask.only.iter().find(|it| !names.contains(&it.as_str())) {
        bail!("expected groups of {}, found `{unknown}`", names.join(", "));
    }
    let wanted = |it: &Group| ask.only.is_empty() || ask.only.iter().any(|n| n == it.name);
    Ok(all.into_iter().filter(wanted).collect())
}

/// Builds the program, plays every group, prints the table and, with `--save`, keeps it in `runs/`.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    let ask = Ask::parse(args, FLAGS, 8)?;
    let groups = wanted(&ask)?;
    let roundhouse = prepare()?;
    let bare = Some(crate::root().join("bare/build/udp")).filter(|it| it.is_file());
    let tools = Tools { roundhouse, bare };
    let (senders, mut doubts) = tools.senders()?;
    doubts.splice(0..0, record::busy());
    let mut figures: Vec<Figure> = Vec::new();
    for group in &groups {
        let arms: Vec<Arm> = group.arms(&senders, tools.bare.is_some());
        eprintln!("── {}: {} arms, {} blocks", group.name, arms.len(), ask.blocks);
        let taken = Taken::blocks(&tools, group, &arms, ask.blocks);
        figures.extend(group.figures(&taken));
    }
    let name = ask.only.iter().fold("senders".to_owned(), |name, group| name + "-" + group);
    goals::show([&name, "Ways to send by the clock", NOTE], &figures, &doubts, ask.save)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_names_what_there_is() {
        let parse = |words: &[&str]| {
            let args: Vec<String> = words.iter().map(ToString::to_string).collect();
            Ask::parse(&args, FLAGS, 8).and_then(|ask| Ok((wanted(&ask)?.len(), ask.blocks)))
        };
        assert_eq!(parse(&["--only", "audio,hogs", "--blocks", "3"]).unwrap(), (2, 3));
        assert_eq!(parse(&["--quick"]).unwrap().1, 1);
        assert!(parse(&["--only", "audios"]).unwrap_err().to_string().contains("audio, "));
        assert!(parse(&["--fast"]).unwrap_err().to_string().contains("--quick"));
        assert!(parse(&["--blocks", "0"]).is_err());
    }
}
