//! Two machines: the flags that name the generator's, and the hidden command that runs there. Both
//! machines need an OpenSSH; the program itself is copied, and found again by its hash.
//!
//! The laboratory and its servers stay here. It logs in once and starts `roundhouse far` there, a
//! process per generator, which ends when its input ends, so a broken connection leaves no process
//! behind.

pub mod veth;

use anyhow::{Context, Result, bail};
use lab::command::{joined, split};
use lab::far::{Far, installed};
use lab::plan::fnv1a;
use language::info;
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use tempfile::TempDir;
use tools::race::room;

/// The machines of a race.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Two machines")]
pub struct Machines {
    /// Generate the load on another machine
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT][/PROGRAM]")]
    load_from: Option<SshHost>,
    /// The servers' address, as the generator reaches it [default: the one that ssh uses]
    #[arg(long, value_name = "ADDRESS", hide_short_help = true)]
    server_address: Option<IpAddr>,
    /// Put the servers and the generator into two networks on this machine, joined by a pair of
    /// veth devices (root; a server's interface is rhs)
    #[arg(long, conflicts_with_all = ["load_from", "server_address"], hide_short_help = true)]
    pub veth: bool,
}

/// Another machine, and perhaps the program there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshHost {
    /// `ssh://[USER@]HOST[:PORT]`.
    destination: String,
    program: Option<String>,
}

impl FromStr for SshHost {
    type Err = String;

    fn from_str(text: &str) -> Result<SshHost, String> {
        let place = text.strip_prefix("ssh://").filter(|place| !place.starts_with(['/', '-']));
        let place = place.filter(|place| !place.is_empty()).ok_or_else(|| {
            format!("expected ssh://[USER@]HOST[:PORT][/PROGRAM], found `{text}`")
        })?;
        let (host, program) = match place.split_once('/') {
            Some((host, program)) => (host, Some(format!("/{program}")).filter(|it| it != "/")),
            None => (place, None),
        };
        Ok(SshHost { destination: format!("ssh://{host}"), program })
    }
}

pub fn run() -> Result<ExitCode> {
    lab::far::serve(&std::env::current_exe()?)
}

impl Machines {
    /// The flags that name the generator's machine again.
    pub fn words(&self) -> String {
        let Some(SshHost { destination, program }) = &self.load_from else {
            return if self.veth { " --veth".to_owned() } else { String::new() };
        };
        let from = format!(" --load-from {destination}{}", program.as_deref().unwrap_or_default());
        let at = self.server_address.iter().map(|at| format!(" --server-address {at}"));
        at.fold(from, |words, at| words + &at)
    }

    /// The generator on another machine, if there is one; the floor between the two is measured
    /// and shown.
    pub fn far(&self) -> Result<Option<Arc<Far>>> {
        let room = room("roundhouse-far")?;
        if self.veth {
            let far = veth::reach(room.path())?;
            info!("{}", far.network.words());
            return Ok(Some(Arc::new(far)));
        }
        let Some(host) = &self.load_from else { return Ok(None) };
        let ssh = Ssh::open(host)?;
        let address = match self.server_address {
            Some(address) => address,
            None => ssh.address()?,
        };
        let far = Far::reach(ssh.generator(), Box::new(ssh), address, room.path());
        let far = far.map_err(anyhow::Error::msg)?;
        info!("{}", far.network.words());
        Ok(Some(Arc::new(far)))
    }
}

/// A connection to a machine: one login for all commands.
struct Ssh {
    host: SshHost,
    words: Vec<String>,
    /// The program there, as a word of a shell.
    program: String,
    /// The connection's control socket is here.
    room: TempDir,
}

impl Ssh {
    /// Logs in, and copies this program unless it is there.
    fn open(host: &SshHost) -> Result<Ssh> {
        let room = room("roundhouse-ssh")?;
        let given = std::env::var("ROUNDHOUSE_SSH").unwrap_or_else(|_| "ssh".to_string());
        let mut words = split(&given).map_err(anyhow::Error::msg)?;
        let control = format!("ControlPath={}/%C", room.path().display());
        for option in ["ControlMaster=auto", &control, "ControlPersist=60"] {
            words.extend(["-o".to_string(), option.to_string()]);
        }
        let mut ssh = Ssh { host: host.clone(), words, program: String::new(), room };
        ssh.program = match &host.program {
            Some(program) => joined([program])?,
            None => ssh.install()?,
        };
        let version = format!("roundhouse {}", env!("CARGO_PKG_VERSION"));
        let found = ssh.output(&format!("{} --version", ssh.program), Stdio::null());
        match found {
            Ok(found) if found == version => Ok(ssh),
            other => bail!(
                "expected `{version}` on {}, found {}; build it there and name it as {}/PATH",
                host.destination,
                other.unwrap_or_else(|why| format!("{why:#}")),
                host.destination
            ),
        }
    }

    fn install(&self) -> Result<String> {
        let exe = std::env::current_exe()?;
        let bytes =
            std::fs::read(&exe).with_context(|| format!("cannot read {}", exe.display()))?;
        let file = installed(&format!("{:016x}", fnv1a(&bytes)));
        let at_home = |path: &Path| format!("\"$HOME\"/{}", path.display());
        let folder = at_home(file.parent().unwrap_or(Path::new(".")));
        let file = at_home(&file);
        let script = format!("test -x {file} && echo there || true");
        if self.output(&script, Stdio::null())? != "there" {
            let script = format!(
                "mkdir -p {folder} && cat > {file}.$$ && chmod 755 {file}.$$ && mv {file}.$$ {file}"
            );
            self.output(&script, File::open(&exe)?.into())?;
        }
        Ok(file)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(words);
        command
    }

    /// Runs a script there; returns its output without the last newline.
    fn output(&self, script: &str, input: Stdio) -> Result<String> {
        let ran = self
            .command(&[&self.host.destination, script])
            .stdin(input)
            .stderr(Stdio::piped())
            .output();
        let ran = ran.with_context(|| format!("cannot start `{}`", self.words[0]))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            bail!("{}: {}", self.host.destination, said.trim());
        }
        Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_string())
    }

    /// The address of this machine, as sshd sees the connection (ssh(1)).
    fn address(&self) -> Result<IpAddr> {
        let text = self.output("echo $SSH_CONNECTION", Stdio::null())?;
        let words: Vec<&str> = text.split(' ').collect();
        let [client, _, _, _] = words[..] else {
            bail!("expected addresses in SSH_CONNECTION, found `{text}`; give --server-address");
        };
        Ok(client.parse()?)
    }

    /// The words that start a generator there, as long as this lives.
    fn generator(&self) -> Vec<String> {
        let script = format!("exec {} far", self.program);
        [self.words.clone(), vec![self.host.destination.clone(), script]].concat()
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let quietly = |command: &mut Command| _ = command.stderr(Stdio::null()).status();
        if self.room.path().exists() {
            quietly(&mut self.command(&["-O", "exit", &self.host.destination]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_by_a_url() {
        let host: SshHost = "ssh://me@far:2222/opt/roundhouse".parse().expect("a URL");
        assert_eq!(host.destination, "ssh://me@far:2222");
        assert_eq!(host.program.as_deref(), Some("/opt/roundhouse"));
        assert_eq!("ssh://far/".parse::<SshHost>().expect("a URL").program, None);
        for wrong in ["far", "ssh://", "ssh:///x", "ssh://-oProxyCommand=x"] {
            assert!(wrong.parse::<SshHost>().is_err(), "{wrong}");
        }
    }
}
