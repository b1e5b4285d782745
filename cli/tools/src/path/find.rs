//! `path find`: one path over its map.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use language::{eprintln, info};
use serde_json::json;

use super::draw::draw;
use super::solve::{Answer, Question};
use super::{Algorithm, corners, read_map};
use grid::{Cell, Corners, Grid};
use stats::words::time;

/// The number of columns if the terminal's width is unknown.
const COLUMNS: usize = 80;

/// The arguments of `path find`.
#[derive(clap::Args)]
pub struct Args {
    /// A map in the format of the MovingAI sets
    map: PathBuf,
    /// The cell where the path begins: column, row, both from 0
    #[arg(long, value_name = "X,Y")]
    from: Cell,
    /// The cell where it ends
    #[arg(long, value_name = "X,Y")]
    to: Cell,
    /// How to search
    #[arg(long, value_enum, default_value = "jps")]
    algorithm: Algorithm,
    /// When a diagonal step may pass corners: always, one-obstacle, no-obstacle or four (never)
    #[arg(long, value_parser = corners, default_value = "no-obstacle", value_name = "RULE")]
    rule: Corners,
    /// Go to the nearest cell that can be reached, if the goal cannot
    #[arg(long)]
    nearest: bool,
    /// Show the cells that the search expanded
    #[arg(long)]
    expanded: bool,
    /// Draw at most this many columns; a wider map is drawn smaller [default: the terminal's width]
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Print one line of JSON instead of a picture
    #[arg(long)]
    json: bool,
}

/// Finds a path, draws it and describes it. If there is no path, the exit code is 1.
pub fn run(args: &Args) -> Result<ExitCode> {
    let map = read_map(&args.map)?;
    let grid = map.grid()?;
    let to = goal(args, &grid)?;
    let question = Question {
        grid: &grid,
        corners: args.rule,
        algorithm: args.algorithm,
        from: args.from,
        to,
    };
    let answer = question.answer()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", told(args, to, &answer))?;
    } else if !answer.cells.is_empty() {
        let events = if args.expanded { &answer.events[..] } else { &[] };
        let columns = columns(args, out.is_terminal());
        write!(out, "{}", draw(&grid, &answer.cells, events, columns))?;
        writeln!(out, "{}", sentence(args, &answer))?;
    }
    if answer.cells.is_empty() {
        eprintln!(
            "no path from {} to {to} under the rule {}: walls separate them. \
                 --nearest goes as near as possible",
            args.from, args.rule
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The goal; with `--nearest` the reachable cell that is nearest to it.
fn goal(args: &Args, grid: &Grid) -> Result<Cell> {
    if !args.nearest || grid.is_joined(args.rule, args.from, args.to) {
        return Ok(args.to);
    }
    let Some(near) = grid.nearest_joined(args.rule, args.from, args.to) else {
        // The search itself will report the bad start.
        return Ok(args.to);
    };
    info!("{} cannot be reached; {near} is the nearest cell that can", args.to);
    Ok(near)
}

fn columns(args: &Args, terminal: bool) -> usize {
    let wide = || ratatui::crossterm::terminal::size().map_or(COLUMNS, |(wide, _)| wide.into());
    args.width.unwrap_or_else(|| if terminal { wide() } else { usize::MAX })
}

fn sentence(args: &Args, answer: &Answer) -> String {
    let (straight, diagonal) = answer.cost.steps();
    format!(
        "{:.4} long: {straight} straight and {diagonal} diagonal steps, rule {}\n\
         {}: {} cells expanded, {} opened, {} reads, {} (the fastest of five)",
        answer.cost.length(),
        args.rule,
        args.algorithm,
        answer.stats.expanded,
        answer.stats.opened,
        answer.stats.scanned,
        time(answer.took.as_nanos() as f64),
    )
}

fn told(args: &Args, to: Cell, answer: &Answer) -> serde_json::Value {
    let (straight, diagonal) = answer.cost.steps();
    let pair = |cell: &Cell| json!([cell.x, cell.y]);
    json!({
        "schema": "roundhouse.path.find/1",
        "map": args.map.display().to_string(),
        "from": pair(&args.from),
        "to": pair(&to),
        "rule": args.rule.name(),
        "algorithm": args.algorithm.name(),
        "found": !answer.cells.is_empty(),
        "length": answer.cost.length(),
        "straight": straight,
        "diagonal": diagonal,
        "cells": answer.cells.iter().map(pair).collect::<Vec<_>>(),
        "expanded": answer.stats.expanded,
        "opened": answer.stats.opened,
        "scanned": answer.stats.scanned,
        "took_us": answer.took.as_secs_f64() * 1e6,
    })
}
