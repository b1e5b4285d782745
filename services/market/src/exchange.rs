//! The market in which clients trade with each other.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use engines::{Assets, Handover, NoStateStore, Refused};
use server::{Beside, ServerArgs, ServiceInstance};
use stock::orders::{Exchange, OrderMarket};
use stock::{Options, book};
use wire::websocket::MessageKind;

use crate::{PORT, TRIES};

/// Serves a market of orders with the stocks in the file `data`, or with ten built-in ones, by the
/// flags in `server`, until it is stopped. Of `options` it has the framing, the work and the
/// limits.
///
/// # Errors
/// No file of stocks, replies that do not fit into the framing, and the server's.
pub fn serve_exchange(
    server: &ServerArgs,
    data: Option<&Path>,
    options: Options,
    grammar: fn() -> clap::Command,
) -> Result<ExitCode> {
    let (shape, framing) = (server.shape()?, options.framing);
    let handover = Handover::receive()?;
    let mut exchange = server.state::<Exchange>(&shape, handover.as_ref(), "order books")?;
    if handover.is_none() {
        let text = data.map_or(Ok(book::DEFAULT.into()), read)?;
        exchange.init(&text).map_err(|bad| anyhow!("{bad}"))?;
    }
    let (room, has) = (OrderMarket::room(exchange.books().len()), framing.text_max());
    if has < room {
        return Err(Refused(format!(
            "expected room for replies of {room} bytes, found {has} in framing {framing}; serve \
             fewer stocks, or use --framing line"
        ))
        .into());
    }
    language::info!("the market of orders begins empty, and its orders are not saved");
    let service = Arc::new(OrderMarket::new(options));
    let instance = ServiceInstance {
        name: "stock",
        port: PORT,
        tries: TRIES,
        service: &service,
        state: &exchange,
        assets: &Assets::default(),
        handover: handover.as_ref(),
        grammar,
        facts: &[],
    };
    let websocket = server.websocket(MessageKind::Text);
    server.run_layered(&shape, &instance, websocket, Beside::default(), &mut NoStateStore)
}

/// The file of stocks.
fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    if !path.metadata().is_ok_and(|about| about.is_file()) {
        return Err(Refused(format!("{name}: expected a file of lines `ID LEFT PRICE`")).into());
    }
    sys::input::read(path, sys::input::LARGE).with_context(|| format!("cannot read {name}"))
}
