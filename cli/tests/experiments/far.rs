//! Servers on one machine, the generator on another: two networks joined by a cable of the
//! kernel's, an sshd in the second, and a login between them.

use crate::{BINARY, Room};
use rustix::process::geteuid;
use serde_json::Value;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use testkit::{PATIENCE, Process, eventually, has, run, skip};

/// Addresses of the two machines.
const ADDRESSES: [&str; 2] = ["10.99.7.1", "10.99.7.2"];
const PORT: &str = "2222";
const SSHD: &str = "/usr/sbin/sshd";

/// Two networks, joined by a cable.
pub struct Cable([Process; 2]);

impl Cable {
    /// The ends of the cable have these names and addresses. `None` where this machine cannot hold
    /// such networks; the reason is shown.
    pub fn new(devices: [&str; 2], addresses: [&str; 2]) -> Option<Cable> {
        let hold = || Process::start(Command::new("unshare").args(["--net", "sh", "-c", HOLD]));
        let cable = Cable([hold(), hold()]);
        let is_held = |it: &Process| it.next_line(PATIENCE).as_deref() == Some("ready");
        if !geteuid().is_root() || !cable.0.iter().all(is_held) {
            skip("a separate network");
            return None;
        }
        let [a, b] = cable.0.each_ref().map(|it| it.pid().to_string());
        let ([near, far], words) = (devices, ["link", "add"]);
        let ends = [near, "netns", &a, "type", "veth", "peer", "name", far, "netns", &b];
        run(Command::new("ip").args(words).args(ends)).success();
        for (side, (device, address)) in devices.into_iter().zip(addresses).enumerate() {
            let script = format!(
                "ip link set lo up && ip addr add {address}/24 dev {device} && \
                 ip link set {device} up"
            );
            run(&mut cable.command(side, &["sh", "-c", &script])).success();
        }
        Some(cable)
    }

    /// A program in one of the networks.
    pub fn command(&self, side: usize, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.0[side].pid().to_string();
        command.args(["--target", &pid, "--net"]).args(words);
        command
    }

    /// Moves this thread into one of the networks.
    pub fn enter(&self, side: usize) {
        let network = File::open(format!("/proc/{}/ns/net", self.0[side].pid()));
        sys::netlink::enter(network.expect("it is held").as_fd()).expect("a network");
    }
}

/// Makes a network and holds it, also through a soak.
const HOLD: &str = "echo ready && exec sleep 1200";

/// Two networks, an sshd in the second.
struct Pair {
    cable: Cable,
    _sshd: Process,
    ssh: String,
}

impl Pair {
    /// `None` where this machine cannot hold such a pair; the reason is shown.
    fn new(folder: &Path) -> Option<Pair> {
        if !Path::new(SSHD).exists() || !has("ssh") {
            skip("sshd");
            return None;
        }
        let devices = ["rha", "rhb"];
        let cable = Cable::new(devices, ADDRESSES)?;
        for (side, device) in devices.into_iter().enumerate() {
            let slow = format!(
                "tc qdisc add dev {device} root tbf rate 2gbit burst 256kb latency 20ms || :"
            );
            run(&mut cable.command(side, &["sh", "-c", &slow])).success();
        }
        let (ssh, config) = keys(folder);
        let sshd = Process::start(&mut cable.command(1, &[SSHD, "-D", "-e", "-f", &config]));
        eventually("sshd to listen", PATIENCE, || sshd.err().contains("Server listening"));
        Some(Pair { cable, _sshd: sshd, ssh })
    }

    /// The program with these words, on the first machine.
    fn command(&self, room: &Room, words: &[&str]) -> Command {
        let mut command = self.cable.command(0, &[&[BINARY], words].concat());
        command.current_dir(room.path()).env("ROUNDHOUSE_SSH", &self.ssh);
        command
    }
}

/// Keys for both sides: the words of ssh, and the configuration of sshd.
fn keys(folder: &Path) -> (String, String) {
    let at = |name: &str| folder.join(name).display().to_string();
    for name in ["host", "user"] {
        let words = ["-q", "-t", "ed25519", "-N", "", "-f", &at(name)];
        run(Command::new("ssh-keygen").args(words)).success();
    }
    // sshd insists on a directory that a service would have made.
    std::fs::create_dir_all("/run/sshd").expect("root may make it");
    std::fs::create_dir(folder.join("home")).expect("a fresh folder");
    let config = format!(
        "Port {PORT}\nListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         UsePAM no\nPermitRootLogin yes\nPidFile none\nSetEnv HOME={}\n",
        ADDRESSES[1],
        at("host"),
        at("user.pub"),
        at("home")
    );
    std::fs::write(folder.join("sshd_config"), config).expect("a fresh folder");
    let quiet = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
    (format!("ssh -F none -i {} {quiet}", at("user")), at("sshd_config"))
}

/// The race's record: its network, and the CPU time a request of each measured trial.
fn recorded(text: &str) -> (Value, Vec<f64>) {
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let network = rows.iter().find_map(|row| row.get("network")).expect("it is named").clone();
    let costs = rows.iter().filter_map(|row| {
        row.pointer("/ending/load/server/cpu_ns_per_request").and_then(Value::as_f64)
    });
    (network, costs.collect())
}

#[test]
fn generators_run_on_another_machine() {
    let room = Room::shared();
    let Some(pair) = Pair::new(room.path()) else { return };
    let there = format!("ssh://root@{}:{PORT}", ADDRESSES[1]);
    let flags = ["--load-from", &there];
    let words = ["race", "--arms", "epoll,thread", "--blocks", "2"];
    let ended = run(&mut pair.command(&room, &[&words[..], &flags].concat())).success();
    ended.says("an empty exchange over TCP takes");
    let (network, costs) = recorded(&room.text("report.jsonl"));
    assert_eq!((&network["address"], &network["interface"]), (&ADDRESSES[0].into(), &"rha".into()));
    assert!(network["floor_p50_ns"].as_u64().is_some_and(|ns| ns > 0), "{network}");
    // Two arms and a twin, two load points, two blocks.
    assert_eq!(costs.len(), 12, "{costs:?}");
    assert!(costs.iter().all(|ns| *ns > 50.0), "{costs:?}");
    assert!(room.text("report.html").contains("an empty exchange over TCP"));
    // The course's clients come from the other machine too.
    let words = ["museum", "staircase", "--scale", "0.001", "--clients", "3"];
    run(&mut pair.command(&room, &[&words[..], &flags].concat())).success();
    let raw = room.text("museum-staircase.jsonl");
    let (network, _) = recorded(&raw);
    assert_eq!(network["address"], ADDRESSES[0]);
    assert!(raw.contains("\"replies\":30"), "three clients, ten orders each: {raw}");
    assert!(room.path().join("museum-staircase.html").exists());
    let words = ["museum", "pool-heap", "--load-from", &there];
    run(&mut pair.command(&room, &words)).exits(2).says("--load-from");
    let installed = room.path().join("home/.cache/roundhouse");
    assert_eq!(std::fs::read_dir(installed).expect("it was copied").count(), 1, "copied once");
    let absent = ["race", "--arms", "epoll", "--load-from", "ssh://root@10.99.7.2:9"];
    let ended = run(&mut pair.command(&room, &absent));
    assert!(ended.code != Some(0));
    ended.says("10.99.7.2:9");
}
