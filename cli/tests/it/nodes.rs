//! One market on three nodes, in three members of etcd: nodes and members are killed and paused
//! while clients trade with receipts. `roundhouse check` is the judge.

use std::fs;
use std::process::Command;
use std::thread::sleep;

use stats::Rng;
use sys::process::Pid;
use sys::signal::Signal;
use testkit::Process;
use testkit::procfs::Family;

use crate::arms::Arm;
use crate::durable::{check_log, judge};
use crate::harness::{Folder, PATIENCE, Plan, Server, eventually, free_port, ms, soak};
use crate::market::book;
use crate::status::Told;

const LEFT: u64 = 1_000_000;

/// Three members of etcd on this machine. They end with the handle.
struct Members {
    folder: Folder,
    clients: [u16; 3],
    peers: [u16; 3],
    running: Vec<Option<Process>>,
}

impl Members {
    fn start() -> Option<Members> {
        if !testkit::has("etcd") {
            return None;
        }
        let [clients, peers] = [[(); 3]; 2].map(|three| three.map(|()| free_port()));
        let running = (0..3).map(|_| None).collect();
        let mut members = Members { folder: Folder::new(), clients, peers, running };
        (0..3).for_each(|at| members.launch(at));
        Some(members)
    }

    fn launch(&mut self, at: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let name = |at: usize| format!("m{at}");
        let all: Vec<String> =
            (0..3).map(|at| format!("{}={}", name(at), url(self.peers[at]))).collect();
        let (client, peer) = (url(self.clients[at]), url(self.peers[at]));
        let data = self.folder.path().join(name(at));
        let mut command = Command::new("etcd");
        command
            .args(["--name", &name(at), "--logger", "zap", "--log-level", "error", "--data-dir"])
            .arg(data);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new"]);
        command.args(["--heartbeat-interval", "100", "--election-timeout", "1000"]);
        self.running[at] = Some(Process::start(&mut command));
    }

    fn kill(&mut self, at: usize) {
        self.running[at].take().expect("it runs").kill();
    }

    fn signal(&self, at: usize, signal: Signal) {
        self.running[at].as_ref().expect("it runs").signal(signal);
    }

    fn address(&self) -> String {
        let hosts: Vec<String> =
            self.clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("etcd://{}/market", hosts.join(","))
    }
}

/// A node, whose book is a separate file.
fn node<'a>(arm: &'a Arm, members: &Members, at: usize, port: u16) -> Plan<'a> {
    let data = members.folder.path().join(format!("book{at}"));
    if !data.exists() {
        fs::write(&data, book(5, LEFT)).expect("our own folder");
    }
    let port = port.to_string();
    let more = ["--replicate", &members.address(), "--log-keep", "100", "--port", &port];
    arm.stock(&data).with(&more)
}

/// Nodes are killed with all their processes and paused, and members of etcd too, one at a time:
/// each acknowledged order is in the log once, and all nodes show the same.
pub fn nodes_and_members_die(arm: &Arm) {
    let Some(mut members) = Members::start() else { return };
    let ports = [(); 3].map(|()| free_port());
    let start = |members: &Members, at: usize| node(arm, members, at, ports[at]).start();
    let mut nodes: Vec<Server> = (0..3).map(|at| start(&members, at)).collect();
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let receipts = members.folder.path().join("receipts");
    let (rounds, orders) = soak((4, 8_000), (200, 400_000));
    let mut judge = judge(&hosts.join(","), (12, orders), &receipts);
    let mut rng = Rng::new(orders as u64);
    for round in 0..rounds {
        sleep(ms(300 + rng.below(300) as u64));
        let at = rng.below(3);
        match round % 4 {
            0 => {
                let old = nodes.remove(at);
                old.signal(Signal::KILL);
                old.ended(PATIENCE);
                nodes.insert(at, start(&members, at));
            }
            1 => {
                members.kill(at);
                sleep(ms(300));
                members.launch(at);
            }
            2 => paused(nodes[at].pid, 500),
            _ => {
                members.signal(at, Signal::STOP);
                sleep(ms(500));
                members.signal(at, Signal::CONT);
            }
        }
    }
    assert!(judge.wait().expect("our child").success(), "{:?}", arm.flags);
    let shown: Vec<String> = nodes.iter().map(|node| node.show()).collect();
    assert!(shown.iter().all(|it| *it == shown[0]), "nodes differ: {shown:?}");
    nodes.into_iter().for_each(|node| assert_eq!(node.stop().code, Some(0)));
    check_log(&members.address(), &receipts, &shown[0]);
}

/// The states of the store's members in the status of a node, ascending.
fn member_states(node: &Told) -> Vec<u64> {
    let status = node.status();
    let gauges = status["gauges"].as_array().into_iter().flatten();
    let states = gauges.filter(|gauge| gauge["name"] == "cluster_member_state");
    let mut states: Vec<u64> =
        states.map(|gauge| gauge["value"].as_f64().expect("a number") as u64).collect();
    states.sort_unstable();
    states
}

/// Stops all processes of a server for some milliseconds.
fn paused(pid: Pid, pause: u64) {
    let family = Family::of(pid);
    family.freeze();
    sleep(ms(pause));
    family.thaw();
}

/// Without most of its members the store is silent: orders that wait and later ones get an answer,
/// `show` goes on where it reads locally and says how old it is, and orders go on afterwards.
pub fn a_lost_quorum_is_told(arm: &Arm) {
    let Some(members) = Members::start() else { return };
    let (server, ready) = node(arm, &members, 0, 0).with(&["--read", "local"]).announce();
    assert_eq!((&ready["durability"], &ready["replication"]), (&"sync".into(), &"etcd".into()));
    let told = Told::of((server, ready));
    let server = &told.server;
    eventually("the members are known", PATIENCE, || member_states(&told) == [2, 2, 3]);
    assert_eq!(server.ask("sell 1 1 #9"), "[sell] success @1");
    let shown = server.show();
    assert!(shown.ends_with(" ms\n") && shown.contains(&format!("1 {} 10\n", LEFT + 1)), "{shown}");
    (1..3).for_each(|at| members.signal(at, Signal::STOP));
    let late = server.client().ask("sell 1 1 #10");
    assert!(late.contains("the store has not answered"), "{late}");
    assert_eq!(server.ask("sell 1 1 #10"), "BUSY", "not silence");
    assert!(server.show().contains(&format!("1 {} 10\n", LEFT + 1)), "`show` goes on");
    assert_eq!(member_states(&told).iter().filter(|state| **state == 0).count(), 2);
    (1..3).for_each(|at| members.signal(at, Signal::CONT));
    eventually("orders are taken again", PATIENCE, || server.ask("sell 1 1 #10").contains("@2"));
    let ended = told.server.stop();
    assert!(ended.err.contains("does not answer") && ended.err.contains("answers again"));
    let other = members.folder.file("other", "7 7 7\n");
    let refused = arm.stock(&other).with(&["--replicate", &members.address()]).fail();
    assert!(refused.err.contains("give each node the same book"), "{}", refused.err);
}
