//! `serve stock --market orders`: the market in which clients trade with each other.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ::stock::orders::{Exchange, OrderMarket};
use ::stock::{Durability, Index, Lock, Options, Order, book};
use anyhow::{Context, Result, anyhow};
use engines::{Assets, Handover, NoStateStore, Refused, Shape};
use server::{Beside, ServiceInstance};
use wire::websocket::MessageKind;

use super::{Args, PORT};

/// Serves the market until it is stopped.
pub fn run(args: &Args, shape: &Shape) -> Result<ExitCode> {
    refuse_flags(args)?;
    let handover = Handover::receive()?;
    let mut exchange = args.server.state::<Exchange>(shape, handover.as_ref(), "order books")?;
    if handover.is_none() {
        let text = args.data.as_deref().map_or(Ok(book::DEFAULT.into()), read)?;
        exchange.init(&text).map_err(|bad| anyhow!("{bad}"))?;
    }
    let (room, has) = (OrderMarket::room(exchange.books().len()), args.framing.text_max());
    if has < room {
        return Err(Refused(format!(
            "expected room for replies of {room} bytes, found {has} in framing {}; serve fewer \
             stocks, or use --framing line",
            args.framing
        ))
        .into());
    }
    language::info!("the market of orders begins empty, and its orders are not saved");
    let work = args.work.steps();
    let options = Options { framing: args.framing, work, ..Options::default() };
    let service = Arc::new(OrderMarket::new(options));
    let instance = ServiceInstance {
        name: "stock",
        port: PORT,
        tries: &["roundhouse client {at}", "roundhouse load stock://{at} --for 2s"],
        service: &service,
        state: &exchange,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar: crate::grammar,
        facts: &[],
    };
    let websocket = args.server.websocket(MessageKind::Text);
    args.server.run_layered(shape, &instance, websocket, Beside::default(), &mut NoStateStore)
}

/// Refuses flags that belong to the other market.
fn refuse_flags(args: &Args) -> Result<(), Refused> {
    let flags = [
        ("--index", args.index != Index::default()),
        ("--order", args.order != Order::default()),
        ("--lock", args.lock != Lock::default()),
        ("--save-every", args.save_every.is_some()),
        ("--durability", args.durability != Durability::default()),
        ("--replicate", args.replicate.is_some()),
        ("--read", args.read.is_some()),
    ];
    match flags.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Refused(format!(
            "{flag} belongs to --market shares: a market of orders has a lock and levels of prices \
             for each stock, and saves nothing; leave it out"
        ))),
        None => Ok(()),
    }
}

/// The file of stocks.
fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    if !path.metadata().is_ok_and(|about| about.is_file()) {
        return Err(Refused(format!("{name}: expected a file of lines `ID LEFT PRICE`")).into());
    }
    std::fs::read(path).with_context(|| format!("cannot read {name}"))
}
