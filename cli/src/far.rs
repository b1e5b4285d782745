//! Two machines: the flags that name the other one, and the hidden command that runs there. Both
//! machines need an OpenSSH; the program itself is copied, and found again by its hash.
//!
//! With `--servers-on`, this command runs itself again on the other machine: it logs in once,
//! copies the program to a name with its hash, sends the files that the arguments name, and fetches
//! the results. The load still comes from here: the other side connects to a socket that ssh
//! forwards, and each connection starts `roundhouse far` with that socket as its input and output.
//! With `--load-from`, the laboratory stays here and only the generator is remote. A generator ends
//! when its input ends, so a broken connection leaves no process behind.

use anyhow::{Context, Result, bail};
use lab::command::{joined, split};
use lab::far::{Far, KeepAlive, installed};
use lab::plan::fnv1a;
use language::{eprintln, info};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Shutdown};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use tempfile::TempDir;
use tools::race::room;

/// The machines of a race.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Two machines")]
pub struct Machines {
    /// Run the servers on another machine, whose counters are read there; files named in the
    /// arguments go along, the results come back. The load comes from here, or from --load-from
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT][/PROGRAM]")]
    servers_on: Option<SshHost>,
    /// Generate the load on another machine
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT][/PROGRAM]", hide_short_help = true)]
    load_from: Option<LoadFrom>,
    /// The servers' address, as the generator reaches it [default: the one that ssh uses]
    #[arg(long, value_name = "ADDRESS", hide_short_help = true)]
    server_address: Option<IpAddr>,
}

/// The arguments of `far`.
#[derive(clap::Args)]
pub struct Args {
    /// Hand the task on, through this Unix socket
    #[arg(long, value_name = "SOCKET")]
    through: Option<PathBuf>,
}

/// Another machine, and perhaps the program there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshHost {
    /// `ssh://[USER@]HOST[:PORT]`.
    destination: String,
    program: Option<String>,
}

/// The place of the generator.
#[derive(Clone, Debug)]
enum LoadFrom {
    Ssh(SshHost),
    /// A socket, behind which a generator is started for each connection.
    Socket(PathBuf),
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

impl FromStr for LoadFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadFrom, String> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(LoadFrom::Socket(path.into())),
            None => text.parse().map(LoadFrom::Ssh),
        }
    }
}

/// Works on one task of a laboratory, or hands it on.
pub fn run(args: &Args) -> Result<ExitCode> {
    let Some(socket) = &args.through else { return lab::far::serve(&std::env::current_exe()?) };
    let mut socket = UnixStream::connect(socket)
        .with_context(|| format!("cannot connect to {}", socket.display()))?;
    let mut back = socket.try_clone()?;
    thread::Builder::new().spawn(move || {
        // The generator ends when its input does.
        _ = io::copy(&mut io::stdin().lock(), &mut socket);
        _ = socket.shutdown(Shutdown::Write);
    })?;
    io::copy(&mut back, &mut io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

impl Machines {
    /// Whether the servers run on another machine.
    pub fn has_servers(&self) -> bool {
        self.servers_on.is_some()
    }

    /// The flags that name the generator's machine again; none for a socket, which is gone then.
    pub fn words(&self) -> String {
        let from = match &self.load_from {
            Some(LoadFrom::Ssh(SshHost { destination, program })) => {
                format!(" --load-from {destination}{}", program.as_deref().unwrap_or_default())
            }
            _ => return String::new(),
        };
        let at = self.server_address.iter().map(|at| format!(" --server-address {at}"));
        at.fold(from, |words, at| words + &at)
    }

    /// The generator on another machine, if there is one; the floor between the two is measured
    /// and shown.
    ///
    /// # Errors
    /// The machine cannot be reached, or cannot reach this one.
    pub fn far(&self) -> Result<Option<Arc<Far>>> {
        let Some(from) = &self.load_from else { return Ok(None) };
        let room = room("roundhouse-far")?;
        let (command, link, address): (_, KeepAlive, _) = match from {
            LoadFrom::Ssh(host) => {
                let ssh = Ssh::open(host)?;
                let here = ssh.addresses()?[0];
                (ssh.generator(), Box::new(ssh), Some(here))
            }
            LoadFrom::Socket(path) => {
                let exe = std::env::current_exe()?.display().to_string();
                let path = path.display().to_string();
                let words = vec![exe, "far".to_string(), "--through".to_string(), path];
                (words, Box::new(()), None)
            }
        };
        let address = self.server_address.or(address);
        let address = address.context("expected --server-address together with a socket")?;
        let far = Far::reach(command, link, address, room.path()).map_err(anyhow::Error::msg)?;
        info!("{}", far.network.words());
        Ok(Some(Arc::new(far)))
    }

    /// Runs this very command on the machine of --servers-on, and brings its results into `out`, if
    /// that is given. `flag` names their folder. `None` without --servers-on.
    ///
    /// # Errors
    /// The machine cannot be reached.
    pub fn elsewhere(&self, flag: &str, out: Option<&Path>) -> Result<Option<ExitCode>> {
        let Some(host) = &self.servers_on else { return Ok(None) };
        let ssh = Ssh::open(host)?;
        let from = match &self.load_from {
            None => None,
            Some(LoadFrom::Ssh(from)) => Some(Ssh::open(from)?),
            Some(LoadFrom::Socket(_)) => bail!("expected ssh://… after --load-from"),
        };
        let here = || Ok(vec![std::env::current_exe()?.display().to_string(), "far".to_string()]);
        let generator = from.as_ref().map_or_else(here, |ssh| anyhow::Ok(ssh.generator()))?;
        let address = match self.server_address {
            Some(address) => address,
            None => ssh.addresses()?[1],
        };
        let socket = ssh.room.path().join("load.sock");
        let listener = UnixListener::bind(&socket)?;
        thread::Builder::new().spawn(move || {
            for stream in listener.incoming().flatten() {
                let generator = generator.clone();
                let started = thread::Builder::new().spawn(move || generate(&generator, stream));
                if let Err(error) = started {
                    eprintln!(
                        "a connection of the laboratory is closed: no thread for it: {error}"
                    );
                }
            }
        })?;
        let folder = ssh.output("mktemp -d", Stdio::null())?;
        let status = ssh.repeat(flag, &folder, &socket, address);
        // Results that cannot be fetched stay there, and the error names the folder.
        out.map_or(Ok(()), |out| ssh.fetch(&folder, out))?;
        ssh.output(&format!("rm -rf {folder}"), Stdio::null())?;
        status.map(Some)
    }
}

/// Starts a generator with a connection as its standard input and output.
fn generate(command: &[String], stream: UnixStream) {
    let started = stream.try_clone().and_then(|input| {
        let (input, output) = (OwnedFd::from(input), OwnedFd::from(stream));
        Command::new(&command[0]).args(&command[1..]).stdin(input).stdout(output).status()
    });
    if let Err(why) = started {
        eprintln!("cannot start a generator: {why}");
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

    fn command(&self, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(options).args([&self.host.destination, script]);
        command
    }

    /// Runs a script there; returns its output without the last newline.
    fn output(&self, script: &str, input: Stdio) -> Result<String> {
        let ran = self.command(&[], script).stdin(input).stderr(Stdio::piped()).output();
        let ran = ran.with_context(|| format!("cannot start `{}`", self.words[0]))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            bail!("{}: {}", self.host.destination, said.trim());
        }
        Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_string())
    }

    /// The addresses of this machine and of the other, as sshd sees the connection (ssh(1)).
    fn addresses(&self) -> Result<[IpAddr; 2]> {
        let text = self.output("echo $SSH_CONNECTION", Stdio::null())?;
        let words: Vec<&str> = text.split(' ').collect();
        let [client, _, server, _] = words[..] else {
            bail!("expected addresses in SSH_CONNECTION, found `{text}`; give --server-address");
        };
        Ok([client.parse()?, server.parse()?])
    }

    /// The words that start a generator there, as long as this lives.
    fn generator(&self) -> Vec<String> {
        let script = format!("exec {} far", self.program);
        [self.words.clone(), vec![self.host.destination.clone(), script]].concat()
    }

    /// Runs this process's command there, in `folder`, with its load from `socket` of this machine.
    fn repeat(&self, flag: &str, folder: &str, socket: &Path, address: IpAddr) -> Result<ExitCode> {
        let words = std::env::args().skip(1);
        let (words, files) = handed_on(words, flag, |word| Path::new(word).is_file());
        if !files.is_empty() {
            let mut tar = Command::new("tar");
            tar.arg("-cf").arg("-");
            for file in &files {
                let file = Path::new(file);
                let folder = file.parent().filter(|it| *it != Path::new(""));
                tar.arg("-C").arg(std::path::absolute(folder.unwrap_or(Path::new(".")))?);
                tar.arg(file.file_name().unwrap_or(OsStr::new(".")));
            }
            let mut packed = tar.stdout(Stdio::piped()).spawn().context("cannot start tar")?;
            let bytes = packed.stdout.take().context("tar has no output")?;
            self.output(&format!("tar -xf - -C {folder}"), bytes.into())?;
            packed.wait()?;
        }
        let script = format!(
            "cd {folder} && mkdir out && exec {} {} --load-from unix:{folder}/load.sock \
             --server-address {address}",
            self.program,
            joined(&words)?
        );
        let forward = format!("{folder}/load.sock:{}", socket.display());
        let mut options = vec!["-o", "ExitOnForwardFailure=yes", "-R", &forward];
        if io::stdin().is_terminal() && io::stderr().is_terminal() {
            options.push("-t");
        }
        let mut command = self.command(&options, &script);
        let status = command.status().context("cannot start ssh")?;
        match status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(255) | None => bail!("{}: the connection ended", self.host.destination),
            Some(code) => Ok(ExitCode::from(code)),
        }
    }

    /// Brings the results of a race here.
    fn fetch(&self, folder: &str, out: &Path) -> Result<()> {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        let mut packed = self
            .command(&[], &format!("tar -cf - -C {folder}/out ."))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let bytes = packed.stdout.take().context("ssh has no output")?;
        let unpacked =
            Command::new("tar").args(["-xf", "-", "-C"]).arg(out).stdin(bytes).status()?;
        let sent = packed.wait()?;
        if !(sent.success() && unpacked.success()) {
            bail!("{}: the results in {folder}/out cannot be fetched", self.host.destination);
        }
        Ok(())
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let quietly = |command: &mut Command| _ = command.stderr(Stdio::null()).status();
        if self.room.path().exists() {
            quietly(&mut self.command(&["-O", "exit"], ""));
        }
    }
}

/// The words for the other machine, where results go to `out` by `flag`, and the files to send
/// along: each is named without its folder there.
fn handed_on(
    words: impl Iterator<Item = String>,
    flag: &str,
    is_file: impl Fn(&str) -> bool,
) -> (Vec<String>, Vec<String>) {
    let own = ["--servers-on", "--load-from", "--server-address"];
    let (mut there, mut files) = (Vec::new(), Vec::new());
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        let takes = own.contains(&name) || name == flag;
        if takes {
            if name == word {
                words.next();
            }
        } else if is_file(&word) {
            let name = Path::new(&word).file_name().unwrap_or_default().to_string_lossy();
            there.push(format!("./{name}"));
            files.push(word);
        } else {
            there.push(word);
        }
    }
    there.extend([flag.to_string(), "out".to_string()]);
    (there, files)
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

    #[test]
    fn files_go_along_and_own_flags_stay() {
        let line = "race plans/a.toml --servers-on ssh://b --out=x --data d.txt --json";
        let words = line.split(' ').map(String::from);
        let (there, files) =
            handed_on(words, "--out", |word| word.ends_with(".toml") || word == "d.txt");
        assert_eq!(there.join(" "), "race ./a.toml --data ./d.txt --json --out out");
        assert_eq!(files, ["plans/a.toml", "d.txt"]);
    }
}
