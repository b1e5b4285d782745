//! Tests of the help of every command: its texts, its Korean, its length.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use server::help::{shown, spoken, with};

/// Every text of the help that a person may see.
fn texts() -> BTreeSet<String> {
    let seen = RefCell::new(BTreeSet::new());
    with(crate::grammar(), &|text| {
        seen.borrow_mut().insert(text.to_owned());
        None
    });
    seen.into_inner()
}

/// Whether a text is only commands, which need no translation.
fn is_plain(text: &str) -> bool {
    let first = text.trim_start();
    let command = ["roundhouse", "bin/", "Examples:"].iter().any(|word| first.starts_with(word));
    // Names are the same in every language.
    let name = ["WebSocket", "io_uring"].contains(&text);
    name || first.is_empty() || text.contains('\n') || (command && first != "Examples:")
}

#[test]
fn each_text_of_the_help_is_translated() {
    let korean = language::korean();
    let missing: Vec<String> = texts()
        .into_iter()
        .filter(|text| !is_plain(text) && korean.exact(text).is_none())
        .map(|text| format!("msgid {text:?}\nmsgstr \"\"\n"))
        .collect();
    assert!(missing.is_empty(), "ko.po lacks {}:\n{}", missing.len(), missing.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below these folders of the repository.
fn files(folders: &[&str]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).expect("a folder of the sources").flatten();
        let (inner, found): (Vec<_>, Vec<_>) =
            entries.map(|it| it.path()).partition(|it| it.is_dir());
        folders.extend(inner);
        files.extend(found);
    }
    files
}

/// The sources of all crates: blanks and line breaks folded, quotes without their escapes.
fn sources() -> String {
    let mut all = String::new();
    for path in files(&["base", "runtime", "services", "lab", "museum", "cli", "tests"]) {
        let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if ["rs", "html", "toml", "js"].contains(&ending) {
            all += &std::fs::read_to_string(&path).unwrap_or_default();
        }
    }
    all.replace("\\\n", " ").replace("\\\"", "\"").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts of the errors that commands make in `source`, with a 7 for each value in them.
fn errors(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let makers = ["bail!(", "anyhow!(", ".context(", ".with_context("];
    let calls =
        makers.iter().flat_map(|maker| code.match_indices(*maker).map(|it| it.0 + maker.len()));
    let text = |at: usize| {
        let call = code[at..].trim_start().trim_start_matches("|| ").trim_start_matches("format!(");
        let mut letters = call.trim_start().strip_prefix('"')?.chars();
        let (mut text, mut depth) = (String::new(), 0);
        while let Some(letter) = letters.next() {
            match letter {
                '"' => return Some(text),
                '\\' => match letters.next()? {
                    '\n' => letters = letters.as_str().trim_start().chars(),
                    'n' => text.push('\n'),
                    other => text.push(other),
                },
                '{' => {
                    depth += 1;
                    text.extend((depth == 1).then_some('7'));
                }
                '}' => depth -= 1,
                other => text.extend((depth == 0).then_some(other)),
            }
        }
        None
    };
    calls.filter_map(text).collect()
}

#[test]
fn each_error_of_a_command_is_translated() {
    let korean = language::korean();
    let mut missing = BTreeSet::new();
    let ours = ["cli/src", "cli/tools/src", "lab/lab/src", "lab/tune/src"];
    let folders = [&ours[..], &["runtime/server/src", "services/market/src"]].concat();
    for path in files(&folders).into_iter().filter(|path| !path.ends_with("tests.rs")) {
        let source = std::fs::read_to_string(path).unwrap_or_default();
        // One word, a path or a value needs no translation.
        let is_word = |it: &&str| it.bytes().filter(u8::is_ascii_alphabetic).count() > 1;
        let is_text = |text: &String| text.split(' ').filter(is_word).count() > 1;
        let is_korean = |text: &str| text.chars().any(|c| ('가'..='힣').contains(&c));
        let errors = errors(&source).into_iter().filter(is_text);
        missing.extend(errors.filter(|text| !is_korean(&korean.text(text))));
    }
    assert!(missing.is_empty(), "ko.po lacks {}: {missing:#?}", missing.len());
}

/// The pieces of which a text of the sources may be put together.
const RUNS_MAX: usize = 4;

#[test]
fn each_translation_is_of_a_text_that_exists() {
    let (korean, texts, sources) = (language::korean(), texts(), sources());
    let by_clap = |id: &str| {
        let starts = ["error: ", "tip: ", "[", "Usage", "Print ", "Possible", "For more"];
        let parsed = ["digit found", "parse integer", "too large to fit", "is not in", "(os error"];
        starts.iter().any(|it| id.starts_with(it)) || parsed.iter().any(|it| id.contains(it))
    };
    // Ten times as fast as the search of the standard library.
    let find_text = |text: &str| memchr::memmem::find(sources.as_bytes(), text.as_bytes());
    // Texts are put together at run time, so a piece may be made of a few that stand apart.
    let runs = |piece: &str| {
        let (mut words, mut count) = (piece, 0);
        while !words.is_empty() {
            let has = |end: &usize| find_text(&words[..*end]).is_some();
            let ends = words.match_indices(' ').map(|it| it.0).take_while(has);
            // Most pieces stand as a whole in one place, which one search finds.
            let Some(end) = Some(words.len()).filter(has).or_else(|| ends.last()) else {
                return usize::MAX;
            };
            (words, count) = (words[end..].trim_start(), count + 1);
        }
        count
    };
    let exists = |id: &str| {
        let outside = id.split('{').map(|it| it.split_once('}').map_or(it, |it| it.1));
        let mut pieces = outside.flat_map(|it| it.split(&['(', ')', ',', ';', ':', '.', '?', '%']));
        texts.contains(id)
            || pieces
                .all(|it| runs(&it.split_whitespace().collect::<Vec<_>>().join(" ")) <= RUNS_MAX)
    };
    let entries = korean.entries().iter().map(|it| it.id.as_str());
    let stale: Vec<&str> = entries.filter(|id| !by_clap(id) && !exists(id)).collect();
    assert!(stale.is_empty(), "no source has {}:\n{}", stale.len(), stale.join("\n"));
}

#[test]
fn the_list_of_commands_has_each_command_once_and_fits_80_columns() {
    let english = crate::grammar().term_width(80);
    let korean = spoken(shown(crate::grammar(), false).term_width(80), &language::korean());
    for mut command in [english.clone(), korean] {
        let help = command.render_help().to_string();
        for line in help.lines() {
            assert!(stats::words::columns(line) <= 80, "{line}");
        }
        for next in english.get_subcommands().filter(|next| !next.is_hide_set()) {
            let start = format!("  {} ", next.get_name());
            let lines = help.lines().filter(|line| line.starts_with(&start)).count();
            assert_eq!(lines, 1, "{start} in {help}");
        }
    }
}

#[test]
fn help_fits_80_columns_and_korean_help_is_korean() {
    let check_width = |command: &clap::Command| {
        let help = command.clone().term_width(80).render_long_help().to_string();
        for line in help.lines() {
            assert!(stats::words::columns(line) <= 80, "{}: {line}", command.get_name());
        }
        help
    };
    let english = crate::grammar().term_width(80);
    crate::examples::tests::each(&english, &mut |command| drop(check_width(command)));
    let korean = spoken(shown(crate::grammar(), true).term_width(80), &language::korean());
    crate::examples::tests::each(&korean, &mut |command| {
        let help = check_width(command);
        assert!(help.chars().any(|c| ('가'..='힣').contains(&c)), "{help}");
        for words in ["Options:", "Usage:", "Arguments:", "[default: ", "[possible", "Print help"] {
            assert!(!help.contains(words), "{}: {words}", command.get_name());
        }
    });
}

/// Flags of other programs, and of those made with the library, that the documents mention.
const FOREIGN: &str = "\
    --all --all-targets --bare --bin --binary --by-hand --check --define --doc --duration \
    --example --features --git --headless --health-cmd --http2 --http2-prior-knowledge --include \
    --init --io-threads --join --manifest-path --name --network --no-default-features --now --out \
    --package --path --pre-vote --print --profile --protocol --read-only --release --rm --rps \
    --rtsp-transport --run-time --security-opt --sout --spawn-rate --standalone --state-file \
    --strip-components --test --unix-socket --users --variant --vus --webroot --workspace \
    --write";

/// The long names of all flags of `command` and the commands below it.
fn longs(command: &clap::Command, into: &mut BTreeSet<String>) {
    for arg in command.get_arguments() {
        let names = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
        into.extend(names.map(|name| format!("--{name}")));
    }
    command.get_subcommands().for_each(|next| longs(next, into));
}

/// A doubt, a gate or a server that does not start is seen after `ab` and after `race`.
#[test]
fn each_hint_about_a_race_names_flags_of_ab_and_of_race() {
    let lab = root().join("lab/lab/src");
    let grammar = crate::grammar();
    let mut hints = 0;
    for file in ["doubts.rs", "condition.rs", "server.rs"] {
        let text = std::fs::read_to_string(lab.join(file)).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_text =
            |line: &&str| !line.trim_start().starts_with("//") && !line.contains("redis:");
        for line in code.lines().filter(is_text) {
            for (at, _) in line.match_indices("--") {
                let is_name = |c: &char| c.is_ascii_lowercase() || *c == '-';
                let flag: String = line[at + 2..].chars().take_while(is_name).collect();
                if flag.is_empty() || !line[..at].ends_with([' ', '`', '(']) {
                    continue;
                }
                hints += 1;
                for name in ["ab", "race"] {
                    let command = grammar.find_subcommand(name).expect("a command");
                    let has = command.get_arguments().any(|it| it.get_long() == Some(&flag));
                    assert!(has, "{name} has no --{flag}, which {file} names: {line}");
                }
            }
        }
    }
    assert!(hints > 3, "{hints} hints were found");
}

#[test]
fn each_flag_in_the_documents_exists() {
    let mut known: BTreeSet<String> = FOREIGN.split_whitespace().map(str::to_owned).collect();
    let mut grammar = shown(crate::grammar(), true);
    grammar.build();
    longs(&grammar, &mut known);
    let folders = ["", "docs", "docs/ko", "docs/tutorials"].map(|folder| root().join(folder));
    let entries = folders.iter().flat_map(|it| std::fs::read_dir(it).expect("a folder").flatten());
    // The list of changes keeps the flags of earlier versions.
    let pages = entries
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == "md") && !it.ends_with("CHANGELOG.md"));
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            let is_flag = word.starts_with("--") && !word.ends_with('-');
            assert!(!is_flag || known.contains(word), "{}: no help has {word}", page.display());
        }
    }
}

/// The number of flags that a help shows.
fn flags(help: &str) -> usize {
    let is_flag = |line: &&str| line.starts_with("  -") || line.starts_with("      --");
    help.lines().filter(is_flag).count()
}

/// The most flags that `--help` shows; all of them stand under `--help-all`.
const FLAGS_MAX: usize = 40;

#[test]
fn a_help_shows_the_flags_that_most_users_need_and_says_how_to_see_the_rest() {
    let all = shown(crate::grammar(), true);
    let mut brief = shown(crate::grammar(), false).term_width(80);
    // A built command has the flags that every command has.
    brief.build();
    let mut rest = 0;
    crate::examples::tests::each(&brief, &mut |command| {
        let name = command.get_name().to_owned();
        let help = command.clone().render_long_help().to_string();
        assert!(flags(&help) <= FLAGS_MAX, "{name}: {} flags", flags(&help));
        let hidden = command.get_arguments().filter(|arg| arg.is_hide_set()).count();
        if command.get_arguments().any(|arg| arg.get_id() == "help-all") {
            let last = help.trim_end().lines().next_back().unwrap_or_default();
            assert!(last.starts_with("--help-all shows ") && hidden > 0, "{name}: {last}");
            rest += 1;
        }
    });
    assert!(rest > 4, "{rest} commands with more flags");
    crate::examples::tests::each(&all, &mut |command| {
        let mut shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        assert!(shown.all(|arg| !arg.is_hide_short_help_set()), "{}", command.get_name());
    });
}
