//! `roundhouse check`: places orders with receipts, or reads receipts, and proves their history.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use engines::Refused;
use ledger::{Folder, Receipt, ReceiptEnd};
use stats::Rng;
use tools::client::link;
use wire::conf::span;

/// Stocks that are traded, with ids from 1.
const STOCKS: usize = 5;

/// The flags of a check.
#[derive(clap::Args)]
pub struct Args {
    /// A file of receipts, or stock://HOST:PORT to place orders on a server with --durability os or
    /// sync; several nodes of one market as stock://HOST:PORT,HOST:PORT
    #[arg(value_name = "FILE|ADDRESS")]
    source: String,
    /// Compare with the log in this folder, or at this address of --replicate
    #[arg(long, value_name = "FOLDER|ADDRESS")]
    log: Option<PathBuf>,
    /// Orders to place [default: 10000]
    #[arg(long, value_name = "N")]
    orders: Option<u64>,
    /// Clients that place them
    #[arg(long, default_value_t = 16, value_name = "N")]
    clients: u64,
    /// Orders that a client sends before it waits for replies
    #[arg(long, default_value_t = 4, value_name = "N")]
    depth: usize,
    /// How long clients connect again and send unanswered orders again
    #[arg(long, default_value = "10s", value_parser = span, value_name = "TIME")]
    patience: Duration,
    /// Keep the receipts in this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// Places or reads orders, and proves them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let receipts = match args.source.strip_prefix("stock://") {
        None if args.orders.is_some() => {
            let why = format!(
                "expected stock://HOST:PORT for --orders, found the file {}: leave one out",
                args.source
            );
            return Err(Refused(why).into());
        }
        Some(hosts) => {
            let address = |host: &str| link::address(&format!("stock://{host}"));
            let nodes = hosts.split(',').map(address).collect::<Result<Vec<_>, _>>();
            args.place(&nodes.map_err(|why| anyhow!(why))?)
        }
        None => {
            let text = fs::read_to_string(&args.source)
                .with_context(|| format!("cannot read the receipts {}", args.source))?;
            text.lines()
                .map(str::parse)
                .collect::<Result<_, String>>()
                .map_err(|why| anyhow!(why))?
        }
    };
    if let Some(path) = &args.save {
        let file = fs::File::create(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::new(file);
        receipts.iter().try_for_each(|receipt| writeln!(file, "{receipt}"))?;
        file.flush()?;
    }
    let log = args.log.as_ref().map(|folder| {
        if let Some(found) = crate::log::stored(folder)? {
            return anyhow::Ok((found.base.last, found.orders));
        }
        let mut orders = Vec::new();
        let read = ledger::replay(&Folder::at(folder), u64::MAX, |_, order| orders.push(*order));
        let (state, _) = read.with_context(|| format!("cannot read {}", folder.display()))?;
        anyhow::Ok((state.last - orders.len() as u64, orders))
    });
    let log = log.transpose()?;
    let log = log.as_ref().map(|(after, orders)| (*after, &orders[..]));
    match ledger::prove(receipts, log) {
        Ok(proof) => {
            let against = if log.is_some() { "each once in the log" } else { "each once" };
            println!(
                "{} orders were acknowledged, {against}, in an order that fits all receipts; {} \
                 were refused; of those without an answer the log has {} and lacks {}",
                proof.placed, proof.refused, proof.unknown_placed, proof.unknown_absent
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(found) => Err(anyhow!("the history is impossible: {found}")),
    }
}

impl Args {
    /// The receipts of all clients.
    fn place(&self, nodes: &[SocketAddr]) -> Vec<Receipt> {
        let start = Instant::now();
        let all = self.orders.unwrap_or(10_000);
        let session = Rng::new(u64::from(std::process::id()) ^ sys::clock::now_ns()).roll();
        thread::scope(|threads| {
            let clients: Vec<_> = (0..self.clients)
                .map(|client| {
                    let orders =
                        all / self.clients.max(1) + u64::from(client < all % self.clients.max(1));
                    let first = (session & !0xff_ffff_ffff) | client << 32;
                    let rng = Rng::new(first);
                    let (at, link) = (client as usize, None);
                    let buyer = Buyer { args: self, nodes, at, start, rng, request: first, link };
                    threads.spawn(move || buyer.run(orders))
                })
                .collect();
            clients.into_iter().flat_map(|it| it.join().unwrap_or_default()).collect()
        })
    }
}

/// One client.
struct Buyer<'a> {
    args: &'a Args,
    nodes: &'a [SocketAddr],
    /// The node that it trades with.
    at: usize,
    start: Instant,
    rng: Rng,
    request: u64,
    link: Option<(TcpStream, BufReader<TcpStream>)>,
}

impl Buyer<'_> {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn run(mut self, orders: u64) -> Vec<Receipt> {
        let mut done = Vec::new();
        let (mut waiting, mut begun) = (VecDeque::new(), 0);
        let mut answered = Instant::now();
        while begun < orders || !waiting.is_empty() {
            let fresh = waiting.len();
            while waiting.len() < self.args.depth.max(1) && begun < orders {
                waiting.push_back(self.order());
                begun += 1;
            }
            let sent = if self.link.is_some() { fresh } else { 0 };
            if self.send(&waiting, sent).is_none()
                || self.receive(&mut waiting, &mut done).is_none()
            {
                self.link = None;
                self.at += 1;
                if answered.elapsed() > self.args.patience {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            } else {
                answered = Instant::now();
            }
        }
        done.extend(waiting);
        done
    }

    fn order(&mut self) -> Receipt {
        self.request += 1;
        let count = 1 + self.rng.below(9) as i32;
        let change = if self.rng.once_in(2) { count } else { -count };
        let stock = 1 + self.rng.below(STOCKS) as u32;
        let (called, request) = (self.now(), self.request);
        Receipt { called, returned: u64::MAX, stock, change, request, end: ReceiptEnd::Unknown }
    }

    /// Sends the waiting orders from number `from` on; after a reconnection, all.
    fn send(&mut self, waiting: &VecDeque<Receipt>, from: usize) -> Option<()> {
        if self.link.is_none() {
            let node = &self.nodes[self.at % self.nodes.len()];
            let stream = TcpStream::connect_timeout(node, Duration::from_secs(2)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(8))).ok()?;
            stream.set_nodelay(true).ok()?;
            let reader = BufReader::new(stream.try_clone().ok()?);
            self.link = Some((stream, reader));
        }
        let mut text = String::new();
        for Receipt { stock, change, request, .. } in waiting.iter().skip(from) {
            let side = if *change < 0 { "buy" } else { "sell" };
            text.push_str(&format!("{side} {stock} {} #{request}\n", change.unsigned_abs()));
        }
        self.link.as_mut()?.0.write_all(text.as_bytes()).ok()
    }

    /// Reads the reply to the oldest order, and those that have arrived with it.
    fn receive(&mut self, waiting: &mut VecDeque<Receipt>, done: &mut Vec<Receipt>) -> Option<()> {
        loop {
            let (_, reader) = self.link.as_mut()?;
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|_| line.ends_with('\n'))?;
            let has_more = reader.buffer().contains(&b'\n');
            let end = match line.trim_end().split_once(" success @") {
                Some((_, seq)) => ReceiptEnd::Placed(seq.parse().ok()?),
                None if line.starts_with("Not enough") => ReceiptEnd::Refused,
                // The disk is slow or has failed; the server has closed, or says so again.
                None => return None,
            };
            let order = waiting.pop_front()?;
            done.push(Receipt { end, returned: self.now(), ..order });
            if !has_more || waiting.is_empty() {
                return Some(());
            }
        }
    }
}
