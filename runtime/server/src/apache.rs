//! `--apache-conf FILE`: reads the directives of an Apache configuration that concern its
//! processing module, so that a published configuration can be used as it is.
//!
//! Apache corrects values that cannot work, and its oldest versions do so silently: a study that
//! set `MaxSpareThreads 150` beside `MinSpareThreads 150` measured 200. The same corrections are
//! made here (`worker_check_config`, `prefork_check_config`), and each is reported. Directives
//! about anything but processes and threads are counted and ignored. Sources: the manual's pages of
//! worker, event, prefork and mpm_common.

use std::collections::BTreeMap;
use std::path::Path;

use engines::{Accept, Refused, Shape};

/// The supported directives, in lower case.
const KNOWN: &[&str] = &[
    "startservers",
    "serverlimit",
    "threadlimit",
    "threadsperchild",
    "maxrequestworkers",
    "minsparethreads",
    "maxsparethreads",
    "minspareservers",
    "maxspareservers",
    "maxconnectionsperchild",
    "listenbacklog",
    "acceptmutex",
    "asyncrequestworkerfactor",
];

/// Older names of supported directives.
const FORMER: &[(&str, &str)] =
    &[("maxclients", "maxrequestworkers"), ("maxrequestsperchild", "maxconnectionsperchild")];

/// Directives of the module that ran each child as a user of its own.
const PERCHILD: &[&str] = &["numservers", "maxthreadsperchild", "assignuserid", "childperuserid"];

/// Apache's defaults: `worker` and `event`, and `prefork` (2.4).
const SERVER_LIMIT: (usize, usize) = (16, 256);
const THREAD_LIMIT: usize = 64;
const THREADS: usize = 25;

/// The processing module that corresponds to an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Module {
    Worker,
    Event,
    Prefork,
}

impl Module {
    fn of(shape: &Shape) -> Option<Module> {
        match (shape.name()?, shape.accept) {
            ("worker", _) => Some(Module::Worker),
            ("event", _) => Some(Module::Event),
            ("prefork", Accept::Shared | Accept::Lock) => Some(Module::Prefork),
            _ => None,
        }
    }

    /// Whether a section `<IfModule WORD>` applies to this module.
    fn is_meant(self, word: &str) -> bool {
        let name = match self {
            Module::Worker => "worker",
            Module::Event => "event",
            Module::Prefork => "prefork",
        };
        let (negated, word) = match word.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let word = word.to_ascii_lowercase();
        negated != (word == format!("mpm_{name}_module") || word == format!("{name}.c"))
    }
}

/// The directives of a file, by name, with their lines.
#[derive(Default)]
struct Found {
    values: BTreeMap<&'static str, (String, usize)>,
    others: usize,
}

/// The settings of a file, corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// The most workers at one time.
    pub workers: Option<usize>,
    /// Threads of a process.
    pub threads: Option<usize>,
    /// Processes at startup.
    pub start: Option<usize>,
    /// Fewest idle workers.
    pub spare_min: Option<usize>,
    /// Most idle workers.
    pub spare_max: Option<usize>,
    /// Connections after which a process is replaced.
    pub lifetime: Option<u32>,
    /// Length of the accept queue.
    pub backlog: Option<u32>,
    /// Whether a lock serialises accept.
    pub is_locked: bool,
    /// The most connections at one time.
    pub max_connections: Option<usize>,
    /// Notes for the user about corrected and ignored values.
    pub notes: Vec<String>,
}

/// Reads `file` for the engine of `shape`.
///
/// # Errors
/// The file, the line, the expected and the found value.
pub fn read(file: &Path, shape: &Shape) -> Result<Directives, Refused> {
    let place = file.display();
    let module = Module::of(shape).ok_or_else(|| {
        Refused(format!(
            "an Apache configuration is for --engine worker, event or prefork, found {shape}"
        ))
    })?;
    let bytes = std::fs::read(file)
        .map_err(|error| Refused(format!("cannot read the configuration {place}: {error}")))?;
    let found = scan(&String::from_utf8_lossy(&bytes), module)
        .map_err(|(line, reason)| Refused(format!("{place}:{line}: {reason}")))?;
    correct(&found, module).map_err(|(line, reason)| Refused(format!("{place}:{line}: {reason}")))
}

/// A line number and the mistake there.
type Wrong = (usize, String);

fn scan(text: &str, module: Module) -> Result<Found, Wrong> {
    let mut found = Found::default();
    // For each open section, whether its directives apply.
    let mut sections: Vec<bool> = Vec::new();
    let mut carried = String::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        if let Some(begun) = line.strip_suffix('\\') {
            carried.push_str(begun);
            continue;
        }
        let whole = std::mem::take(&mut carried) + line;
        let line = whole.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(rest) = line.strip_prefix("</") {
            if sections.pop().is_none() {
                return Err((number, format!("expected an open section, found `</{rest}`")));
            }
        } else if let Some(rest) = line.strip_prefix('<') {
            let mut words = rest.trim_end_matches('>').split_whitespace();
            let is_module = words.next().is_some_and(|it| it.eq_ignore_ascii_case("IfModule"));
            let meant = words.next().is_some_and(|word| module.is_meant(word));
            sections.push(is_module && meant);
        } else if sections.iter().all(|counts| *counts) {
            take(&mut found, line, number)?;
        }
    }
    Ok(found)
}

fn take(found: &mut Found, line: &str, number: usize) -> Result<(), Wrong> {
    let mut words = line.split_whitespace();
    let written = words.next().unwrap_or_default();
    let mut name = written.to_ascii_lowercase();
    if PERCHILD.contains(&name.as_str()) {
        return Err((
            number,
            format!(
                "{written} belongs to the perchild module, which gives each child a user of its \
                 own: it needs root and is not built here; expected worker, event or prefork"
            ),
        ));
    }
    // `AcceptMutex` is the older spelling of `Mutex default mpm-accept`.
    let value = match name.as_str() {
        "mutex" if line.contains("mpm-accept") => {
            name = "acceptmutex".to_owned();
            words.next()
        }
        _ => words.next(),
    };
    let name = FORMER.iter().find(|(former, _)| *former == name).map_or(&*name, |it| it.1);
    let Some(known) = KNOWN.iter().find(|known| **known == name) else {
        found.others += 1;
        return Ok(());
    };
    let value = value.ok_or_else(|| (number, format!("expected a value after {written}")))?;
    found.values.insert(known, (value.trim_matches('"').to_owned(), number));
    Ok(())
}

impl Found {
    fn number(&self, name: &str) -> Result<Option<usize>, Wrong> {
        let Some((text, line)) = self.values.get(name) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| (*line, format!("expected a number after {name}, found `{text}`")))
    }

    /// The note about directives of other modules, which have no effect here.
    fn foreign(&self, module: Module) -> Option<String> {
        let others: &[&str] = match module {
            Module::Prefork => &[
                "threadlimit",
                "threadsperchild",
                "minsparethreads",
                "maxsparethreads",
                "asyncrequestworkerfactor",
            ],
            Module::Worker => {
                &["minspareservers", "maxspareservers", "acceptmutex", "asyncrequestworkerfactor"]
            }
            Module::Event => &["minspareservers", "maxspareservers", "acceptmutex"],
        };
        let found: Vec<&str> =
            others.iter().copied().filter(|name| self.values.contains_key(name)).collect();
        (!found.is_empty())
            .then(|| format!("without effect on this engine, ignored: {}", found.join(", ")))
    }

    /// The number, at least 1; a correction is noted.
    fn positive(&self, name: &str, notes: &mut Vec<String>) -> Result<Option<usize>, Wrong> {
        let found = self.number(name)?;
        if found == Some(0) {
            notes.push(format!("{name} 0 is taken as 1"));
            return Ok(Some(1));
        }
        Ok(found)
    }
}

/// Makes the corrections that Apache makes.
fn correct(found: &Found, module: Module) -> Result<Directives, Wrong> {
    let mut notes = Vec::new();
    let is_prefork = module == Module::Prefork;
    let server_limit = found.positive("serverlimit", &mut notes)?;
    let server_limit = server_limit.unwrap_or(match module {
        Module::Prefork => SERVER_LIMIT.1,
        _ => SERVER_LIMIT.0,
    });
    let threads = if is_prefork { 1 } else { threads(found, &mut notes)? };
    let workers = workers(found, threads, server_limit, &mut notes)?;
    let (least, most) = match is_prefork {
        true => ("minspareservers", "maxspareservers"),
        false => ("minsparethreads", "maxsparethreads"),
    };
    let spare_min = found.positive(least, &mut notes)?;
    let spare_max = found.positive(most, &mut notes)?;
    // The controller would widen it too; the note uses Apache's words.
    let spare_max = match (spare_min, spare_max) {
        (Some(low), Some(high)) if high < low + threads => {
            notes
                .push(format!("{most} {high} is taken as {} ({least} + a process)", low + threads));
            Some(low + threads)
        }
        (_, high) => high,
    };
    let start = found.positive("startservers", &mut notes)?.map(|start| {
        let processes = workers / threads;
        if start > processes {
            notes.push(format!("startservers {start} is taken as {processes}: all there may be"));
        }
        start.min(processes)
    });
    let lifetime = found.number("maxconnectionsperchild")?.filter(|most| *most > 0);
    let factor = found.values.get("asyncrequestworkerfactor");
    let max_connections = match factor {
        Some((text, line)) if module == Module::Event => Some(capacity(text, *line, workers)?),
        _ => None,
    };
    notes.extend(found.foreign(module));
    if found.others > 0 {
        notes.push(format!(
            "{} directives are not about processes and threads and were ignored",
            found.others
        ));
    }
    Ok(Directives {
        workers: Some(workers),
        threads: (!is_prefork).then_some(threads),
        start,
        spare_min,
        spare_max,
        lifetime: lifetime.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
        backlog: found.number("listenbacklog")?.map(|it| u32::try_from(it).unwrap_or(u32::MAX)),
        is_locked: is_prefork
            && found.values.get("acceptmutex").is_some_and(|(text, _)| text != "none"),
        max_connections,
        notes,
    })
}

fn threads(found: &Found, notes: &mut Vec<String>) -> Result<usize, Wrong> {
    let limit = found.positive("threadlimit", notes)?.unwrap_or(THREAD_LIMIT);
    let threads = found.positive("threadsperchild", notes)?.unwrap_or(THREADS);
    if threads > limit {
        notes.push(format!("threadsperchild {threads} is taken as {limit}, the threadlimit"));
    }
    Ok(threads.min(limit))
}

/// `MaxRequestWorkers`: whole processes, at least one, at most `ServerLimit`.
fn workers(
    found: &Found,
    threads: usize,
    server_limit: usize,
    notes: &mut Vec<String>,
) -> Result<usize, Wrong> {
    let most = server_limit * threads;
    let Some(wanted) = found.positive("maxrequestworkers", notes)? else { return Ok(most) };
    let whole = (wanted / threads * threads).max(threads);
    if whole != wanted {
        notes.push(format!("maxrequestworkers {wanted} is taken as {whole}: whole processes"));
    }
    if whole > most {
        notes.push(format!("maxrequestworkers {whole} is taken as {most}, the serverlimit's"));
    }
    Ok(whole.min(most))
}

/// Connections at one time under the event module. Apache's limit of each process moves with its
/// idle threads (`ThreadsPerChild + AsyncRequestWorkerFactor x idle`); ours is its largest value.
fn capacity(text: &str, line: usize, workers: usize) -> Result<usize, Wrong> {
    let factor: f64 = text.parse().unwrap_or(-1.0);
    if !(0.0..=1e6).contains(&factor) {
        let reason = format!("expected a factor after asyncrequestworkerfactor, found `{text}`");
        return Err((line, reason));
    }
    Ok((workers as f64 * (1.0 + factor)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(text: &str, module: Module) -> Directives {
        let found = scan(text, module).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        correct(&found, module).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    #[test]
    fn a_published_configuration_reads_as_apache_reads_it() {
        let text = "ServerLimit 3\nStartServers 1\nMaxClients 150\nThreadsPerChild 50\n\
                    MinSpareThreads 25\nMaxSpareThreads 75\nMaxRequestsPerChild 0\n";
        let found = read_as(text, Module::Worker);
        assert_eq!((found.workers, found.threads, found.start), (Some(150), Some(50), Some(1)));
        assert_eq!((found.spare_min, found.spare_max), (Some(25), Some(75)));
        assert_eq!((found.lifetime, found.notes), (None, Vec::new()));
    }

    #[test]
    fn silent_corrections_of_apache_are_noted() {
        let text = "ThreadsPerChild 100\nThreadLimit 50\nMaxRequestWorkers 170\nServerLimit 3\n\
                    StartServers 9\nMinSpareThreads 150\nMaxSpareThreads 150\n";
        let found = read_as(text, Module::Worker);
        assert_eq!((found.threads, found.workers, found.start), (Some(50), Some(150), Some(3)));
        assert_eq!(found.spare_max, Some(200));
        assert_eq!(found.notes.len(), 4, "{:?}", found.notes);
        assert!(found.notes.iter().any(|it| it.contains("maxsparethreads 150 is taken as 200")));
        let prefork = read_as("MinSpareServers 5\nMaxSpareServers 5\n", Module::Prefork);
        assert_eq!((prefork.spare_max, prefork.workers), (Some(6), Some(256)));
    }

    #[test]
    fn sections_are_for_the_module_that_they_name() {
        let text = "<IfModule mpm_worker_module>\n  ThreadsPerChild 10\n</IfModule>\n\
                    <IfModule mpm_event_module>\nThreadsPerChild 20\n</IfModule>\n\
                    <IfModule !prefork.c>\n StartServers \\\n 2\n</IfModule>\n\
                    <VirtualHost *>\nThreadsPerChild 7\n</VirtualHost>\nKeepAlive On\n";
        assert_eq!(read_as(text, Module::Worker).threads, Some(10));
        let event = read_as(text, Module::Event);
        assert_eq!((event.threads, event.start), (Some(20), Some(2)));
        assert!(event.notes[0].starts_with("1 directives"), "{:?}", event.notes);
        let factor = read_as("AsyncRequestWorkerFactor 2\nMaxClients 100", Module::Event);
        assert_eq!(factor.max_connections, Some(300));
        let strange = read_as("MinSpareServers 3\nAcceptMutex fcntl\n", Module::Worker).notes;
        assert!(strange[0].contains("minspareservers, acceptmutex"), "{strange:?}");
    }

    #[test]
    fn what_cannot_be_names_its_line() {
        let wrong = |text: &str| match scan(text, Module::Worker) {
            Err(wrong) => wrong,
            Ok(found) => correct(&found, Module::Worker).expect_err("it cannot be"),
        };
        assert_eq!(wrong("\nThreadsPerChild many").0, 2);
        assert!(wrong("StartServers").1.contains("expected a value"));
        assert!(wrong("NumServers 5").1.contains("perchild"));
        assert!(wrong("</IfModule>").1.contains("open section"));
    }
}
