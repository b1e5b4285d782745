//! The verdict of all findings of an exhibit, and the paragraphs that may explain it.
//!
//! | figure returns | cause shows | claim holds | conclusion |
//! |---|---|---|---|
//! | no | | | refuted |
//! | yes | | yes | reproduced |
//! | yes | yes | | artefact explained |
//! | | | yes | reproduced, where no finding repeats a figure |
//! | yes | no | no | refuted |
//! | all others | | | unresolved |
//!
//! A column is `yes` if all its findings are, and `no` if one is. A paragraph that rests on a
//! finding appears only if the finding came out; where it did not, the page says what was found
//! instead. So an explanation cannot contradict the data that it explains.

use crate::text::{Reason, Shows, Text};
use document::{CameOut, Conclusion, Finding};
use stats::words;

/// The conclusion from all answers of each kind: figure, cause, claim.
fn conclude([figure, cause, claim]: [Option<CameOut>; 3]) -> Conclusion {
    use CameOut::{No, Yes};
    match (figure, cause, claim) {
        (Some(No), ..) => Conclusion::Refuted,
        (Some(Yes) | None, _, Some(Yes)) => Conclusion::Reproduced,
        (Some(Yes), Some(Yes), _) => Conclusion::Explained,
        (Some(Yes), Some(No), Some(No)) => Conclusion::Refuted,
        _ => Conclusion::Unresolved,
    }
}

/// The answer to the expectations of one kind together; one that was not measured is open.
fn answer(findings: &[Finding], text: &Text, shows: Shows) -> Option<CameOut> {
    let has = |name: &str| findings.iter().any(|it| it.name == name);
    let decides = text.findings.iter().filter(|(name, it)| !it.optional || has(name));
    let answers = decides.filter_map(|(name, it)| match (it.shows, came_out(findings, name)) {
        (kind, came_out) if kind == shows => Some(came_out),
        (Shows::Denial, CameOut::Yes) if shows == Shows::Figure => Some(CameOut::No),
        (Shows::Denial, CameOut::No) if shows == Shows::Figure => Some(CameOut::Yes),
        (Shows::Denial, CameOut::Open) if shows == Shows::Figure => Some(CameOut::Open),
        _ => None,
    });
    answers.min()
}

fn came_out(findings: &[Finding], name: &str) -> CameOut {
    findings.iter().find(|it| it.name == name).map_or(CameOut::Open, |it| it.came_out)
}

/// The conclusion, and the reason for it in a sentence, which names the findings that speak against
/// the expected conclusion.
pub fn of(findings: &[Finding], text: &Text) -> (Conclusion, String) {
    let kinds = [Shows::Figure, Shows::Cause, Shows::Claim];
    let conclusion = conclude(kinds.map(|shows| answer(findings, text, shows)));
    let deciding = |want: CameOut| {
        let decides = |it: &&Finding| match text.findings.get(&it.name).map(|it| it.shows) {
            None | Some(Shows::Detail) => false,
            Some(Shows::Denial) if want != CameOut::Open => it.came_out != want,
            _ => it.came_out == want,
        };
        findings.iter().filter(decides).map(said).collect::<Vec<_>>().join("; ")
    };
    let concluded = match conclusion {
        Conclusion::Reproduced => "The published conclusion holds here too.".to_string(),
        Conclusion::Explained => {
            "The published figure returns with the flaw, and the flaw makes the difference.".into()
        }
        Conclusion::Refuted => format!("It does not come out here. {}.", deciding(CameOut::No)),
        Conclusion::Unresolved => match [CameOut::No, CameOut::Open].map(deciding) {
            [no, open] if no.is_empty() && open.is_empty() => "Not everything was measured.".into(),
            [no, open] if no.is_empty() => format!("The data cannot decide. {open}."),
            [no, _] => format!("The named cause does not show here. {no}."),
        },
    };
    (conclusion, concluded)
}

fn said(it: &Finding) -> String {
    let found = it.found(words::number);
    format!("Expected: {}; {} (found {found})", it.expected, it.came_out)
}

/// The paragraphs that the findings permit, as templates; what replaces the others has no braces.
pub fn reasons(findings: &[Finding], text: &Text) -> Vec<String> {
    let paragraph = |it: &Reason| match it {
        Reason::Law(text) => text.clone(),
        Reason::Found { findings: names, text } => {
            let worst = names.iter().min_by_key(|name| came_out(findings, name));
            let found = worst.and_then(|name| findings.iter().find(|it| it.name == *name));
            match (found.map(|it| it.came_out), found) {
                (Some(CameOut::Yes), _) => text.clone(),
                (Some(CameOut::No), Some(it)) => {
                    format!("One expected cause did not show on this machine. {}.", said(it))
                }
                (_, Some(it)) => format!("One cause remains open here. {}.", said(it)),
                _ => "One cause was not measured here.".to_string(),
            }
        }
    };
    text.why.iter().map(paragraph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXHIBITS;
    use CameOut::{No, Open, Yes};

    /// Calls `check` with every combination of answers, and of findings that are absent.
    fn combinations(text: &Text, mut check: impl FnMut(&[Finding])) {
        let named = text.why.iter().flat_map(|it| match it {
            Reason::Law(_) => &[][..],
            Reason::Found { findings, .. } => findings,
        });
        let decides = text.findings.iter().filter(|it| it.1.shows != Shows::Detail).map(|it| it.0);
        let names: std::collections::BTreeSet<&String> = named.chain(decides).collect();
        for mut code in 0..4_usize.pow(names.len() as u32) {
            let mut findings = Vec::new();
            for name in &names {
                let came_out = [Some(Yes), Some(No), Some(Open), None][code % 4];
                code /= 4;
                findings.extend(came_out.map(|came_out| Finding {
                    name: (*name).clone(),
                    came_out,
                    value: 1.0,
                    range: None,
                    expected: String::new(),
                }));
            }
            check(&findings);
        }
    }

    #[test]
    fn no_paragraph_contradicts_a_finding_in_any_combination() {
        for exhibit in EXHIBITS {
            let (name, text) = (exhibit.name(), exhibit.text());
            combinations(&text, |findings| {
                let shown = reasons(findings, &text);
                assert_eq!(shown.len(), text.why.len());
                for (paragraph, reason) in shown.iter().zip(&text.why) {
                    let Reason::Found { findings: names, text } = reason else { continue };
                    let all = names.iter().all(|name| came_out(findings, name) == Yes);
                    assert_eq!(paragraph == text, all, "{name}: {paragraph}");
                }
                let causes = |shows| answer(findings, &text, shows) == Some(Yes);
                let (conclusion, concluded) = of(findings, &text);
                let explained = conclusion == Conclusion::Explained;
                assert!(!explained || causes(Shows::Figure) && causes(Shows::Cause), "{name}");
                let held = conclusion == Conclusion::Reproduced;
                assert!(!held || causes(Shows::Claim), "{name}");
                let denies = text.findings.values().any(|it| it.shows == Shows::Denial);
                assert!(denies || !explained || !concluded.contains("NO"), "{name}: {concluded}");
            });
        }
    }

    #[test]
    fn every_exhibit_expects_a_conclusion_that_its_findings_can_reach() {
        for exhibit in EXHIBITS {
            let (name, text) = (exhibit.name(), exhibit.text());
            let of_kind = |shows| text.findings.iter().filter(move |it| it.1.shows == shows);
            let repeats = [Shows::Figure, Shows::Denial, Shows::Claim];
            let count: usize = repeats.iter().map(|it| of_kind(*it).count()).sum();
            assert!(count > 0, "{name}: no finding shows the figure or the claim");
            for (cause, _) in of_kind(Shows::Cause) {
                let rests = |it: &Reason| match it {
                    Reason::Law(_) => false,
                    Reason::Found { findings, .. } => findings.contains(cause),
                };
                assert!(text.why.iter().any(rests), "{name}: no reason rests on {cause}");
            }
            let mut reached = false;
            combinations(&text, |findings| {
                reached |= text.expects.contains(&of(findings, &text).0)
            });
            assert!(reached && !text.expects.contains(&Conclusion::Unresolved), "{name}");
        }
    }

    #[test]
    fn a_figure_that_does_not_return_is_refuted_whatever_else_came_out() {
        let check = |all: [CameOut; 3], want| assert_eq!(conclude(all.map(Some)), want, "{all:?}");
        check([No, Yes, Yes], Conclusion::Refuted);
        check([Yes, No, Yes], Conclusion::Reproduced);
        check([Yes, Yes, No], Conclusion::Explained);
        check([Yes, No, No], Conclusion::Refuted);
        check([Yes, Open, No], Conclusion::Unresolved);
        check([Open, Yes, Yes], Conclusion::Unresolved);
        assert_eq!(conclude([Some(Yes), Some(Yes), None]), Conclusion::Explained);
    }
}
